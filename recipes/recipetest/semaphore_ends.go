package recipetest

import (
	"context"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// semaphoreEnds are the cases of permits that become free without Unlock, of requests that
// give up, and of slots.
func semaphoreEnds() []testCase {
	return slices.Concat(
		[]testCase{
			{"PermitsOfAHolderCutOffAreFreeAfterItsLoss", permitsCut},
			{"PermitsOfARevokedSessionAreFree", func(w *Fixture) {
				permitsGone(w, func(h *session.Hold) { w.svc.Expire(w.t, h.SessionID()) })
			}},
			{"PermitsOfADeletedEntryAreFree", func(w *Fixture) {
				permitsGone(w, func(h *session.Hold) { w.svc.Delete(w.t, Refs(h)[0]) })
			}},
			{"PermitsAWaiterCancelledInFrontGrantsTheNext", permitsFrontCancelled},
			{"PermitsAWaiterThatDiesInFrontGrantsTheNext", permitsFrontDies},
			{"PermitsAWaiterCancelledInTheMiddleGrantsNothing", permitsMiddleCancelled},
			{"PermitsAWaiterDeletedByHandJoinsAgain", func(w *Fixture) {
				ps := w.clients(3)
				deletedWaiter(w, ps[0], ps[1], ps[2], wanting(2, 2))
			}},
			{"SlotsAreTheLowestFreeOnes", slotsLowest},
			{"SlotsOfExpiredHoldsAreFree", slotsDead},
		},
		over("AnAdmittedMarkWith%vOnlyTakesLonger", fault.Retryable(), markFault),
		over("ASlotWith%vOnlyTakesLonger", fault.Retryable(), slotFault),
		over("PermitsRequestedWith%vAreGrantedInTheEnd", fault.Retryable(), func(w *Fixture, f fault.Kind) {
			patientJoin(w, f, wanting(1, 3))
		}),
		over("PermitsReleasedWith%vGrantTheNext", fault.Retryable(), func(w *Fixture, f fault.Kind) {
			unknownLeave(w, f, wanting(2, 2), wanting(1, 2))
		}),
	)
}

func permitsCut(w *Fixture) {
	const limit = 3
	a, b, c := w.mortal("a"), w.Client("b"), w.Client("c")
	h, other := a.take(2, limit), b.take(1, limit)
	x := endOf(h)
	r := c.wait(2, limit)
	a.net.Cut(fault.Both)
	next := w.endsBefore(h, x, r)
	require.NoError(w.t, other.Context().Err(), "others keep theirs")
	a.net.Heal()
	w.unlock(next[0])
	w.unlock(other)
}

// permitsGone has an operator end a hold while others hold and wait.
func permitsGone(w *Fixture, end func(*session.Hold)) {
	const limit = 3
	ps := w.clients(5)
	h, other := ps[0].take(2, limit), ps[1].take(1, limit)
	x := endOf(h)
	two, last := ps[2].wait(2, limit), ps[3].wait(1, limit)
	w.unlock(other)
	w.still("one is free, and the first wants two", two, last)
	end(h)
	h2 := two.woken()
	h3 := last.woken()
	w.when(x)

	assert.Equal(w.t, two.token, h2.Token())
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	one := ps[4].wait(1, limit)
	w.still("all are taken again", one)
	w.unlock(h2)
	w.unlock(one.woken())
	w.unlock(h3)
}

func permitsFrontCancelled(w *Fixture) {
	const limit = 3
	ps := w.clients(4)
	h := ps[0].take(2, limit)
	ctx, cancel := context.WithCancel(w.soon())
	front := ps[1].queueFor(ctx, wanting(3, limit))
	next, last := ps[2].wait(1, limit), ps[3].wait(1, limit)
	w.still("the first of them wants all", front, next, last)
	cancel()
	front.returned()
	require.ErrorIs(w.t, front.Err, context.Canceled)
	require.ErrorIs(w.t, front.Err, session.ErrNotAcquired)
	h2 := next.woken() // while h is held

	require.NoError(w.t, h.Context().Err())
	w.still("all are taken", last)
	w.unlock(h2)
	w.unlock(last.woken())
	w.unlock(h)
}

func permitsFrontDies(w *Fixture) {
	const limit = 3
	ps := w.clients(3)
	h := ps[0].take(2, limit)
	front := ps[1].wait(3, limit)
	next := ps[2].wait(1, limit)
	w.svc.Expire(w.t, ps[0].entry(name, front.token).Session)
	h2 := next.granted()

	again := <-ps[1].joined
	assert.Greater(w.t, again, h2.Token(), "it joined again at the end of the queue")
	require.True(w.t, front.waiting())
	w.unlock(h)
	w.unlock(h2)
	assert.Equal(w.t, again, front.granted().Token())
	w.unlock(front.Hold)
}

func permitsMiddleCancelled(w *Fixture) {
	const limit = 3
	ps := w.clients(4)
	h := ps[0].take(2, limit)
	front := ps[1].wait(2, limit)
	ctx, cancel := context.WithCancel(w.soon())
	middle := ps[2].queueFor(ctx, wanting(3, limit))
	last := ps[3].wait(1, limit)
	cancel()
	middle.returned()
	require.ErrorIs(w.t, middle.Err, context.Canceled)
	w.eventually(3, "it has left")
	w.still("one is free, but the first waiter wants two", front, last)
	w.unlock(h)

	h2, h3 := front.woken(), last.woken()
	w.unlock(h3)
	w.unlock(h2)
}

// slotted is a request for one permit of a semaphore with that limit, with a slot.
func slotted(limit int64) locking {
	return func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		return semaphore.NewWith(s, name, limit, semaphore.Options{Slots: true}).Acquire(ctx, 1)
	}
}

