package drivertest

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// foreign: what others put into the line is part of it.
func foreign() []testCase {
	return []testCase{
		{"ForeignEntriesCountAndAreMarked", foreignCount},
		{"ForeignEntriesRefuseIfEmpty", foreignIfEmpty},
		{"ForeignEntriesAreWatched", foreignWatched},
		{"AnEntryWithoutASessionIsMarked", foreignUnleased},
		{"ABrokenValueNeverBreaksTheLine", brokenValue},
	}
}

func foreignCount(w *fixture) {
	o := w.open()
	first := o.join(line).Entry
	f := w.svc.PutForeign(w.t, line, true)
	j := o.join(line)
	assert.Equal(w.t, 2, j.Ahead, "a foreign entry is ahead like any other")

	want := []driver.Ref{first.Ref, f, j.Entry.Ref}
	for what, line := range map[string][]driver.Entry{
		"List": w.list(o.c, line),
		"Look": o.look(driver.LookRequest{Line: line, Upto: j.Entry.Place}).Entries,
	} {
		require.Equal(w.t, want, refs(line), what)
		for i, e := range line {
			assert.Equal(w.t, i == 1, e.Foreign, "%s: Foreign of entry %d", what, i)
			assert.False(w.t, e.Unleased, "%s: Unleased of entry %d", what, i)
		}
		assert.Equal(w.t, driver.Exclusive, line[1].Mode, "%s: it counts as exclusive", what)
		assert.Zero(w.t, line[1].Meta, "%s: it says nothing of itself", what)
	}
}

func foreignIfEmpty(w *fixture) {
	o := w.open()
	f := w.svc.PutForeign(w.t, line, true)
	_, err := o.Join(w.ctx, driver.JoinRequest{Line: line, IfEmpty: true})
	var taken *driver.TakenError
	require.ErrorAs(w.t, err, &taken)
	assert.Equal(w.t, 1, taken.Count)
	w.count(1, line, "nothing was written")
	w.svc.Delete(w.t, f)
	o.joinWith(driver.JoinRequest{Line: line, IfEmpty: true})
}

func foreignWatched(w *fixture) {
	o := w.open()
	f := w.svc.PutForeign(w.t, line, true)
	r, _ := o.armed("foreign entry", driver.WatchRequest{Ref: f})
	w.svc.Delete(w.t, f)
	r.await(driver.Gone)
}

func foreignUnleased(w *fixture) {
	if w.h.NoUnleased != "" {
		w.t.Skip(w.h.NoUnleased)
	}
	o := w.open()
	f := w.svc.PutForeign(w.t, line, false)
	j := o.join(line)
	assert.Equal(w.t, 1, j.Ahead)
	listed := w.list(o.c, line)
	require.Equal(w.t, []driver.Ref{f, j.Entry.Ref}, refs(listed))
	assert.True(w.t, listed[0].Unleased, "it will stay until somebody deletes it")
	assert.True(w.t, listed[0].Foreign)
	assert.Empty(w.t, listed[0].Session)
	assert.False(w.t, listed[1].Unleased)
}

func brokenValue(w *fixture) {
	o, other := w.open(), w.open()
	a := o.joinWith(driver.JoinRequest{Line: line, Meta: driver.Meta{Kind: "mutex"}}).Entry
	for _, value := range []string{"", "{", `{"v":"x"}`, "\xff\xfe", `{"v":1,"kind":7}`, "null", strings.Repeat("x", 1<<16)} {
		w.svc.Overwrite(w.t, a.Ref, []byte(value))
		b := other.join(line)
		assert.Equal(w.t, 1, b.Ahead, "it keeps its place: %.20q", value)
		for _, line := range [][]driver.Entry{
			w.list(o.c, line),
			other.look(driver.LookRequest{Line: line, Upto: b.Entry.Place}).Entries,
		} {
			require.Equal(w.t, []driver.Ref{a.Ref, b.Entry.Ref}, refs(line), "%.20q", value)
			assert.Zero(w.t, line[0].Meta, "%.20q", value)
		}
		other.leave(b.Entry.Ref)
	}
	o.leave(a.Ref)
	w.count(0, line, "its owner can leave")
}
