package recipetest

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// lives are the cases of a service that begins a new life, see drivertest.Harness.Lives.
func lives(ways []string) []testCase {
	return slices.Concat(
		over("NoLockIsGrantedAfter%vBeforeEveryHoldHasEnded", ways, lifeHolds),
		over("AWaiterFromBefore%vIsGrantedAfterIt", ways, lifeWaits),
		over("NoLedgerFromBefore%vIsClean", ways, lifeLedger),
	)
}

// newLife begins a new life, and returns the time before it.
func (w *Fixture) newLife(way string) time.Time {
	w.t.Helper()
	svc, ok := w.svc.(drivertest.Lives)
	require.True(w.t, ok, "Harness.Lives: the Service is none")
	before := time.Now()
	svc.NewLife(w.t, way)
	return before
}

// longest makes all sessions of the case have the longest TTL, and returns it.
func (w *Fixture) longest() time.Duration {
	w.t.Helper()
	w.h.TTL = w.svc.Client(w.t).Backend().Info().MaxTTL
	return w.h.TTL
}

// lifeHolds has a holder that the service reaches, and one that is cut off.
func lifeHolds(w *Fixture, way string) {
	most := w.longest()
	for _, cut := range []bool{false, true} {
		p, q := w.Client("holds"), w.Client("other")
		h := p.hold()
		x := endOf(h)
		if cut {
			p.net.Cut(fault.Both)
		}
		before := w.newLife(way)
		ctx, cancel := context.WithTimeout(w.t.Context(), most/4)
		_, err := mutex.New(q.Session, name).TryLock(ctx)
		cancel()
		require.ErrorIs(w.t, err, session.ErrUnavailable, "a try, while nothing is granted")
		assert.False(w.t, q.Health().Ready)
		r := q.start(w.soon())
		next := r.granted()

		assert.GreaterOrEqual(w.t, r.at.Sub(before), most, "no hold for the longest TTL")
		w.lostFirst(w.when(x), r.at)
		assert.Greater(w.t, next.Token(), h.Token(), "a resource can distinguish them")
		p.net.Heal()
		require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
		w.unlock(next)
		w.eventually(0, "released")
	}
}

func lifeWaits(w *Fixture, way string) {
	w.longest()
	p, q := w.Client("holds"), w.Client("waits")
	h := p.hold()
	r := q.queue(w.soon())
	w.newLife(way)
	next := r.granted()
	assert.Greater(w.t, next.Token(), r.token, "it has joined again")
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	w.unlock(next)
}

// lifeLedger: the data may lack a name that a ledger had. In the second new life it has what a release of
// the first one has left.
func lifeLedger(w *Fixture, way string) {
	w.longest()
	w.past(engine.PastClean, "there was no hold before")
	for range 2 {
		w.newLife(way)
		w.givesUpRobust()
		p := w.Client("dies")
		h := p.robust()
		require.Equal(w.t, engine.PastDied, Previous(h), "nobody knows, and the request that only waited has not changed that")
		w.svc.Expire(w.t, h.SessionID())
		w.eventually(0, "died")
		w.past(engine.PastDied, "in this life")
		w.past(engine.PastClean, "released in this life")
		w.givesUpRobust()
		w.past(engine.PastClean, "so it is still")
	}
}

// givesUpRobust makes a request with a ledger that gives up while it waits for a holder without one.
func (w *Fixture) givesUpRobust() {
	p, q := w.Client("plain"), w.Client("gives up")
	h := p.hold()
	ctx, cancel := context.WithCancel(w.soon())
	r := q.queueRobust(ctx)
	cancel()
	r.returned()
	w.unlock(h)
	w.eventually(0, "released")
}
