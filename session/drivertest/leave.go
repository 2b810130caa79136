package drivertest

import (
	"errors"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// leave: giving back deletes one entry, and tells the truth about it.
func leave() []testCase {
	return []testCase{
		{"LeaveDeletesAndASecondSaysGone", leaveTwice},
		{"LeaveSaysGoneAfterADeletionByHand", leaveDeleted},
		{"LeaveSaysGoneAfterTheSessionEnded", leaveExpired},
		{"LeaveNeverDeletesALaterEntry", leaveLater},
		{"LeaveProbesAnotherEntry", leaveProbes},
	}
}

// leaveErr leaves and returns the error.
func (o *owner) leaveErr(ref driver.Ref) error {
	_, err := o.Leave(o.w.soon(), driver.LeaveRequest{Ref: ref})
	return err
}

func leaveTwice(w *fixture) {
	o, other := w.open(), w.open()
	a, b := o.join(line).Entry, other.join(line).Entry
	left := o.leave(a.Ref)
	if left.Rev != 0 {
		assert.False(w.t, other.sees(a.Ref, left.Rev), "a look at the deletion's revision shows none")
	}
	require.ErrorIs(w.t, o.leaveErr(a.Ref), driver.ErrGone)
	require.ErrorIs(w.t, o.leaveErr(a.Ref), driver.ErrGone)
	assert.Equal(w.t, []driver.Ref{b.Ref}, refs(w.list(o.c, line)))
}

func leaveDeleted(w *fixture) {
	o := w.open()
	e := o.join(line).Entry
	w.svc.Delete(w.t, e.Ref)
	require.ErrorIs(w.t, o.leaveErr(e.Ref), driver.ErrGone)
}

func leaveExpired(w *fixture) {
	o := w.open()
	e := o.join(line).Entry
	w.svc.Expire(w.t, o.ID())
	w.count(0, line, "entries die with their session")
	require.Error(w.t, o.leaveErr(e.Ref), "never nil for an entry that was lost")
}

func leaveLater(w *fixture) {
	o := w.open()
	old := o.join(line).Entry
	o.leave(old.Ref)
	young := o.join(line).Entry // often with the same key
	require.ErrorIs(w.t, o.leaveErr(old.Ref), driver.ErrGone)
	w.count(1, line, "the later entry stays")

	mixed := driver.Ref{Line: line, Key: young.Key, Place: old.Place}
	require.ErrorIs(w.t, o.leaveErr(mixed), driver.ErrGone, "the key alone does not name an entry")
	w.count(1, line, "the later entry stays")
	o.leave(young.Ref)
	w.count(0, line, "key and place do")
}

func leaveProbes(w *fixture) {
	o := w.open()
	a, b, c := o.join(line).Entry, o.join(line).Entry, o.join(line).Entry
	left := o.leaveWith(driver.LeaveRequest{Ref: a.Ref, Probe: b.Ref})
	if left.Probed {
		assert.True(w.t, left.Alive, "it is alive")
	}
	w.svc.Delete(w.t, b.Ref)
	left = o.leaveWith(driver.LeaveRequest{Ref: c.Ref, Probe: b.Ref})
	assert.False(w.t, left.Alive, "it was deleted by hand")

	d := o.join(line).Entry
	left = o.leave(d.Ref)
	assert.False(w.t, left.Probed, "nothing was asked")
}

// evict: an operator deletes one entry, and never another.
func evict() []testCase {
	return slices.Concat(
		[]testCase{
			{"AnyEntryIsEvictedWhoeverOwnsIt", evictAny},
			{"EvictLeavesTheSessionAndItsOtherEntries", evictOne},
			{"EvictOfAnEntryThatIsGoneSaysSo", evictGone},
			{"EvictNeverDeletesALaterEntry", evictLater},
			{"EvictOfWhatIsInNoLineSaysGone", evictOdd},
			{"ASharedEntryIsEvicted", evictShared},
			{"EvictWorksWithoutASession", evictAlone},
			{"AnEvictedHolderHasNotGivenBack", evictLedger},
			{"ALateEvictDeletesNothingElse", evictLate},
		},
		over("EvictSurvivesA%v", fault.Retryable(), evictSurvives),
		over("EvictReturnsWhileCut%v", fault.Directions(), evictPrompt),
	)
}

// evict evicts through a client of its own.
func (w *fixture) evict(c Client, e driver.Entry) error {
	return c.Backend().Evict(w.soon(), e)
}

// evictAny evicts a holder, waiters of all kinds, and entries of others: from the
// end, so that each is somewhere else in the line.
func evictAny(w *fixture) {
	o, by := w.open(), w.open()
	reqs := []driver.JoinRequest{
		{Line: line},
		exclusive(), valued("10.0.0.7:80"),
		{Line: line, Mode: driver.Shared, Kin: driver.KinReadWrite},
		kept(),
		{Line: line, Mode: driver.Weighted, Weight: 1},
	}
	var own []driver.Ref
	for _, req := range reqs {
		own = append(own, o.joinWith(req).Entry.Ref)
	}
	w.svc.PutForeign(w.t, line, true)
	if w.h.NoUnleased == "" {
		w.svc.PutForeign(w.t, line, false)
	}
	told := make([]*recorder, len(own))
	for i, ref := range own {
		told[i], _ = o.armed("own entry", driver.WatchRequest{Ref: ref, Own: true})
	}
	for {
		all := w.list(by.c, line)
		if len(all) == 0 {
			break
		}
		require.NoError(w.t, w.evict(by.c, all[len(all)-1]), "%v", all[len(all)-1])
		require.Equal(w.t, refs(all[:len(all)-1]), refs(w.list(by.c, line)), "that one and no other")
	}
	for i, ref := range own {
		told[i].await(driver.Gone)
		require.ErrorIs(w.t, o.leaveErr(ref), driver.ErrGone)
	}
}

func evictOne(w *fixture) {
	o, by := w.open(), w.open()
	first, second, elsewhere := o.join(line), o.join(line), o.join("elsewhere")
	require.NoError(w.t, w.evict(by.c, w.list(by.c, line)[0]))
	w.count(1, line, "the other stays")
	w.count(1, "elsewhere", "and what is in other lines")
	require.ErrorIs(w.t, o.leaveErr(first.Entry.Ref), driver.ErrGone)
	o.leave(second.Entry.Ref)
	o.leave(elsewhere.Entry.Ref)
	assert.Zero(w.t, o.losses(), "the session lives")
	assert.Zero(w.t, o.join(line).Ahead)
}

func evictGone(w *fixture) {
	o, by := w.open(), w.open()
	a, b := o.join(line).Entry, o.join(line).Entry
	stays := o.join(line).Entry
	o.leave(a.Ref)
	require.ErrorIs(w.t, w.evict(by.c, a), driver.ErrGone, "left")
	require.NoError(w.t, w.evict(by.c, b))
	require.ErrorIs(w.t, w.evict(by.c, b), driver.ErrGone, "evicted")
	require.ErrorIs(w.t, w.evict(o.c, b), driver.ErrGone, "whoever asks")
	require.Equal(w.t, []driver.Ref{stays.Ref}, refs(w.list(by.c, line)))
}

func evictLater(w *fixture) {
	o, by := w.open(), w.open()
	old := o.join(line).Entry
	o.leave(old.Ref)
	young := o.join(line).Entry // often with the same key
	require.ErrorIs(w.t, w.evict(by.c, old), driver.ErrGone)
	mixed := young
	mixed.Place = old.Place
	require.ErrorIs(w.t, w.evict(by.c, mixed), driver.ErrGone, "the key alone does not name an entry")
	f := w.svc.PutForeign(w.t, line, true)
	mixed = w.list(by.c, line)[1]
	require.Equal(w.t, f, mixed.Ref)
	mixed.Place--
	require.ErrorIs(w.t, w.evict(by.c, mixed), driver.ErrGone)
	w.count(2, line, "both stay")
	require.NoError(w.t, w.evict(by.c, young))
	w.count(1, line, "key and place do")
}

func evictOdd(w *fixture) {
	o := w.open()
	e := o.join(line).Entry
	o.join("elsewhere")
	elsewhere := e
	elsewhere.Line = "elsewhere"
	for _, odd := range []driver.Entry{
		{},
		{Ref: driver.Ref{Line: line}},
		{Ref: driver.Ref{Line: line, Key: "x", Place: 1}},
		elsewhere,
		{Ref: driver.Ref{Line: line, Key: e.Key, Place: -1}},
		{Ref: driver.Ref{Line: "nowhere", Key: e.Key + "x", Place: e.Place}},
	} {
		require.ErrorIs(w.t, w.evict(o.c, odd), driver.ErrGone, "%v", odd.Ref)
	}
	w.count(1, line, "it stays")
	w.count(1, "elsewhere", "that too")
}

func evictShared(w *fixture) {
	o, by := w.open(), w.open()
	old := o.joinWith(exclusive()).Entry
	ref := o.share(old.Ref)
	e := w.list(by.c, line)[0]
	require.Equal(w.t, ref, e.Ref)
	if ref != old.Ref {
		require.ErrorIs(w.t, w.evict(by.c, old), driver.ErrGone, "it has another name now")
	}
	w.count(1, line, "it stays")
	require.NoError(w.t, w.evict(by.c, e))
	w.count(0, line, "as it is shown")
	require.ErrorIs(w.t, o.leaveErr(ref), driver.ErrGone)
}

// evictAlone: an operator's tool need not have a session.
func evictAlone(w *fixture) {
	o := w.open()
	o.join(line)
	c := w.client()
	require.NoError(w.t, w.evict(c, w.list(c, line)[0]))
	w.count(0, line, "it is gone")
}

func evictLedger(w *fixture) {
	o, by := w.open(), w.open()
	o.hold()
	require.NoError(w.t, w.evict(by.c, w.list(by.c, line)[0]))
	next := by.hold()
	assert.Equal(w.t, driver.PastDied, next.past, "the work may be half done")
}

func evictLate(w *fixture) {
	o, by := w.open(), w.open()
	e := o.join(line).Entry
	by.c.Inject(fault.Leave, fault.LateRequest)
	require.NoError(w.t, w.evict(by.c, e))
	require.ErrorIs(w.t, o.leaveErr(e.Ref), driver.ErrGone)
	o.join(line) // often with the same key
	by.c.Deliver()
	w.count(1, line, "the later entry stays")
}

func evictSurvives(w *fixture, f fault.Kind) {
	o, by := w.open(), w.open()
	e, stays := o.join(line).Entry, o.join(line).Entry
	by.c.Inject(fault.Leave, f)
	require.NoError(w.t, w.evict(by.c, e), "an attempt of the call did it, whichever")
	require.Equal(w.t, []driver.Ref{stays.Ref}, refs(w.list(by.c, line)))
	require.ErrorIs(w.t, w.evict(by.c, e), driver.ErrGone)
}

func evictPrompt(w *fixture, d fault.Direction) {
	o, by := w.open(), w.open()
	e := o.join(line).Entry
	by.c.Cut(d)
	ctx := w.within(w.h.TTL / 20)
	w.prompt(by.c, "Evict", ctx.Done(), func() {
		err := by.c.Backend().Evict(ctx, e)
		require.Error(w.t, err)
		assert.NotErrorIs(w.t, err, driver.ErrGone, "that is not known")
	})
	by.c.Heal()
	if err := w.evict(by.c, e); !errors.Is(err, driver.ErrGone) {
		require.NoError(w.t, err, "called again")
	}
	w.count(0, line, "it is gone")
}
