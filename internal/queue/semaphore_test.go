package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// permits reads a line: the weights in order, a star on those that have noted
// that they hold, x for a foreign entry, e for one of ours that excludes all.
// Places are counted from 1.
func permits(t require.TestingT, line string) []driver.Entry {
	var es []driver.Entry
	for i, word := range strings.Fields(line) {
		e := driver.Entry{Ref: permitRef(i + 1), Mode: driver.Weighted}
		word, e.Admitted = strings.CutSuffix(word, "*")
		switch word {
		case "x":
			e.Foreign, e.Mode = true, driver.Exclusive
		case "e":
			e.Mode = driver.Exclusive
		case "max":
			e.Weight = math.MaxInt64
		default:
			w, err := strconv.ParseInt(word, 10, 64)
			require.NoError(t, err)
			e.Weight = w
		}
		es = append(es, e)
	}
	return es
}

func permitRef(place int) driver.Ref {
	return driver.Ref{Line: "n", Key: fmt.Sprint("k", place%3), Place: int64(place)}
}

// said is a verdict as the table writes it.
func said(v Verdict) string {
	var words []string
	if v.Hold {
		words = append(words, "hold")
	}
	if v.More {
		words = append(words, "more")
	}
	if errors.Is(v.Err, session.ErrWeight) {
		words = append(words, "too much")
	}
	for _, r := range v.Wait {
		words = append(words, fmt.Sprint("@", r.Place))
	}
	if v.Changes {
		words = append(words, "or its note")
	}
	if v.Admitted {
		words = append(words, "or an admitted one")
	}
	return strings.Join(words, " ")
}

func TestSemaphoreRule(t *testing.T) {
	for _, c := range []struct {
		name  string
		line  string // what is known of it; "... " in front if that is not all
		mine  int64
		limit int64
		more  int // how many stand ahead beyond those that are known
		want  string
	}{
		{"nobody ahead", "", 1, 1, 0, "hold"},
		{"all of it", "", 7, 7, 0, "hold"},
		{"fits beside those ahead, admitted or not", "2* 1 1*", 3, 7, 0, "hold"},
		{"the last one", "1 1", 1, 3, 0, "hold"},
		{"behind the only holder, who has noted nothing yet", "1", 1, 1, 0, "@1"},
		{"behind holders", "1* 1*", 1, 2, 0, "or an admitted one"},
		{"behind holders, some have noted it", "1* 1", 1, 2, 0, "@2 or an admitted one"},
		{"large behind small", "1* 1*", 2, 3, 0, "or an admitted one"},
		{"behind one who waits", "1* 1", 1, 1, 0, "@2 or its note"},
		{"small behind large", "1* 2", 1, 2, 0, "@2 or its note"},
		{"small behind large, though it would fit", "1* 3", 1, 3, 0, "@2 or its note"},
		{"behind several who wait", "1* 1 1", 1, 1, 0, "@3 or its note"},
		{"behind more than the limit was lowered to", "1* 1* 1*", 1, 1, 0, "or an admitted one"},
		{"behind one who was admitted before the limit was lowered", "1* 1* 1", 1, 1, 0, "@3 or its note"},

		{"nothing known", "... ", 1, 1, 0, "more"},
		{"half the line, the nearest holds", "... 1*", 1, 2, 5, "more"},
		{"half the line, the nearest may hold by now", "... 1", 1, 5, 4, "more"},
		{"half the line, the nearest cannot hold", "... 1", 1, 5, 5, "@1 or its note"},
		{"no limit known", "", 1, 0, 0, "more"},
		{"no limit known, somebody ahead", "1*", 1, 0, 0, "more"},

		{"more than there are", "", 3, 2, 0, "too much"},
		{"more than there are, nothing known", "... ", 3, 2, 5, "too much"},

		{"behind a foreign entry", "x", 1, 9, 0, "@1"},
		{"behind a foreign entry that waits", "1* x", 1, 9, 0, "@2 or its note"},
		{"a foreign entry and one who waits for it", "x 1", 1, 9, 0, "@2 or its note"},
		{"behind a mutex", "e", 1, 9, 0, "@1"},
		{"who says nothing has one", "0* -5*", 1, 2, 0, "or an admitted one"},
		{"who wants nothing gets one", "1*", 0, 1, 0, "or an admitted one"},

		{"as many as can be counted", "max", 1, math.MaxInt64, 0, "@1"},
		{"one beside as many as can be counted", "9223372036854775806*", 1, math.MaxInt64, 0, "hold"},
		{"more than can be counted", "max* max* 1", 1, math.MaxInt64 - 1, 0, "@3 or its note"},
		{"more than can be counted, all admitted", "max* max*", 1, 1, 0, "or an admitted one"},
		{"foreign entries of as many as can be counted", "x x", math.MaxInt64, math.MaxInt64, 0, "@1 @2"},
	} {
		line, half := strings.CutPrefix(c.line, "...")
		a := Ahead{Entries: permits(t, line), Complete: !half, Limit: c.limit}
		a.Count = len(a.Entries) + c.more
		mine := driver.Entry{Ref: permitRef(100), Mode: driver.Weighted, Weight: c.mine}
		assert.Equal(t, c.want, said(Semaphore().Decide(a, mine)), "%s: %q", c.name, c.line)
	}
}

