package recipetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/session"
)

// cuts are the cases of networks that fail for long.
func cuts() []testCase {
	return slices.Concat(
		over("HolderCutOff%vIsLostBeforeTheNextIsGranted", fault.Directions(), func(w *Fixture, d fault.Direction) {
			cutHolder(w, func(p *Client) { p.net.Cut(d) })
		}),
		[]testCase{
			{"HolderWithLateRepliesIsLostBeforeTheNextIsGranted", lateReplies},
			{"AtTheDeadlineTheSessionIsLeftToExpire", leftToExpire},
			{"LockCutOffReturnsWithItsContext", func(w *Fixture) { cutWaiter(w, lock, lock) }},
			{"JoinCutOffReturnsWithItsContext", func(w *Fixture) {
				a := w.Client("a")
				a.givesUp(fault.Replies, func(ctx context.Context) error {
					_, err := lock(ctx, a.Session)
					return err
				})
			}},
			{"WaiterCutOffForLongJoinsAgain", cutLong},
			{"ShortCutLosesNoPlace", cutShort},
		},
		over("UnlockCutOff%vIsPendingThenDone", fault.Directions(), cutUnlock),
	)
}

// cutHolder is the promise that matters most: the context ends before another client can
// hold.
func cutHolder(w *Fixture, cut func(*Client)) {
	a, b := w.mortal("a"), w.Client("b")
	h := a.hold()
	x := endOf(h)
	r := b.queue(w.soon())
	cut(a)
	next := w.endsBefore(h, x, r)

	w.t.Logf("the context ended %s before the next grant, margin %s", r.at.Sub(x.at).Round(time.Millisecond), a.Options().Margin)
	w.lostFor(session.ReasonDeadline, cause(h))
	a.net.Heal()
	require.NoError(w.t, next[0].Context().Err())
	w.unlock(next[0])
}

// lateReplies delays the answers to several renewals, and then drops them: a deadline that
// counts from the answer is late by that delay.
func lateReplies(w *Fixture) {
	cutHolder(w, func(p *Client) {
		p.net.Delay(p.Options().TTL / 8)
		time.Sleep(p.Options().TTL * 3 / 4)
		p.net.Cut(fault.Both)
	})
}

// leftToExpire checks that the entry is still there when the worker has used
// up most of its margin, though it could have been removed at the deadline.
func leftToExpire(w *Fixture) {
	a, b := w.mortal("a"), w.Client("b")
	h := a.hold()
	x := endOf(h)
	r := b.queue(w.soon())
	a.net.Cut(fault.Replies) // a request to end the session would reach the service
	// In this order: a machine that stands still in between makes the deadline earlier.
	now, left := time.Now(), h.Remaining()
	deadline := now.Add(left)
	w.when(x)
	next := r.granted()

	if left > 0 || w.h.Virtual { // else it was lost before the cut
		require.GreaterOrEqual(w.t, r.at.Sub(deadline), a.Options().Margin, "from the deadline to the next grant: the margin")
	}
	a.net.Heal()
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	w.unlock(next)
}

// cutWaiter has a request give up that waits between a holder and another waiter.
func cutWaiter(w *Fixture, hold, want locking) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.holds(hold)
	ctx, cancel := context.WithCancelCause(w.soon())
	r := b.queueFor(ctx, want)
	last := c.queueFor(w.soon(), hold)
	b.net.Cut(fault.Both)
	why := errors.New("lost interest")
	at := time.Now()
	cancel(why)
	r.returned()

	w.prompt(at, r.at)
	require.ErrorIs(w.t, r.Err, context.Canceled)
	require.ErrorIs(w.t, r.Err, why)
	require.ErrorIs(w.t, r.Err, session.ErrNotAcquired)
	require.Equal(w.t, 3, w.svc.Count(w.t, name), "the fault was in effect: the entry could not be removed")
	b.net.Heal()
	w.eventually(2, "removed after the heal")
	w.unlock(h)
	w.unlock(last.granted())
}

// cutUnlock: no server answers a release for longer than Unlock waits, as while a leader
// dies. The session finishes the release after the cut, or it was done, and only its answer
// was lost.
func cutUnlock(w *Fixture, d fault.Direction) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	r := b.queue(w.soon())
	if d == fault.Replies {
		a.net.CutRepliesTo(fault.Leave)
	} else {
		a.net.Cut(d)
	}
	at := time.Now()
	err := h.Unlock()
	returned := time.Now()

	require.ErrorIs(w.t, err, session.ErrReleasePending)
	w.prompt(at.Add(time.Second), returned)
	if d&fault.Requests != 0 {
		require.True(w.t, r.waiting(), "the fault was in effect")
		a.net.Heal()
	}
	w.unlock(r.granted())
	a.net.Heal()
	require.ErrorIs(w.t, h.Unlock(), session.ErrUnlocked)
}

