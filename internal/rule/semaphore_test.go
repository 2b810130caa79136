package rule

import (
	"encoding/binary"
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

	"github.com/fairlock/fairlock/session/driver"
)

// permits reads a queue: the weights in order, a star on those that have the mark
// Admitted, x for an entry of another program, e for one of ours that excludes all.
// Places are counted from 1.
func permits(t require.TestingT, queue string) []*driver.Entry {
	var es []*driver.Entry
	for i, word := range strings.Fields(queue) {
		e := &driver.Entry{Ref: permitRef(i + 1), Mode: driver.Weighted}
		word, marked := strings.CutSuffix(word, "*")
		if marked {
			e.Marks = driver.MarkAdmitted
		}
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
	return driver.Ref{Queue: "n", Key: fmt.Sprint("k", place%3), Place: int64(place)}
}

func TestSemaphoreWaitsForTheOneBeforeThenForAnyHolder(t *testing.T) {
	for _, c := range []struct {
		name  string
		queue string // what is known of it; "... " in front if that is not all
		mine  int64
		limit int64
		more  int // how many are ahead beyond those that are known
		want  string
	}{
		{"none ahead", "", 1, 1, 0, "hold"},
		{"all permits", "", 7, 7, 0, "hold"},
		{"fits with those ahead, marked or not", "2* 1 1*", 3, 7, 0, "hold"},
		{"the last one", "1 1", 1, 3, 0, "hold"},
		{"behind the only holder, which has no mark yet", "1", 1, 1, 0, "front, wait for 1"},
		{"behind holders", "1* 1*", 1, 2, 0, "front, wait for 1, wait for 2"},
		{"behind holders, some have the mark", "1* 1", 1, 2, 0, "front, wait for 1, wait for 2"},
		{"large behind small", "1* 1*", 2, 3, 0, "front, wait for 1, wait for 2"},
		{"behind a waiter", "1* 1", 1, 1, 0, "wait for 2"},
		{"small behind large", "1* 2", 1, 2, 0, "wait for 2"},
		{"small behind large, though it would fit", "1* 3", 1, 3, 0, "wait for 2"},
		{"behind several waiters", "1* 1 1", 1, 1, 0, "wait for 3"},
		{"behind more than the limit was lowered to", "1* 1* 1*", 1, 1, 0, "front, wait for 3"},
		{"behind one that held before the limit was lowered", "1* 1* 1", 1, 1, 0, "wait for 3"},
		{"behind a mark that is behind a waiter", "1* 1 1*", 1, 2, 0, "front, wait for 2, wait for 3"},

		{"nothing known", "... ", 1, 1, 0, "more: 2"},
		{"part of the queue, the nearest holds", "... 1*", 1, 2, 5, "more: 8"},
		{"part of a long queue, the nearest holds", "... 1*", 1, 2, 500, "more: 501"},
		{"part of the queue, the nearest has all permits", "... 2*", 1, 2, 5, "front, wait for 1"},
		{"part of the queue, the nearest leaves too few", "... 2*", 3, 4, 5, "front, wait for 1"},
		{"behind one with all permits, whatever is ahead of it", "1 1 2*", 1, 2, 0, "front, wait for 3"},
		{"part of the queue, the nearest may hold by now", "... 1", 1, 5, 4, "more: 8"},
		{"part of the queue, the nearest cannot hold", "... 1", 1, 5, 5, "wait for 1"},
		{"no limit known", "", 1, 0, 0, "more: 2"},
		{"no limit known, one ahead", "1*", 1, 0, 0, "more: 8"},

		{"more than there are", "", 3, 2, 0, "never"},
		{"more than there are, nothing known", "... ", 3, 2, 5, "never"},

		{"behind an entry of another program", "x", 1, 9, 0, "front, wait for 1"},
		{"behind an entry of another program that waits", "1* x", 1, 9, 0, "wait for 2"},
		{"behind a waiter for another program", "x 1", 1, 9, 0, "wait for 2"},
		{"behind a mutex", "e", 1, 9, 0, "front, wait for 1"},
		{"a weight of nothing is one", "0* -5*", 1, 2, 0, "front, wait for 1, wait for 2"},
		{"a request for nothing is for one", "1*", 0, 1, 0, "front, wait for 1"},

		{"as many as can be counted", "max", 1, math.MaxInt64, 0, "front, wait for 1"},
		{"one with as many as can be counted", "9223372036854775806*", 1, math.MaxInt64, 0, "hold"},
		{"more than can be counted", "max* max* 1", 1, math.MaxInt64 - 1, 0, "wait for 3"},
		{"more than can be counted, all marked", "max* max*", 1, 1, 0, "front, wait for 2"},
		{"other programs' entries", "x x", math.MaxInt64, math.MaxInt64, 0, "front, wait for 2"},
	} {
		queue, part := strings.CutPrefix(c.queue, "...")
		a := Ahead{Entries: permits(t, queue), Complete: !part, Limit: c.limit}
		a.Count = len(a.Entries) + c.more
		mine := &driver.Entry{Ref: permitRef(100), Mode: driver.Weighted, Weight: c.mine}
		assert.Equal(t, c.want, show(Semaphore().Decide(a, mine)), "%s: %q", c.name, c.queue)
	}
}

// drawPermit draws an entry: mostly few permits, now and then as many as the limit or a
// number that a sum of two cannot hold.
func drawPermit(t *rapid.T, place int, limit int64) *driver.Entry {
	e := &driver.Entry{Ref: permitRef(place), Mode: driver.Weighted}
	if rapid.Bool().Draw(t, "marked") {
		e.Marks = driver.MarkAdmitted
	}
	switch rapid.SampledFrom([]string{"few", "few", "few", "any", "odd", "foreign", "exclusive"}).Draw(t, "entry") {
	case "few":
		e.Weight = rapid.Int64Range(1, 3).Draw(t, "weight")
	case "any":
		e.Weight = rapid.Int64Range(1, limit).Draw(t, "weight")
	case "odd":
		e.Weight = rapid.SampledFrom([]int64{0, -1, math.MinInt64, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64}).Draw(t, "weight")
	case "foreign":
		e.Foreign, e.Mode, e.Marks = true, driver.Exclusive, 0
	case "exclusive":
		e.Mode, e.Marks = driver.Exclusive, 0
	}
	return e
}

// drawWaiter draws a queue, an entry at its end, and what its owner knows of the queue:
// an end of it, and how many were ahead at some time before.
func drawWaiter(t *rapid.T) (queue []*driver.Entry, known Ahead, mine *driver.Entry) {
	limit := drawLimit(t)
	for i := range rapid.IntRange(0, 8).Draw(t, "ahead") {
		queue = append(queue, drawPermit(t, i+1, limit))
	}
	mine = &driver.Entry{Ref: permitRef(100), Mode: driver.Weighted, Weight: rapid.Int64Range(1, min(limit, 4)).Draw(t, "mine")}
	return queue, drawKnown(t, queue, limit), mine
}

func drawLimit(t *rapid.T) int64 {
	return rapid.OneOf(rapid.Int64Range(1, 12), rapid.SampledFrom([]int64{1 << 40, math.MaxInt64 - 1, math.MaxInt64})).Draw(t, "limit")
}

func drawKnown(t *rapid.T, queue []*driver.Entry, limit int64) Ahead {
	from := 0
	if rapid.Bool().Draw(t, "part") {
		from = rapid.IntRange(0, len(queue)).Draw(t, "known from")
	}
	return Ahead{
		Entries: queue[from:], Complete: from == 0, Limit: limit,
		Count: len(queue) + rapid.IntRange(0, 3).Draw(t, "gone since"),
	}
}

// count is total without an end to the numbers.
func count(es []*driver.Entry, limit int64) *big.Int {
	sum := new(big.Int)
	for _, e := range es {
		if e.Foreign || e.Mode != driver.Weighted {
			sum.Add(sum, big.NewInt(limit))
		} else {
			sum.Add(sum, big.NewInt(max(e.Weight, 1)))
		}
	}
	return sum
}

// fits is the rule in the words of its doc comment.
func fits(ahead []*driver.Entry, mine *driver.Entry, limit int64) bool {
	return count(append(slices.Clone(ahead), mine), limit).Cmp(big.NewInt(limit)) <= 0
}

func TestSemaphoreHoldsWhenItFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queue, known, mine := drawWaiter(t)
		v := Semaphore().Decide(known, mine)
		want := fits(queue, mine, known.Limit)
		switch {
		case v.Hold && !want:
			t.Fatal("holds, and there are not enough permits")
		case known.Complete && v.Hold != want:
			t.Fatal("knows all of the queue, and does not hold")
		case v.Hold && (!known.Complete || v.More > 0 || v.Front || len(v.Wait) > 0):
			t.Fatalf("holds, and waits or does not know: %s", show(v))
		case !v.Hold && v.More == 0 && !v.Front && len(v.Wait) == 0:
			t.Fatal("waits for nothing: it would never wake")
		case known.Complete && v.More > 0:
			t.Fatal("asks for more than all")
		case v.More > 0 && v.More <= len(known.Entries):
			t.Fatal("asks for what it knows: it would ask for ever")
		case v.Never:
			t.Fatal("is refused, and asks for no more than the limit")
		}
	})
}

func TestSemaphoreIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, known, mine := drawWaiter(t)
		held := Semaphore().Decide(known, mine).Hold
		for len(known.Entries) > 0 {
			i := rapid.IntRange(0, len(known.Entries)-1).Draw(t, "leaves")
			known.Entries = slices.Delete(slices.Clone(known.Entries), i, i+1)
			known.Limit += rapid.Int64Range(0, min(2, math.MaxInt64-known.Limit)).Draw(t, "raised by")
			now := Semaphore().Decide(known, mine).Hold
			if held && !now {
				t.Fatal("fewer ahead, or a higher limit, took a hold away")
			}
			held = now
		}
		if known.Complete && !held {
			t.Fatal("no entry is ahead, and it does not hold")
		}
	})
}

// Every owner decides by what it saw at some time after it joined. Others have left
// since, and it may know only a part.
func TestSemaphoreHoldersFitTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := drawLimit(t)
		var ever, holders []*driver.Entry // all that ever joined; those that live and hold
		gone := map[driver.Ref]bool{}
		for i := range rapid.IntRange(1, 10).Draw(t, "entries") {
			mine := drawPermit(t, i+1, limit)
			mine.Marks = 0
			seen := slices.DeleteFunc(slices.Clone(ever), func(e *driver.Entry) bool {
				return gone[e.Ref] && rapid.Bool().Draw(t, "seen to have left")
			})
			ever = append(ever, mine)
			holds := len(seen) == 0
			if mine.Mode == driver.Weighted {
				holds = Semaphore().Decide(drawKnown(t, seen, limit), mine).Hold
			}
			if holds && mine.Mode == driver.Weighted && rapid.Bool().Draw(t, "marks itself") {
				mine.Marks = driver.MarkAdmitted
			}
			if gone[mine.Ref] = rapid.Bool().Draw(t, "leaves"); holds && !gone[mine.Ref] {
				holders = append(holders, mine)
			}
		}
		if count(holders, limit).Cmp(big.NewInt(limit)) > 0 {
			t.Fatalf("%d have more than %d: %v", len(holders), limit, holders)
		}
	})
}

