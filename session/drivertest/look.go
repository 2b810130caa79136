package drivertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// look: reading the part of a line that stands before a place.
func look() []testCase {
	return []testCase{
		{"LookShowsTheLineUptoAPlace", lookUpto},
		{"LookShowsTheNearest", lookNearest},
		{"LookAtAnUnknownLineIsEmptyAndComplete", lookUnknown},
		{"LookIsNotOlderThanAsked", lookNotBefore},
		{"LookShowsThatTheOwnEntryIsMissing", lookOwnMissing},
	}
}

// crowd makes a line of n entries of two sessions.
func crowd(w *fixture, n int) (*owner, []driver.Ref) {
	a, b := w.open(), w.open()
	var all []driver.Ref
	for i := range n {
		o := a
		if i%2 == 1 {
			o = b
		}
		all = append(all, o.join(line).Entry.Ref)
	}
	return a, all
}

func lookUpto(w *fixture) {
	o, all := crowd(w, 5)
	var last int64
	for i, ref := range all {
		v := o.look(driver.LookRequest{Line: line, Upto: ref.Place, NotBefore: last})
		assert.Equal(w.t, all[:i+1], refs(v.Entries), "upto entry %d", i)
		assert.True(w.t, v.Complete, "all were asked for")
		assert.GreaterOrEqual(w.t, v.Rev, last, "not older than asked")
		last = v.Rev
	}
}

func lookNearest(w *fixture) {
	o, all := crowd(w, 5)
	for i, ref := range all {
		for n := 1; n <= 6; n++ {
			v := o.look(driver.LookRequest{Line: line, Upto: ref.Place, Nearest: n})
			got := refs(v.Entries)
			want := all[max(0, i-n) : i+1]
			require.GreaterOrEqual(w.t, len(got), len(want), "nearest %d before entry %d", n, i)
			assert.Equal(w.t, want, got[len(got)-len(want):], "nearest %d before entry %d", n, i)
			if v.Complete {
				assert.Equal(w.t, all[:i+1], got, "complete: nobody stands before the first shown")
			}
		}
	}
}

func lookUnknown(w *fixture) {
	o := w.open()
	e := o.join("elsewhere").Entry
	v := o.look(driver.LookRequest{Line: line, Upto: e.Place, Nearest: 2})
	assert.Empty(w.t, v.Entries)
	assert.True(w.t, v.Complete)
}

func lookNotBefore(w *fixture) {
	o, all := crowd(w, 4)
	last := all[3]
	o.look(driver.LookRequest{Line: line, Upto: last.Place}) // so that an old answer exists
	for i, ref := range all[:3] {
		r, stop := o.armed("entry ahead", driver.WatchRequest{Ref: ref})
		w.svc.Delete(w.t, ref)
		rev := r.await(driver.Gone).Rev
		stop()
		v := o.look(driver.LookRequest{Line: line, Upto: last.Place, NotBefore: rev})
		assert.GreaterOrEqual(w.t, v.Rev, rev) // without numbers, the order of events and answers does it
		assert.Equal(w.t, all[i+1:], refs(v.Entries), "the deletion at revision %d shows", rev)
		assert.True(w.t, v.Complete)
	}
}

func lookOwnMissing(w *fixture) {
	o, all := crowd(w, 3)
	own := all[2] // joined by o
	r, _ := o.armed("own entry", driver.WatchRequest{Ref: own, Own: true})
	w.svc.Delete(w.t, own)
	rev := r.await(driver.Gone).Rev

	for _, n := range []int{0, 1, 2} {
		v := o.look(driver.LookRequest{Line: line, Upto: own.Place, Nearest: n, NotBefore: rev})
		assert.NotContains(w.t, refs(v.Entries), own, "nearest %d", n)
		assert.Contains(w.t, refs(v.Entries), all[1], "nearest %d", n)
	}
}