func cutLong(w *Fixture) {
	a, b := w.Client("a"), w.mortal("b")
	h := a.hold()
	r := b.queue(w.soon())
	w.attend()
	b.net.Cut(fault.Both)
	w.eventually(1, "the service has given the waiter up")
	b.net.Heal()
	again, joins := within(w.t, w.timeout(), b.joined, "another place in the queue"), 1
	require.Greater(w.t, again, r.token)
	w.unlock(h)

	r.granted()
	for ; len(b.joined) > 0; joins++ { // a busy machine may lose the short session once more
		again = <-b.joined
	}
	assert.Equal(w.t, again, r.Hold.Token())
	w.unlock(r.Hold)
	rejoined := b.Rejoined()
	require.Len(w.t, rejoined, joins)
	assert.True(w.t, joins == 1 || !w.h.Virtual)
	assert.Equal(w.t, r.token, rejoined[0].Token)
	assert.Equal(w.t, 1, rejoined[0].Ahead)
	assert.ErrorIs(w.t, rejoined[0].Err, session.ErrLost)
}

func cutShort(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.hold()
	second := b.queue(w.soon())
	third := c.queue(w.soon())
	b.net.Cut(fault.Both)
	w.unlock(h) // no event of that reaches b
	w.eventually(2, "released")
	b.net.Heal()

	assert.Equal(w.t, second.token, second.granted().Token(), "it kept its place")
	require.True(w.t, third.waiting())
	w.unlock(second.Hold)
	w.unlock(third.granted())
}

// outcomes are the cases of requests whose outcome is unknown.
func outcomes() []testCase {
	return slices.Concat(
		over("JoinWith%vBlocksNoWaiter", fault.Retryable(), func(w *Fixture, f fault.Kind) { unknownJoin(w, f, lock, name) }),
		over("JoinWith%vIsGrantedInTheEnd", fault.Retryable(), func(w *Fixture, f fault.Kind) { patientJoin(w, f, lock) }),
		over("ReleaseWith%vGrantsTheNext", fault.Retryable(), func(w *Fixture, f fault.Kind) { unknownLeave(w, f, lock, lock) }),
		over("ReadWith%vOnlyTakesLonger", fault.Retryable(), unknownRead),
	)
}

// patientJoin has two callers wait without a deadline; the second may wait for the first.
func patientJoin(w *Fixture, f fault.Kind, want locking) {
	a, b := w.Client("a"), w.Client("b")
	a.net.Inject(fault.Join, f)
	h := a.startFor(w.soon(), want).granted()
	w.eventually(1, "one entry for one request")
	b.net.Inject(fault.Join, f)
	r := b.queueFor(w.soon(), want)
	w.eventually(2, "one entry for one request")
	w.unlock(h)
	w.unlock(r.granted())
}

func unknownRead(w *Fixture, f fault.Kind) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.hold()
	second := b.queue(w.soon())
	c.net.Inject(fault.Read, f)
	third := c.queue(w.soon())
	w.unlock(h)
	w.unlock(second.granted())

	assert.Equal(w.t, third.token, third.granted().Token(), "it kept its place")
	w.unlock(third.Hold)
}

// unknownJoin has the caller give up while the outcome is unknown.
func unknownJoin(w *Fixture, f fault.Kind, want locking, queues ...string) {
	a, b := w.Client("a"), w.Client("b")
	a.net.Inject(fault.Join, f)
	r := a.startFor(hang.Ending(w.t, 50*time.Millisecond), want)
	r.returned()
	if r.Err == nil {
		w.unlock(r.Hold)
	} else {
		require.ErrorIs(w.t, r.Err, context.DeadlineExceeded)
	}
	w.unlock(b.holds(want)) // and neither session has ended
	w.empty(queues...)
}

// unknownLeave has requests wait behind a hold whose release goes wrong.
func unknownLeave(w *Fixture, f fault.Kind, hold locking, behind ...locking) {
	a, b := w.Client("a"), w.Client("b")
	h := a.holds(hold)
	var waits []*Request
	for _, want := range behind {
		waits = append(waits, b.queueFor(w.soon(), want))
	}
	a.net.Inject(fault.Leave, f)
	UnlockInTrouble(w.t, h)
	for _, r := range waits {
		w.unlock(r.granted())
	}
	require.ErrorIs(w.t, h.Unlock(), session.ErrUnlocked)
	w.empty(h.Names()...)
	assert.Empty(w.t, a.Rejoined())
}