// While none of the blocking set leaves or gets a mark, an entry cannot hold by what
// others do, unless the one right before it holds first, and marks that.
func TestSemaphoreBlockingSetsBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queue, known, mine := drawWaiter(t)
		v := Semaphore().Decide(known, mine)
		if v.Hold || v.More > 0 {
			return
		}
		rest := slices.DeleteFunc(slices.Clone(queue), func(e *driver.Entry) bool {
			return !slices.Contains(v.Wait, e) && rapid.Bool().Draw(t, "leaves")
		})
		if !Semaphore().Decide(Ahead{Entries: rest, Complete: true, Limit: known.Limit}, mine).Hold {
			return
		}
		if n := len(rest) - 1; v.Front || v.Wait[0] != rest[n] || admitted(rest[n]) || !fits(rest[:n], rest[n], known.Limit) {
			t.Fatalf("holds while what it waits for stood: %s", show(v))
		}
	})
}

func FuzzSemaphore(f *testing.F) {
	f.Add([]byte{}, int64(1), int64(1), 0)
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0}, int64(3), int64(1), 1)
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 127, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2}, int64(math.MaxInt64), int64(math.MaxInt64), 0)
	f.Fuzz(func(t *testing.T, raw []byte, limit, weight int64, part int) {
		var queue []*driver.Entry // nine bytes each: a weight, and what it is
		for ; len(raw) >= 9; raw = raw[9:] {
			e := &driver.Entry{Ref: permitRef(len(queue) + 1), Mode: driver.Weighted, Weight: int64(binary.LittleEndian.Uint64(raw))}
			e.Foreign = raw[8]&2 != 0
			if raw[8]&1 != 0 {
				e.Marks = driver.MarkAdmitted
			}
			queue = append(queue, e)
		}
		mine := &driver.Entry{Ref: permitRef(1 << 20), Mode: driver.Weighted, Weight: weight}
		from := min(max(part, 0), len(queue))
		v := Semaphore().Decide(Ahead{Entries: queue[from:], Complete: from == 0, Count: len(queue), Limit: limit}, mine)
		switch {
		case limit <= 0:
			assert.False(t, v.Hold, "no limit is known")
		case v.Hold:
			assert.True(t, fits(queue, mine, limit), "holds, and does not fit")
		case weight > limit:
			assert.True(t, v.Never)
		case from == 0:
			assert.False(t, fits(queue, mine, limit), "fits, and does not hold")
		}
	})
}

