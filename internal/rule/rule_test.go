package rule

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session/driver"
)

// entries makes entries at the places 1, 2, 3 and so on: r is a reader, w a writer, d a
// writer that became a reader. A capital letter is an entry of another program.
func entries(letters string) []*driver.Entry {
	var es []*driver.Entry
	for i, m := range letters {
		e := &driver.Entry{Ref: driver.Ref{Queue: "n", Key: fmt.Sprint("k", i%3), Place: int64(i + 1)}}
		switch m {
		case 'r', 'R':
			e.Mode = driver.Shared
		case 'd':
			e.Marks = driver.MarkShared
		}
		e.Foreign = m == 'R' || m == 'W'
		es = append(es, e)
	}
	return es
}

// show is a verdict as tables write it, with places for entries.
func show(v Verdict) string {
	s := ""
	say := func(format string, args ...any) {
		if s != "" {
			s += ", "
		}
		s += fmt.Sprintf(format, args...)
	}
	if v.Hold {
		say("hold")
	}
	if v.More > 0 {
		say("more: %d", v.More)
	}
	if v.Never {
		say("never")
	}
	if v.Front {
		say("front")
	}
	for _, e := range v.Wait {
		say("wait for %d", e.Place)
	}
	if v.Next {
		say("next")
	}
	if v.Soon != nil {
		say("soon %d", v.Soon.Place)
	}
	return s
}

func TestMutexWaitsForTheNearest(t *testing.T) {
	for _, c := range []struct {
		name     string
		ahead    string
		complete bool
		want     string
	}{
		{"none ahead", "", true, "hold"},
		{"nothing known", "", false, "more: 2"},
		{"one ahead", "w", true, "wait for 1, next"},
		{"one known", "w", false, "wait for 1"},
		{"two ahead", "ww", true, "wait for 2, soon 1"},
		{"two known", "ww", false, "wait for 2, soon 1"},
		{"more than it asked to see", "www", true, "wait for 3, soon 2"},
		{"a reader ahead", "r", true, "wait for 1, next"},
		{"a writer that became a reader", "d", true, "wait for 1, next"},
		{"an entry of another program", "W", true, "wait for 1, next"},
	} {
		a := Ahead{Entries: entries(c.ahead), Complete: c.complete, Count: 100}
		assert.Equal(t, c.want, show(Mutex().Decide(a, &driver.Entry{})), c.name)
		assert.Equal(t, c.want, show(ReadWrite().Decide(a, &driver.Entry{})), "%s, as a writer", c.name)
	}
}

func TestReaderWaitsForTheNearestWriter(t *testing.T) {
	for _, c := range []struct {
		name     string
		ahead    string
		complete bool
		count    int
		want     string
	}{
		{"none ahead", "", true, 0, "hold"},
		{"nothing known of few", "", false, 1, "more: 2"},
		{"nothing known of many", "", false, 300, "more: 300"},
		{"nothing known of very many", "", false, 5000, "more: 1000"},
		{"behind readers", "rrr", true, 3, "hold"},
		{"behind some readers", "rrr", false, 20, "more: 24"},
		{"behind a writer", "w", true, 1, "wait for 1, next"},
		{"behind a waiting writer", "rrw", true, 3, "wait for 3, next"},
		{"behind readers and a writer", "wrr", true, 3, "wait for 1, next"},
		{"the nearest writer of many", "wrwrwr", true, 6, "wait for 5"},
		{"the nearest writer known", "wr", false, 9, "wait for 1"},
		{"a writer that became a reader", "d", true, 1, "hold"},
		{"a writer that became a reader, behind a writer", "wd", true, 2, "wait for 1, next"},
		{"behind a foreign writer", "rWr", true, 3, "wait for 2, next"},
		{"behind a foreign reader", "R", true, 1, "hold"},
	} {
		a := Ahead{Entries: entries(c.ahead), Complete: c.complete, Count: c.count}
		assert.Equal(t, c.want, show(ReadWrite().Decide(a, &driver.Entry{Mode: driver.Shared})), c.name)
	}
}

