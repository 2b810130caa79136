package queue

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

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
