package queue

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session/driver"
)

// modes makes entries of these modes, r or w, at the places 1, 2, 3 and so on. A
// capital letter is a foreign one.
func modes(letters string) []driver.Entry {
	var es []driver.Entry
	for i, m := range letters {
		e := entries(int64(i + 1))[0]
		e.Foreign = m == 'R' || m == 'W'
		if m == 'r' || m == 'R' {
			e.Mode = driver.Shared
		}
		es = append(es, e)
	}
	return es
}

func TestReadWriteRule(t *testing.T) {
	const reader, writer = driver.Shared, driver.Exclusive
	whole := func(letters string) Ahead { return Ahead{Entries: modes(letters), Complete: true} }
	end := func(letters string) Ahead { return Ahead{Entries: modes(letters)} }
	holds := Verdict{Hold: true}
	behind := func(place int64) Verdict { return Verdict{Wait: refs(place), Changes: true} }
	for name, c := range map[string]struct {
		mine  driver.Mode
		ahead Ahead
		want  Verdict
	}{
		"reader, nobody ahead":               {reader, whole(""), holds},
		"reader, nothing known":              {reader, end(""), Verdict{More: true}},
		"reader behind readers":              {reader, whole("rrr"), holds},
		"reader behind some readers":         {reader, end("rrr"), Verdict{More: true}},
		"reader behind a writer":             {reader, whole("w"), behind(1)},
		"reader behind a waiting writer":     {reader, whole("rrw"), behind(3)},
		"reader behind readers and a writer": {reader, whole("wrr"), behind(1)},
		"reader, the nearest writer of many": {reader, whole("wrwrwr"), behind(5)},
		"reader, the nearest writer known":   {reader, end("wr"), behind(1)},
		"reader behind a foreign writer":     {reader, whole("rWr"), behind(2)},
		"reader behind a foreign reader":     {reader, whole("R"), holds},
		"writer, nobody ahead":               {writer, whole(""), holds},
		"writer, nothing known":              {writer, end(""), Verdict{More: true}},
		"writer behind a reader":             {writer, whole("r"), Verdict{Wait: refs(1)}},
		"writer behind readers":              {writer, whole("rrr"), Verdict{Wait: refs(3), Soon: refs(2)}},
		"writer behind a writer":             {writer, whole("rw"), Verdict{Wait: refs(2), Soon: refs(1)}},
		"writer behind a foreign reader":     {writer, end("wR"), Verdict{Wait: refs(2), Soon: refs(1)}},
	} {
		assert.Equal(t, c.want, readWrite(c.ahead, driver.Entry{Mode: c.mine}), name)
	}
}

func TestAheadBehind(t *testing.T) {
	a := Ahead{Entries: modes("rwrw"), Count: 9, Limit: 3}
	for name, c := range map[string]struct {
		gone int64
		want Ahead
	}{
		"the nearest":       {4, Ahead{Entries: []driver.Entry{}, Complete: true, Count: 9, Limit: 3}},
		"those between":     {2, Ahead{Entries: modes("rwrw")[2:], Complete: true, Count: 9, Limit: 3}},
		"the first known":   {1, Ahead{Entries: modes("rwrw")[1:], Complete: true, Count: 9, Limit: 3}},
		"one not known":     {5, a},
		"a key used again":  {7, a},
		"one before a look": {0, a},
	} {
		assert.Equal(t, c.want, a.behind(refs(c.gone)[0]), name)
	}
	assert.Equal(t, modes("rwrw"), a.Entries, "what others share is not changed")
	assert.False(t, a.Complete)
}

// FuzzReadWriteRule checks the rule against its own words: a reader holds if no
// writer is ahead, a writer if nobody is, and the line must be known.
func FuzzReadWriteRule(f *testing.F) {
	f.Add("", true, true)
	f.Add("rrwr", true, false)
	f.Add("wWrR", false, true)
	f.Add("Rrr", true, true)
	f.Fuzz(func(t *testing.T, line string, reads, complete bool) {
		es, mine := modes(line), driver.Entry{}
		if reads {
			mine.Mode = driver.Shared
		}
		var inTheWay []driver.Ref
		for _, e := range es {
			if !reads || e.Mode != driver.Shared {
				inTheWay = append(inTheWay, e.Ref)
			}
		}
		v := readWrite(Ahead{Entries: es, Complete: complete}, mine)
		free := len(inTheWay) == 0
		if v.Hold != (free && complete) || v.More != (free && !complete) || v.Err != nil {
			t.Fatalf("%+v with %v in the way, complete %t", v, inTheWay, complete)
		}
		if !free && !slices.Equal(v.Wait, inTheWay[len(inTheWay)-1:]) {
			t.Fatalf("waits for %v, in the way are %v", v.Wait, inTheWay)
		}
		if v.Changes != (reads && !free) {
			t.Fatal("a writer that reads from now on is in the way of writers, and not of readers")
		}
	})
}

