package drivertest

import (
	"bytes"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// value: an entry can carry bytes for others to read.
func value() []testCase {
	return slices.Concat(
		[]testCase{
			{"AValueIsStoredAsItIs", valueRaw},
			{"AWriteChangesTheValueInItsPlace", valueWritten},
			{"AWriteIsToldToWhoWantsChanges", valueTold},
			{"AValueMayBeAsLargeAsTheProfileSays", valueLarge},
			{"AValueGoesWithItsEntry", valueGoes},
			{"TheValueOfAForeignEntryIsShown", valueForeign},
			{"ALateWriteDoesNotUndoANewerOne", valueLate},
		},
		over("AJoinWithAValueSurvivesA%v", fault.Retryable(), valueSurvives),
	)
}

func (o *owner) write(ref driver.Ref, value string) {
	o.w.t.Helper()
	require.NoError(o.w.t, o.Write(o.w.soon(), ref, []byte(value)), "Write")
}

func valueRaw(w *fixture) {
	o, other := w.open(), w.open()
	var want []string
	for _, v := range []string{"10.0.0.7:80", "\x00\xff", "{", `{"v":1,"kind":"mutex"}`, "", "nächtlich"} {
		o.joinWith(valued(v))
		want = append(want, v)
	}
	plain := o.joinWith(driver.JoinRequest{Line: line, Meta: driver.Meta{Kind: "mutex"}}).Entry

	all := w.list(other.c, line)
	require.Len(w.t, all, len(want)+1)
	for i, v := range want {
		assert.Equal(w.t, v, string(all[i].Value))
		assert.Equal(w.t, "election", all[i].Meta.Kind, "the meta beside value %q", v)
		assert.Equal(w.t, "web-2", all[i].Meta.Host)
		assert.False(w.t, all[i].Foreign)
	}
	assert.Equal(w.t, plain.Ref, all[len(want)].Ref)
	assert.Nil(w.t, all[len(want)].Value, "it was made with none")
	assert.Equal(w.t, "mutex", all[len(want)].Meta.Kind)
}

func valueWritten(w *fixture) {
	o, other := w.open(), w.open()
	first := other.joinWith(valued("first")).Entry
	e := o.joinWith(valued("old")).Entry
	other.join(line)
	before := w.list(o.c, line)
	for _, v := range []string{"new", "\x00", "", "newer"} {
		o.write(e.Ref, v)
		after := w.list(other.c, line)
		require.Equal(w.t, refs(before), refs(after), "all keep their places")
		assert.Equal(w.t, v, string(after[1].Value))
		assert.Equal(w.t, e.Token, after[1].Token)
		assert.Equal(w.t, before[1].Session, after[1].Session)
		assert.Equal(w.t, before[1].Meta, after[1].Meta)
		assert.Equal(w.t, "first", string(after[0].Value))
	}
	require.Error(w.t, o.Write(w.ctx, first.Ref, []byte("x")), "it is another session's")
	assert.Equal(w.t, "first", string(w.list(o.c, line)[0].Value))

	require.NoError(w.t, o.end())
	w.count(2, line, "a written entry dies with its session too")
}

func valueTold(w *fixture) {
	o, by := w.open(), w.open()
	e := o.joinWith(valued("old")).Entry
	r, _ := by.armed("entry, changes wanted", driver.WatchRequest{Ref: e.Ref, Changes: true})
	quiet, _ := by.armed("no changes wanted", driver.WatchRequest{Ref: e.Ref})
	for _, v := range []string{"a", "b", "c"} {
		o.write(e.Ref, v)
		ev := r.await(driver.Changed, driver.Gone)
		require.Equal(w.t, driver.Changed, ev.Kind, "value %q", v)
		assert.Equal(w.t, v, string(w.list(by.c, line)[0].Value))
	}
	o.leave(e.Ref)
	r.await(driver.Gone)
	quiet.await(driver.Gone)
	quiet.unchanged()
}

func valueLarge(w *fixture) {
	o := w.open()
	large := bytes.Repeat([]byte{0xf1}, o.c.Backend().Profile().MaxValue)
	req := valued("")
	req.Value = large
	e := o.joinWith(req).Entry
	got := w.list(o.c, line)
	require.Len(w.t, got, 1)
	assert.True(w.t, bytes.Equal(large, got[0].Value), "%d bytes of %d", len(got[0].Value), len(large))
	assert.Equal(w.t, "election", got[0].Meta.Kind)

	large[0] = 'x'
	o.write(e.Ref, string(large))
	assert.True(w.t, bytes.Equal(large, w.list(o.c, line)[0].Value), "and written")
}

// valueGoes: what lay beside an entry is not taken for that of a later one.
func valueGoes(w *fixture) {
	o := w.open()
	o.leave(o.joinWith(valued("old")).Entry.Ref)
	w.count(0, line, "nothing of it counts")
	req := valued("new")
	req.Meta = driver.Meta{Kind: "other"}
	e := o.joinWith(req)
	assert.Zero(w.t, e.Ahead)
	got := w.list(o.c, line)
	require.Equal(w.t, []driver.Ref{e.Entry.Ref}, refs(got))
	assert.Equal(w.t, "new", string(got[0].Value))
	assert.Equal(w.t, driver.Meta{Kind: "other"}, got[0].Meta)
	w.svc.Expire(w.t, o.ID())
	w.eventually(func() bool { return w.svc.Count(w.t, line) == 0 }, "nothing of it stays")
	assert.Empty(w.t, w.list(w.client(), line))
}

func valueForeign(w *fixture) {
	o := w.open()
	f := w.svc.PutForeign(w.t, line, true)
	for _, v := range []string{"10.0.0.7:80", `{"v":1,"kind":"mutex"}`} {
		w.svc.Overwrite(w.t, f, []byte(v))
		got := w.list(o.c, line)
		require.Equal(w.t, []driver.Ref{f}, refs(got))
		assert.True(w.t, got[0].Foreign)
		assert.Equal(w.t, v, string(got[0].Value), "it is all that it has")
		assert.Zero(w.t, got[0].Meta)
	}
}

func valueLate(w *fixture) {
	o := w.open()
	e := o.joinWith(valued("old")).Entry
	o.c.Inject(fault.Change, fault.LateRequest)
	o.write(e.Ref, "new")
	o.write(e.Ref, "newer")
	o.c.Deliver()
	assert.Equal(w.t, "newer", string(w.list(o.c, line)[0].Value), "the newer one was told to be done")
}

func valueSurvives(w *fixture, f fault.Kind) {
	o := w.open()
	o.c.Inject(fault.Join, f)
	e := o.joinWith(valued("v")).Entry
	got := w.list(o.c, line)
	require.Equal(w.t, []driver.Ref{e.Ref}, refs(got), "exactly one entry of this join")
	assert.Equal(w.t, "v", string(got[0].Value))
	assert.Equal(w.t, "election", got[0].Meta.Kind)
	o.c.Inject(fault.Leave, f)
	o.leave(e.Ref)
	w.count(0, line, "nothing is left of it")
}