func TestMoreIsAtMostAFewReadsOfAnyQueue(t *testing.T) {
	readers := entries("")
	for range 100_000 {
		readers = append(readers, &driver.Entry{Mode: driver.Shared})
	}
	reads, known := 0, 0
	for known < len(readers) {
		a := Ahead{Entries: readers[len(readers)-known:], Count: len(readers)}
		known = min(len(readers), ReadWrite().Decide(a, &driver.Entry{Mode: driver.Shared}).More)
		reads++
	}
	assert.Equal(t, 4, reads)
}

// ruled is a rule with the letters of the entries in its queues.
type ruled struct {
	Rule
	letters string
}

// rules are those that go by what is ahead and by nothing else.
func rules() map[string]ruled {
	return map[string]ruled{"mutex": {Mutex(), "wW"}, "readwrite": {ReadWrite(), "rwdRW"}}
}

// draw draws a queue, the part of it that is known, and an entry behind it.
func (r ruled) draw(t *rapid.T) (queue []*driver.Entry, known Ahead, mine *driver.Entry) {
	letter := rapid.SampledFrom([]rune(r.letters))
	queue = entries(string(rapid.SliceOfN(letter, 0, 12).Draw(t, "queue")))
	from := rapid.IntRange(0, len(queue)).Draw(t, "known from")
	mine = entries(string(letter.Draw(t, "mine")))[0]
	mine.Place, mine.Marks = 1000, 0
	return queue, Ahead{Entries: queue[from:], Complete: from == 0, Count: len(queue)}, mine
}

// shared is a queue in which an entry has the mark Shared.
func shared(queue []*driver.Entry, i int) []*driver.Entry {
	queue, e := slices.Clone(queue), *queue[i]
	e.Marks |= driver.MarkShared
	queue[i] = &e
	return queue
}

func TestRulesAreMonotone(t *testing.T) {
	for name, r := range rules() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			_, known, mine := r.draw(t)
			held := r.Decide(known, mine).Hold
			for len(known.Entries) > 0 {
				i := rapid.IntRange(0, len(known.Entries)-1).Draw(t, "which")
				if rapid.Bool().Draw(t, "becomes shared") {
					known.Entries = shared(known.Entries, i)
				} else {
					known.Entries = slices.Delete(slices.Clone(known.Entries), i, i+1)
				}
				now := r.Decide(known, mine).Hold
				if held && !now {
					t.Fatal("fewer ahead took a hold away")
				}
				held = now
			}
			if known.Complete && !held {
				t.Fatal("no entry is ahead, and it does not hold")
			}
		}))
	}
}

func TestRulesNeverGrantOnPartOfAQueue(t *testing.T) {
	for name, r := range rules() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			queue, known, mine := r.draw(t)
			v := r.Decide(known, mine)
			whole := r.Decide(Ahead{Entries: queue, Complete: true}, mine)
			if v.Hold && !whole.Hold {
				t.Fatal("granted by what is known, and not by the queue")
			}
			if v.Hold && (v.More > 0 || len(v.Wait) > 0) {
				t.Fatal("holds and waits")
			}
			if !v.Hold && v.More == 0 && len(v.Wait) == 0 {
				t.Fatal("waits for nothing: it would never wake")
			}
			if v.Next {
				rest := slices.DeleteFunc(slices.Clone(queue), func(e *driver.Entry) bool { return slices.Contains(v.Wait, e) })
				if !r.Decide(Ahead{Entries: rest, Complete: true}, mine).Hold {
					t.Fatal("is next, and does not hold when the blocking set has left")
				}
			}
			if whole.More > 0 {
				t.Fatal("the whole queue does not suffice")
			}
			if v.More > 0 && v.More <= len(known.Entries) {
				t.Fatal("asks for what it knows: it would ask for ever")
			}
		}))
	}
}