func slotsLowest(w *Fixture) {
	const limit = 4
	ps := w.clients(5)
	var holds []*session.Hold
	for i, p := range ps[:limit] {
		h := p.startFor(w.soon(), slotted(limit)).granted()
		assert.Equal(w.t, i, h.Slot())
		holds = append(holds, h)
	}
	r := ps[4].queueFor(w.soon(), slotted(limit))
	again := ps[0].startFor(w.soon(), slotted(limit))
	w.eventually(limit+2, "both have joined")
	w.unlock(holds[2])
	h := r.granted()
	assert.Equal(w.t, 2, h.Slot(), "the only free one")
	w.unlock(holds[1])
	w.unlock(holds[3])
	second := again.granted()
	assert.Contains(w.t, []int{1, 3}, second.Slot())
	w.unlock(second)
	third := ps[3].startFor(w.soon(), slotted(limit)).granted()
	assert.Equal(w.t, 1, third.Slot(), "the lowest")

	plain := ps[2].startFor(w.soon(), wanting(1, limit)).granted()
	assert.Equal(w.t, -1, plain.Slot(), "it has not asked for one")
	for _, h := range []*session.Hold{holds[0], h, third, plain} {
		w.unlock(h)
	}
}

func slotsDead(w *Fixture) {
	const limit = 3
	ps := w.clients(4)
	for _, byHand := range []bool{false, true} {
		var holds []*session.Hold
		for i, p := range ps[:limit] {
			holds = append(holds, p.startFor(w.soon(), slotted(limit)).granted())
			require.Equal(w.t, i, holds[i].Slot())
		}
		r := ps[3].startFor(w.soon(), slotted(limit))
		w.eventually(limit+1, "it has joined")
		x := endOf(holds[1])
		if byHand {
			w.svc.Delete(w.t, Refs(holds[1])[0])
		} else {
			w.svc.Expire(w.t, holds[1].SessionID())
		}
		h := r.granted()
		if byHand { // the owner frees the slot when it learns of the end
			assert.NotContains(w.t, []int{0, 2}, h.Slot())
		} else {
			assert.Equal(w.t, 1, h.Slot())
		}
		w.when(x) // before that, Unlock may return that the hold ends with the session
		require.ErrorIs(w.t, holds[1].Unlock(), session.ErrLost)
		for _, h := range []*session.Hold{holds[0], h, holds[2]} {
			w.unlock(h)
		}
		w.eventually(0, "nothing is left")
	}
}

// markFault: a request that is granted by the end of another marks its entry as admitted,
// and the waiter behind it waits for that mark.
func markFault(w *Fixture, f fault.Kind) {
	const limit = 2
	ps := w.clients(3)
	h := ps[0].take(2, limit)
	front, next := ps[1].wait(1, limit), ps[2].wait(1, limit)
	ps[1].net.Inject(fault.Update, f)
	w.unlock(h)
	one, two := front.granted(), next.granted()
	w.unlock(one)
	w.unlock(two)
}

func slotFault(w *Fixture, f fault.Kind) {
	const limit = 2
	ps := w.clients(2)
	for i, p := range ps {
		p.net.Inject(fault.Update, f)
		h := p.startFor(w.soon(), slotted(limit)).granted()
		assert.Equal(w.t, i, h.Slot(), "one slot for one hold")
		defer func() { w.unlock(h) }()
	}
}