// naive is a line of readers and writers, and what an onlooker who sees all of it
// says of who holds.
type naive struct{ line []driver.Entry }

func (n *naive) index(place int64) int {
	return slices.IndexFunc(n.line, func(e driver.Entry) bool { return e.Place == place })
}

// holds says that a reader holds if no writer is ahead, and a writer if nobody is.
func (n *naive) holds(place int64) bool {
	i := n.index(place)
	if n.line[i].Mode != driver.Shared {
		return i == 0
	}
	return !slices.ContainsFunc(n.line[:i], func(e driver.Entry) bool { return e.Mode != driver.Shared })
}

// watcher is an entry's owner, who knows of the line what its looks have shown,
// and is told only of the end and of the change of those that it waits for.
type watcher struct {
	rule  Rule
	mine  driver.Entry
	known Ahead
	need  int
	v     Verdict
	held  bool
}

// look shows the nearest entries ahead, and more if they do not suffice.
func (o *watcher) look(n *naive) {
	for {
		ahead := n.line[:n.index(o.mine.Place)]
		from := max(0, len(ahead)-o.need)
		o.known = Ahead{Entries: slices.Clone(ahead[from:]), Complete: from == 0}
		o.v = o.rule.Decide(o.known, o.mine)
		if !o.v.More {
			o.held = o.v.Hold
			return
		}
		o.need *= wider
	}
}

// told takes in that an entry is gone, or reads from now on.
func (o *watcher) told(n *naive, ref driver.Ref, ev driver.Event) {
	if o.held || !slices.Contains(o.v.Wait, ref) && !slices.Contains(o.v.Soon, ref) {
		return
	}
	switch {
	case ev.Kind == driver.Changed && !o.v.Changes:
		return
	case ev.Kind == driver.Changed:
		o.look(n)
		return
	case ev.Held:
		o.known = o.known.behind(ref)
	default:
		o.known = o.known.without(ref)
	}
	o.v = o.rule.Decide(o.known, o.mine)
	if o.held = o.v.Hold; !o.held {
		o.look(n)
	}
}

// TestReadersAndWritersAgreeWithANaiveLine plays random joins, leaves and
// downgrades, and after each compares what the owners believe, each by what it was
// told, with what the onlooker says.
func TestReadersAndWritersAgreeWithANaiveLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, owners := &naive{}, map[int64]*watcher{}
		for place := range rapid.Int64Range(1, 60).Draw(t, "steps") {
			what := rapid.SampledFrom([]string{"read", "write", "read", "write", "leave", "leave", "downgrade"}).Draw(t, "what")
			if len(n.line) == 0 && (what == "leave" || what == "downgrade") {
				what = "read"
			}
			var ev driver.Event
			var ref driver.Ref
			switch what {
			case "read", "write":
				e := modes(what[:1])[0]
				e.Place, e.Foreign = place, rapid.Bool().Draw(t, "foreign")
				n.line = append(n.line, e)
				owners[place] = &watcher{rule: ReadWrite(), mine: e, need: ReadWrite().Need}
				owners[place].look(n)
			case "leave":
				e := rapid.SampledFrom(n.line).Draw(t, "who")
				ref, ev = e.Ref, driver.Event{Kind: driver.Gone, Held: e.Mode == driver.Exclusive && owners[e.Place].held}
				n.line = slices.Delete(n.line, n.index(e.Place), n.index(e.Place)+1)
				delete(owners, e.Place)
			case "downgrade":
				if n.line[0].Mode == driver.Exclusive {
					n.line[0].Mode, owners[n.line[0].Place].mine.Mode = driver.Shared, driver.Shared
					ref, ev = n.line[0].Ref, driver.Event{Kind: driver.Changed}
				}
			}
			for _, e := range n.line {
				o := owners[e.Place]
				o.told(n, ref, ev)
				if o.held != n.holds(e.Place) {
					t.Fatalf("entry %d in %v: believes %t, waits for %v", e.Place, n.line, o.held, o.v.Wait)
				}
			}
		}
	})
}