// drawPermit draws an entry: mostly few permits, now and then as many as the
// limit or a number that a sum of two cannot hold.
func drawPermit(t *rapid.T, place int, limit int64) driver.Entry {
	e := driver.Entry{Ref: permitRef(place), Mode: driver.Weighted, Admitted: rapid.Bool().Draw(t, "admitted")}
	switch rapid.SampledFrom([]string{"few", "few", "few", "any", "odd", "foreign", "exclusive"}).Draw(t, "entry") {
	case "few":
		e.Weight = rapid.Int64Range(1, 3).Draw(t, "weight")
	case "any":
		e.Weight = rapid.Int64Range(1, limit).Draw(t, "weight")
	case "odd":
		e.Weight = rapid.SampledFrom([]int64{0, -1, math.MinInt64, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64}).Draw(t, "weight")
	case "foreign":
		e.Foreign, e.Mode, e.Admitted = true, driver.Exclusive, false
	case "exclusive":
		e.Mode, e.Admitted = driver.Exclusive, false
	}
	return e
}

// drawSeat draws a line and a seat at its end, and what the seat knows of the
// line: an end of it, and how many stood there at some time before.
func drawSeat(t *rapid.T) (line []driver.Entry, known Ahead, mine driver.Entry) {
	limit := drawLimit(t)
	for i := range rapid.IntRange(0, 8).Draw(t, "ahead") {
		line = append(line, drawPermit(t, i+1, limit))
	}
	mine = driver.Entry{Ref: permitRef(100), Mode: driver.Weighted, Weight: rapid.Int64Range(1, min(limit, 4)).Draw(t, "mine")}
	return line, drawKnown(t, line, limit), mine
}

func drawLimit(t *rapid.T) int64 {
	return rapid.OneOf(rapid.Int64Range(1, 12), rapid.SampledFrom([]int64{1 << 40, math.MaxInt64 - 1, math.MaxInt64})).Draw(t, "limit")
}

func drawKnown(t *rapid.T, line []driver.Entry, limit int64) Ahead {
	from := 0
	if rapid.Bool().Draw(t, "half") {
		from = rapid.IntRange(0, len(line)).Draw(t, "known from")
	}
	return Ahead{
		Entries: line[from:], Complete: from == 0, Limit: limit,
		Count: len(line) + rapid.IntRange(0, 3).Draw(t, "gone since"),
	}
}

// counted is how many permits an entry stands for, and total how many several
// do, without an end to the numbers.
func counted(e driver.Entry, limit int64) *big.Int {
	if e.Foreign || e.Mode != driver.Weighted {
		return big.NewInt(limit)
	}
	return big.NewInt(max(e.Weight, 1))
}

func total(es []driver.Entry, limit int64) *big.Int {
	sum := new(big.Int)
	for _, e := range es {
		sum.Add(sum, counted(e, limit))
	}
	return sum
}

// fits is the rule as one would explain it.
func fits(ahead []driver.Entry, mine driver.Entry, limit int64) bool {
	return total(append(slices.Clone(ahead), mine), limit).Cmp(big.NewInt(limit)) <= 0
}

func TestSemaphoreHoldsWhenItFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line, known, mine := drawSeat(t)
		v := Semaphore().Decide(known, mine)
		want := fits(line, mine, known.Limit)
		switch {
		case v.Hold && !want:
			t.Fatal("holds, and there are not enough permits")
		case known.Complete && v.Hold != want:
			t.Fatal("knows all of the line, and does not hold")
		case v.Hold && (!known.Complete || v.More || v.Admitted || len(v.Wait) > 0):
			t.Fatalf("holds, and waits or does not know: %+v", v)
		case !v.Hold && !v.More && !v.Admitted && len(v.Wait) == 0:
			t.Fatal("waits for nothing: nobody would ever wake it")
		case known.Complete && v.More:
			t.Fatal("wants to know more than all")
		case v.Err != nil:
			t.Fatal("is refused, and wants no more than the limit")
		}
	})
}

func TestSemaphoreRuleIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, known, mine := drawSeat(t)
		held := Semaphore().Decide(known, mine).Hold
		for len(known.Entries) > 0 {
			known = known.without(rapid.SampledFrom(known.Entries).Draw(t, "leaves").Ref)
			known.Limit += rapid.Int64Range(0, min(2, math.MaxInt64-known.Limit)).Draw(t, "raised by")
			now := Semaphore().Decide(known, mine).Hold
			if held && !now {
				t.Fatal("fewer ahead, or a higher limit, took a hold away")
			}
			held = now
		}
		if known.Complete && !held {
			t.Fatal("nobody is ahead, and it does not hold")
		}
	})
}

// TestSemaphoreHoldersFitTogether: everybody decides by what he saw at some time
// after he joined, others have left since, and he may know only a part.
func TestSemaphoreHoldersFitTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := drawLimit(t)
		var ever, holders []driver.Entry // who has ever stood in the line, and lives and holds
		gone := map[driver.Ref]bool{}
		for i := range rapid.IntRange(1, 10).Draw(t, "entries") {
			mine := drawPermit(t, i+1, limit)
			mine.Admitted = false
			seen := slices.DeleteFunc(slices.Clone(ever), func(e driver.Entry) bool {
				return gone[e.Ref] && rapid.Bool().Draw(t, "seen to have left")
			})
			if mine.Mode == driver.Weighted && Semaphore().Decide(drawKnown(t, seen, limit), mine).Hold {
				mine.Admitted = rapid.Bool().Draw(t, "noted")
			} else if mine.Mode == driver.Weighted || len(seen) > 0 {
				gone[mine.Ref] = rapid.Bool().Draw(t, "cancelled")
				ever = append(ever, mine)
				continue
			}
			ever = append(ever, mine)
			if gone[mine.Ref] = rapid.Bool().Draw(t, "gave back"); !gone[mine.Ref] {
				holders = append(holders, mine)
			}
		}
		if total(holders, limit).Cmp(big.NewInt(limit)) > 0 {
			t.Fatalf("%d have more than %d: %v", len(holders), limit, holders)
		}
	})
}

// TestSemaphoreBlockingSetsBlock: while none of the set leaves, a seat cannot be
// admitted by what others do, unless the one right before it is admitted first,
// which that one notes.
func TestSemaphoreBlockingSetsBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line, known, mine := drawSeat(t)
		v := Semaphore().Decide(known, mine)
		if v.Hold || v.More {
			return
		}
		rest := slices.DeleteFunc(slices.Clone(line), func(e driver.Entry) bool {
			kept := slices.Contains(v.Wait, e.Ref) || v.Admitted && e.Admitted
			return !kept && rapid.Bool().Draw(t, "leaves")
		})
		if !Semaphore().Decide(Ahead{Entries: rest, Complete: true, Limit: known.Limit}, mine).Hold {
			return
		}
		if n := len(rest) - 1; !v.Changes || v.Wait[0] != rest[n].Ref || rest[n].Admitted || !fits(rest[:n], rest[n], known.Limit) {
			t.Fatalf("admitted while what it waits for stood: %s", said(v))
		}
	})
}

func FuzzSemaphoreRule(f *testing.F) {
	f.Add([]byte{}, int64(1), int64(1), 0)
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0}, int64(3), int64(1), 1)
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 127, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2}, int64(math.MaxInt64), int64(math.MaxInt64), 0)
	f.Fuzz(func(t *testing.T, raw []byte, limit, weight int64, half int) {
		var line []driver.Entry // nine bytes each: a weight, and what it is
		for ; len(raw) >= 9; raw = raw[9:] {
			e := driver.Entry{Ref: permitRef(len(line) + 1), Mode: driver.Weighted, Weight: int64(binary.LittleEndian.Uint64(raw))}
			e.Admitted, e.Foreign = raw[8]&1 != 0, raw[8]&2 != 0
			line = append(line, e)
		}
		mine := driver.Entry{Ref: permitRef(1 << 20), Mode: driver.Weighted, Weight: weight}
		from := min(max(half, 0), len(line))
		v := Semaphore().Decide(Ahead{Entries: line[from:], Complete: from == 0, Count: len(line), Limit: limit}, mine)
		switch {
		case limit <= 0:
			assert.False(t, v.Hold, "no limit is known")
		case v.Hold:
			assert.True(t, fits(line, mine, limit), "holds, and does not fit")
		case weight > limit:
			assert.ErrorIs(t, v.Err, session.ErrWeight)
		case from == 0:
			assert.False(t, fits(line, mine, limit), "fits, and does not hold")
		}
	})
}
