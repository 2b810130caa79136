package queue

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session/driver"
)

// entries makes exclusive entries at these places.
func entries(places ...int64) []driver.Entry {
	var es []driver.Entry
	for _, p := range places {
		es = append(es, driver.Entry{Ref: driver.Ref{Line: "n", Key: fmt.Sprint("k", p%3), Place: p}})
	}
	return es
}

func refs(places ...int64) []driver.Ref {
	var rs []driver.Ref
	for _, e := range entries(places...) {
		rs = append(rs, e.Ref)
	}
	return rs
}

func TestMutexRule(t *testing.T) {
	for name, c := range map[string]struct {
		ahead Ahead
		want  Verdict
	}{
		"nobody ahead":              {Ahead{Complete: true}, Verdict{Hold: true}},
		"nothing known":             {Ahead{}, Verdict{More: true}},
		"one ahead":                 {Ahead{Entries: entries(4), Complete: true}, Verdict{Wait: refs(4)}},
		"the nearest of several":    {Ahead{Entries: entries(4), Complete: false}, Verdict{Wait: refs(4)}},
		"two ahead":                 {Ahead{Entries: entries(4, 7), Complete: true}, Verdict{Wait: refs(7), Soon: refs(4)}},
		"the two nearest of many":   {Ahead{Entries: entries(4, 7), Complete: false}, Verdict{Wait: refs(7), Soon: refs(4)}},
		"more than it asked to see": {Ahead{Entries: entries(1, 4, 7), Complete: true}, Verdict{Wait: refs(7), Soon: refs(4)}},
	} {
		assert.Equal(t, c.want, mutex(c.ahead, driver.Entry{}), name)
	}
}

// ruled is a rule, and the modes of those that stand in its lines.
type ruled struct {
	Rule
	modes []driver.Mode
}

// rules are those that go by who is ahead, and by nothing else; each must keep the
// properties below.
func rules() map[string]ruled {
	return map[string]ruled{
		"mutex":     {Mutex(), []driver.Mode{driver.Exclusive}},
		"readwrite": {ReadWrite(), []driver.Mode{driver.Exclusive, driver.Shared}},
	}
}

// drawLine draws a line of places, the part of it that a look shows, and an entry
// behind it.
func (r ruled) drawLine(t *rapid.T) (line []driver.Entry, known Ahead, mine driver.Entry) {
	places := rapid.SliceOfNDistinct(rapid.Int64Range(1, 1000), 0, 12, rapid.ID[int64]).Draw(t, "places")
	slices.Sort(places)
	line = entries(places...)
	mode := rapid.SampledFrom(r.modes)
	for i := range line {
		line[i].Mode = mode.Draw(t, "mode")
		line[i].Foreign = rapid.Bool().Draw(t, "foreign")
	}
	from := rapid.IntRange(0, len(line)).Draw(t, "known from")
	mine = driver.Entry{Ref: driver.Ref{Line: "n", Key: "mine", Place: 1001}, Mode: mode.Draw(t, "own mode")}
	return line, Ahead{Entries: line[from:], Complete: from == 0}, mine
}

// shared is a line in which an entry is shared from now on.
func shared(line []driver.Entry, i int) []driver.Entry {
	line = slices.Clone(line)
	line[i].Mode = driver.Shared
	return line
}

func TestRulesAreMonotone(t *testing.T) {
	for name, r := range rules() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			_, known, mine := r.drawLine(t)
			held := r.Decide(known, mine).Hold
			for len(known.Entries) > 0 {
				i := rapid.IntRange(0, len(known.Entries)-1).Draw(t, "which")
				if len(r.modes) > 1 && rapid.Bool().Draw(t, "is shared") {
					known.Entries = shared(known.Entries, i)
				} else {
					known = known.without(known.Entries[i].Ref)
				}
				now := r.Decide(known, mine).Hold
				if held && !now {
					t.Fatal("fewer ahead took a hold away")
				}
				held = now
			}
			if known.Complete && !held {
				t.Fatal("nobody is ahead, and it does not hold")
			}
		}))
	}
}

func TestRulesNeverGrantOnHalfALine(t *testing.T) {
	for name, r := range rules() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			line, known, mine := r.drawLine(t)
			v := r.Decide(known, mine)
			whole := r.Decide(Ahead{Entries: line, Complete: true}, mine)
			if v.Hold && !whole.Hold {
				t.Fatal("granted by what is known, and not by the line")
			}
			if v.Hold && (v.More || len(v.Wait) > 0) {
				t.Fatal("holds and waits")
			}
			if !v.Hold && !v.More && len(v.Wait) == 0 {
				t.Fatal("waits for nothing: nobody would ever wake it")
			}
			if whole.More {
				t.Fatal("the whole line does not suffice")
			}
		}))
	}
}

// TestBlockingSetsBlock: while none of the set leaves, nor changes if that matters,
// nothing that the others do can admit the seat. So whoever waits for the set
// misses no admission.
func TestBlockingSetsBlock(t *testing.T) {
	for name, r := range rules() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			line, known, mine := r.drawLine(t)
			v := r.Decide(known, mine)
			if v.Hold || v.More {
				return
			}
			blocks := func(e driver.Entry) bool { return slices.Contains(v.Wait, e.Ref) }
			rest := slices.DeleteFunc(slices.Clone(line), func(e driver.Entry) bool {
				return !blocks(e) && rapid.Bool().Draw(t, "leaves")
			})
			for i, e := range rest {
				if len(r.modes) > 1 && !(blocks(e) && v.Changes) && rapid.Bool().Draw(t, "is shared") {
					rest = shared(rest, i)
				}
			}
			if r.Decide(Ahead{Entries: rest, Complete: true}, mine).Hold {
				t.Fatalf("admitted while %v stood", v.Wait)
			}
		}))
	}
}

func TestAheadWithout(t *testing.T) {
	a := Ahead{Entries: entries(1, 4, 7), Complete: true}
	assert.Equal(t, Ahead{Entries: entries(1, 7), Complete: true}, a.without(refs(4)[0]))
	assert.Equal(t, entries(1, 4, 7), a.Entries, "what others share is not changed")
	assert.Equal(t, a, a.without(refs(10)[0]), "the key of 1, 4 and 7 used again is another entry")
	assert.True(t, a.nearest(refs(7)[0]))
	assert.False(t, a.nearest(refs(4)[0]))
	assert.False(t, Ahead{}.nearest(refs(4)[0]))
}

func FuzzMutexRule(f *testing.F) {
	f.Add([]byte{}, true)
	f.Add([]byte{1, 4, 7}, false)
	f.Fuzz(func(t *testing.T, places []byte, complete bool) {
		slices.Sort(places)
		var es []driver.Entry
		for _, p := range slices.Compact(places) {
			es = append(es, entries(int64(p))...)
		}
		v := mutex(Ahead{Entries: es, Complete: complete}, driver.Entry{})
		if v.Hold != (len(es) == 0 && complete) {
			t.Fatalf("hold %t with %d ahead, complete %t", v.Hold, len(es), complete)
		}
		if len(es) > 0 && v.Wait[0] != es[len(es)-1].Ref {
			t.Fatal("does not wait for the nearest")
		}
	})
}