func TestHoldersAreThoseThatTheRulesLetHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var queue []driver.Entry
		limit := drawLimit(t)
		for i := range rapid.IntRange(0, 8).Draw(t, "entries") {
			e := *drawPermit(t, i+1, limit)
			switch rapid.SampledFrom([]string{"permits", "reader", "became a reader"}).Draw(t, "kind") {
			case "reader":
				e.Mode = driver.Shared
			case "became a reader":
				e.Mode, e.Marks = driver.Exclusive, driver.MarkShared
			}
			queue = append(queue, e)
		}
		a := Ahead{Complete: true, Limit: limit}
		for i, holds := range Holders(queue, limit) {
			e := &queue[i]
			// A writer holds in its turn, and then becomes a reader.
			asked := *e
			if asked.Shares() {
				asked.Mode = driver.Shared
			}
			want := For(&asked).Decide(a, &asked).Hold || e.Mode == driver.Weighted && !e.Foreign && admitted(e)
			assert.Equal(t, want, holds, "entry %d", i)
			a.Entries = append(a.Entries, e)
		}
	})
}

// TestAWriterAndItsReaderBothHold: those of Curator have one number, and are in any order.
func TestAWriterAndItsReaderBothHold(t *testing.T) {
	w := driver.Entry{Ref: driver.Ref{Key: "w", Place: 1}, Mode: driver.Exclusive, Foreign: true}
	r := driver.Entry{Ref: driver.Ref{Key: "r", Place: 1}, Mode: driver.Shared, Foreign: true}
	behind := driver.Entry{Ref: driver.Ref{Key: "b", Place: 2}, Mode: driver.Shared}
	for _, queue := range [][]driver.Entry{{w, r, behind}, {r, w, behind}} {
		assert.Equal(t, []bool{true, true, false}, Holders(queue, 0))
	}
}

func TestHoldersWithoutALimitAreThoseThatAreMarked(t *testing.T) {
	var queue []driver.Entry
	for _, e := range permits(t, "1* 1 1*") {
		queue = append(queue, *e)
	}
	assert.Equal(t, []bool{true, false, true}, Holders(queue, 0))
}

func TestLimitsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, math.MaxInt64).Draw(t, "limit")
		got, err := LimitOf("x", driver.Record{Version: 1, Value: strconv.AppendInt(nil, limit, 10)})
		require.NoError(t, err)
		require.Equal(t, limit, got)
	})
}

func TestBrokenLimitsAreRefused(t *testing.T) {
	for _, v := range []string{"", "0", "-1", "+1", "01", "1 ", "1\n", "eight", "9223372036854775808", strings.Repeat("1", 1000)} {
		_, err := LimitOf("orders/settle", driver.Record{Version: 1, Value: []byte(v)})
		require.ErrorIs(t, err, driver.ErrRefused, "%q", v)
		assert.ErrorContains(t, err, `"limit" of queue "orders/settle"`, "an operator must know where to look")
		assert.Less(t, len(err.Error()), 200)
	}
}
