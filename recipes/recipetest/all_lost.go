package recipetest

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session"
)

// severalLost are the cases of locks that are acquired together, when one of them is
// lost, or the outcome of a request is unknown.
func severalLost() []testCase {
	return slices.Concat(
		[]testCase{
			{"AllEndWhenOneIsDeleted", allDeleted},
			{"AllCutOffAreLostBeforeTheNextIsGranted", allCut},
			{"CancelledWhileItHoldsSomeLeavesNothing", allCancelled},
			{"PlaceLostInOneQueueIsLostInAll", allPlaceLost},
			{"PlaceLostInAQueueThatWasGrantedIsLostInAll", allGotLost},
			{"AllOfARevokedSessionJoinAgain", allJoinAgain},
		},
		over("JoinAllWith%vIsAllOrNothing", fault.Retryable(), func(w *Fixture, f fault.Kind) {
			unknownJoin(w, f, wantAll("x", "y", "z"), "x", "y", "z")
		}),
		over("JoinAllWith%vIsGrantedInTheEnd", fault.Retryable(), func(w *Fixture, f fault.Kind) {
			patientJoin(w, f, wantAll("x", name, "z"))
			w.empty("x", "z")
		}),
		over("ReleaseAllWith%vGrantsTheNext", fault.Retryable(), func(w *Fixture, f fault.Kind) {
			unknownLeave(w, f, wantAll("x", "y", "z"), wantOne("y"), wantAll("z", "x", "y"))
		}),
	)
}

// allDeleted deletes each of three entries in turn.
func allDeleted(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	for i := range 3 {
		names := []string{"x", "y", "z"}
		h := a.holdAll(names...)
		x := endOf(h)
		var behind []*Request // a holder with a waiter behind it is watched at once
		for _, n := range names {
			behind = append(behind, b.queueFor(w.soon(), wantOne(n)))
		}
		w.svc.Delete(w.t, Refs(h)[i])
		w.when(x)

		w.lostFor(session.ReasonDeleted, cause(h))
		assert.Zero(w.t, h.Remaining())
		w.unlock(behind[i].granted())
		for j, r := range behind {
			require.True(w.t, j == i || r.waiting(), "the others are held until the worker has stopped")
		}
		w.unlockLost(session.ReasonEvicted, h)
		for j, r := range behind {
			if j != i {
				w.unlock(r.granted())
			}
		}
		w.empty(names...)
	}
}

func allCut(w *Fixture) {
	for _, d := range fault.Directions() {
		a, b := w.mortal("a"), w.Client("b")
		h := a.holdAll("x", "y")
		x := endOf(h)
		one := b.queueFor(w.soon(), wantOne("x"))
		a.net.Cut(d)
		w.unlock(w.endsBefore(h, x, one)[0])
		w.unlock(b.holdAll("y", "x"))
		a.net.Heal()
		w.empty("x", "y")
	}
}

// allCancelled holds some, and waits for others.
func allCancelled(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	held := a.holdOne("y")
	ctx, cancel := context.WithCancel(w.soon())
	all := b.queueAll(ctx, "x", "y", "z")
	x, y, z := c.queueFor(w.soon(), wantOne("x")), c.queueFor(w.soon(), wantOne("y")), c.queueFor(w.soon(), wantOne("z"))
	at := time.Now()
	cancel()
	all.returned()

	w.prompt(at, all.at)
	require.ErrorIs(w.t, all.Err, session.ErrNotAcquired)
	require.ErrorIs(w.t, all.Err, context.Canceled)
	require.ErrorContains(w.t, all.Err, `"x", "y", "z"`)
	all.names("(a)", at) // the holder of the lock that it waited for
	w.unlock(x.granted())
	w.unlock(z.granted())
	require.True(w.t, y.waiting(), "the cancelled one never held this")
	w.unlock(held)
	w.unlock(y.granted())
	w.empty("x", "y", "z")
}

// allPlaceLost deletes the entry in the queue in which the request waits.
func allPlaceLost(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	held := a.holdOne("y")
	all := b.queueAll(w.soon(), "x", "y")
	x := c.queueFor(w.soon(), wantOne("x"))
	y := c.queueFor(w.soon(), wantOne("y"))
	w.svc.Delete(w.t, b.entry("y", all.token).Ref)
	b.joins()
	w.unlock(x.granted()) // it joined at the end of this queue too
	w.unlock(held)
	w.unlock(y.granted())
	assert.Greater(w.t, all.granted().Token(), all.token)
	w.unlock(all.Hold)
	assert.Len(w.t, b.Rejoined(), 1)
	w.empty("x", "y")
}

// allGotLost deletes the entry in a queue in which the request holds already, while it
// waits in another: no other request may hold that lock at the same time.
func allGotLost(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	held := a.holdOne("y")
	all := b.queueAll(w.soon(), "x", "y")
	x := c.queueFor(w.soon(), wantOne("x"))
	w.svc.Delete(w.t, b.entry("x", all.token).Ref)
	h := x.granted()
	b.joins() // it has noticed that
	w.unlock(held)
	require.True(w.t, all.waiting(), "two hold at once")
	w.unlock(h)
	assert.Greater(w.t, all.granted().Token(), h.Token())
	w.unlock(all.Hold)
	w.empty("x", "y")

	held = a.holdOne("y")
	all = b.queueAll(w.soon(), "x", "y")
	w.svc.Delete(w.t, b.entry("x", all.token).Ref)
	b.joins() // it notices that also when no waiter is behind it
	w.unlock(held)
	assert.Greater(w.t, all.granted().Token(), all.token)
	w.unlock(all.Hold)
	w.empty("x", "y")
}

func allJoinAgain(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	held := a.holdOne("y")
	all := b.queueAll(w.soon(), "x", "y")
	w.svc.Expire(w.t, b.entry("x", all.token).Session)
	b.joins()
	w.unlock(held)
	assert.Greater(w.t, all.granted().Token(), all.token)
	w.unlock(all.Hold)
	w.empty("x", "y")
}
