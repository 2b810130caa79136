package recipetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// lives are the cases of a service that begins a new life, see drivertest.Harness.Lives.
func lives(ways []string) []testCase {
	return append(
		over("NoLockIsGrantedAfter%vBeforeEveryHoldHasEnded", ways, lifeHolds),
		over("AWaiterFromBefore%vIsGrantedAfterIt", ways, lifeWaits)...,
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
