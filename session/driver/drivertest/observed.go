package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/session/driver"
)

// observed: the service ends no session by itself, so the clients end those of each other. See
// Harness.Observed.
func observed() []testCase {
	return []testCase{
		{"NothingIsEndedWhereNoClientLooks", unattended},
		{"TheOwnSessionIsNeverEnded", ownNeverEnded},
		{"ASessionThatRenewsIsNotEndedByAnObserverThatWasCutOff", renewsWhileObserverIsCut},
		{"ARecordWithoutAnEntryEndsWhereAClientLooks", observedRecord},
	}
}

// unattended: the first client that looks cannot know when the newest renewal came. So it waits for
// a whole TTL.
func unattended(w *fixture) {
	w.expires()
	machine := metronome.Start()
	defer machine.Stop()
	w.exact(func() (inTime bool) {
		o := w.open()
		req := plain()
		req.Ops = []driver.Op{bound(op("slot/0", driver.Absent(), "mine"))}
		dead := o.joinWith(req)
		o.Abandon()
		time.Sleep(2 * w.h.TTL) // the claim is about time
		w.count(1, queue, "no client looks")

		by := w.open()
		began, came := time.Now(), by.clock().Now()
		j := by.join(queue)
		checkView(w, j, []driver.Joined{dead})
		by.armedEntry("entry of a client that died", dead.Entry.Ref).awaitGone()
		took := by.clock().Now().Sub(came)

		assert.GreaterOrEqual(w.t, took, w.h.TTL, "a whole TTL from the first look")
		by.fresh(queue)
		assert.Empty(w.t, by.value("slot/0"), "what is bound to the session ends with it")
		assert.Equal(w.t, []driver.Ref{j.Entry.Ref}, refs(by.list(queue)), "the first to come is the first")
		require.NoError(w.t, by.end())
		return took-machine.Stalled(began) < 2*w.h.TTL
	}, "one TTL, and no more")
}

// ownNeverEnded: a session that is cut off watches its own entry, and that of another session of its
// process, all the time.
func ownNeverEnded(w *fixture) {
	w.expires()
	o := w.open()
	e, second := o.join(queue).Entry, w.openOn(o.c).join(queue).Entry
	r, other := o.armedEntry("own entry", e.Ref), o.armedEntry("entry of the same process", second.Ref)
	o.c.Cut(fault.Both)
	time.Sleep(2 * w.h.TTL) // the claim is about time
	w.count(2, queue, "no other client looks")
	back := o.clock().Now()
	o.c.Heal()
	w.eventually(func() bool { return o.newest() > back || o.losses() > 0 }, "an answer after the cut")
	w.count(2, queue, "the process has ended neither")
	r.silent("it was not ended")
	other.silent("it was not ended")
}

// renewsWhileObserverIsCut: what an observer has seen is older than a TTL when it is back.
func renewsWhileObserverIsCut(w *fixture) {
	w.renews()
	for _, d := range fault.Directions() {
		w.exact(func() (lives bool) {
			o, by := w.open(), w.observe()
			e := o.join(queue).Entry
			by.armedEntry("entry of another", e.Ref)
			by.c.Cut(d)
			time.Sleep(w.h.TTL + w.h.TTL/4) // the claim is about time
			by.c.Heal()
			by.fresh(queue)
			time.Sleep(w.h.TTL / 4) // for what the observer does now
			lives = o.losses() == 0 && w.svc.Count(w.t, queue) == 1
			require.NoError(w.t, o.end())
			require.NoError(w.t, by.end())
			return lives
		}, "the session has renewed all the time: %s", d)
	}
}

// observedRecord: what a session has left is a record alone.
func observedRecord(w *fixture) {
	w.expires()
	o := w.open()
	req := plain()
	req.Ops = []driver.Op{bound(op("slot/0", driver.Absent(), "mine"))}
	o.leave(o.joinWith(req).Entry.Ref)
	o.Abandon()
	by := w.open()
	by.fresh(queue)
	require.Equal(w.t, "mine", by.value("slot/0"))
	by.join(queue)
	r := by.armedAt(ofRecord("slot/0"))
	r.awaitNews(func() bool { return by.value("slot/0") == "" })
}