// While none of the blocking set leaves or gets a mark, nothing that the others do can
// let the entry hold. So a waiter that watches the set misses no grant.
func TestBlockingSetsBlock(t *testing.T) {
	for name, r := range rules() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			queue, known, mine := r.draw(t)
			v := r.Decide(known, mine)
			if v.Hold || v.More > 0 {
				return
			}
			blocks := func(e *driver.Entry) bool { return slices.Contains(v.Wait, e) }
			rest := slices.DeleteFunc(slices.Clone(queue), func(e *driver.Entry) bool {
				return !blocks(e) && rapid.Bool().Draw(t, "leaves")
			})
			for i, e := range rest {
				if !blocks(e) && rapid.Bool().Draw(t, "becomes shared") {
					rest = shared(rest, i)
				}
			}
			if r.Decide(Ahead{Entries: rest, Complete: true}, mine).Hold {
				t.Fatalf("holds while %s stood", show(v))
			}
		}))
	}
}

// FuzzReadWrite checks the rule against its own words: a reader holds if no writer is
// ahead, a writer if no entry is, and the queue must be known.
func FuzzReadWrite(f *testing.F) {
	f.Add("", true, true)
	f.Add("rrwr", true, false)
	f.Add("wWrRd", false, true)
	f.Add("Rrd", true, true)
	f.Fuzz(func(t *testing.T, queue string, reads, complete bool) {
		es, mine := entries(queue), &driver.Entry{}
		if reads {
			mine.Mode = driver.Shared
		}
		var inTheWay []*driver.Entry
		for _, e := range es {
			if !reads || !e.Shares() {
				inTheWay = append(inTheWay, e)
			}
		}
		v := ReadWrite().Decide(Ahead{Entries: es, Complete: complete}, mine)
		free := len(inTheWay) == 0
		if v.Hold != (free && complete) || (v.More > 0) != (free && !complete) || v.Never || v.Front {
			t.Fatalf("%s with %d in the way, complete %t", show(v), len(inTheWay), complete)
		}
		if !free && !slices.Equal(v.Wait, inTheWay[len(inTheWay)-1:]) {
			t.Fatalf("%s, the last in the way is %v", show(v), inTheWay[len(inTheWay)-1])
		}
	})
}

func TestTogetherMarksThoseThatOneReleaseLetsIn(t *testing.T) {
	entry := func(mode driver.Mode, weight int64) driver.Entry { return driver.Entry{Mode: mode, Weight: weight} }
	x, r := entry(driver.Exclusive, 0), entry(driver.Shared, 0)
	p := func(n int64) driver.Entry { return entry(driver.Weighted, n) }
	foreign := driver.Entry{Mode: driver.Weighted, Weight: 1, Foreign: true}
	for _, c := range []struct {
		name  string
		queue []driver.Entry
		limit int64
		want  []bool
	}{
		{"mutexes", []driver.Entry{x, x, x}, 0, []bool{false, false, false}},
		{"readers behind a writer", []driver.Entry{x, r, r, x, r}, 0, []bool{false, false, true, false, false}},
		{"readers that hold", []driver.Entry{r, r, x, r, r}, 0, []bool{false, true, false, false, true}},
		{"permits", []driver.Entry{p(3), p(1), p(2), p(1), p(3), p(1)}, 3, []bool{false, false, true, false, false, false}},
		{"a limit that is not known", []driver.Entry{p(1), p(1)}, 0, []bool{false, false}},
		{"another program's entry between permits", []driver.Entry{p(2), foreign, p(1), p(1)}, 2, []bool{false, false, false, true}},
	} {
		for i := range c.queue {
			c.queue[i].Place = int64(i + 1)
		}
		assert.Equal(t, c.want, Together(c.queue, Holders(c.queue, c.limit), c.limit), c.name)
	}
}
