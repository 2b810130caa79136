package recipetest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// losses are the cases of entries and sessions that an operator ends while the network is
// healthy.
func losses() []testCase {
	return []testCase{
		{"DeletedHolderIsNotifiedAtOnce", deletedHolder},
		{"HolderOfARevokedSessionIsNotifiedAtOnce", revokedHolder},
		{"DeletedWaiterThenReleaseGrantsOneAtATime", func(w *Fixture) {
			ps := w.clients(3)
			deletedWaiter(w, ps[0], ps[1], ps[2], lock)
		}},
		{"DeletedWaiterOfTheSameSessionIsGrantedNothing", func(w *Fixture) {
			p := w.Client("p")
			deletedWaiter(w, p, p, p, lock)
		}},
		{"WaiterOfARevokedSessionJoinsAgain", revokedWaiter},
		{"WaiterBehindAHolderOfItsOwnRevokedSessionIsNotGranted", revokedTogether},
	}
}

// holdLong returns a hold whose entry is watched, because a waiter is behind it. A hold
// that lasts only a moment is not watched.
func (w *Fixture) holdLong(p *Client) *session.Hold {
	h := p.hold()
	p.queueFor(w.soon(), passing(lock))
	w.eventually(2, "both have joined")
	return h
}

// passing is a request that releases as soon as it is granted. While it waits, the
// holder ahead watches its own entry.
func passing(want locking) locking {
	return func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		h, err := want(ctx, s)
		if err == nil {
			_ = h.Unlock() // nil, or the session ends
		}
		return h, err
	}
}

func deletedHolder(w *Fixture) {
	p := w.Client("p")
	h := w.holdLong(p)
	x := endOf(h)
	w.svc.Delete(w.t, Refs(h)[0])
	w.evicted(h, x)
}

func revokedHolder(w *Fixture) {
	p := w.Client("p")
	h := w.holdLong(p)
	id := p.nth(0).Session
	x := endOf(h)
	w.svc.Expire(w.t, id)
	w.when(x)

	require.ErrorIs(w.t, context.Cause(h.Context()), session.ErrLost)
	assert.Zero(w.t, h.Remaining())
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
}

// deletedWaiter deletes the entry between a holder and a request. The holder releases
// when the client has learned of that, and has joined again.
func deletedWaiter(w *Fixture, a, b, c *Client, want locking) {
	for range 10 {
		h := a.holds(want)
		second, third := b.queueFor(w.soon(), want), c.queueFor(w.soon(), want)
		w.svc.Delete(w.t, a.entry(name, second.token).Ref)
		<-b.joined
		w.unlock(h)
		w.onlyOne(second, third)
	}
}

// onlyOne checks that the third is granted, and the second, whose entry was
// deleted, only after it, from its new place.
func (w *Fixture) onlyOne(second, third *Request) {
	w.t.Helper()
	h3 := third.granted()
	require.True(w.t, second.waiting(), "two hold at once")
	w.unlock(h3)
	h2 := second.granted()
	require.Greater(w.t, h2.Token(), h3.Token(), "it joined again at the end of the queue")
	w.unlock(h2)
}

func revokedWaiter(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	r := b.queue(w.soon())
	w.svc.Expire(w.t, a.nth(1).Session)
	again := <-b.joined
	require.Greater(w.t, again, r.token)
	require.True(w.t, r.waiting())
	w.unlock(h)

	assert.Equal(w.t, again, r.granted().Token())
	w.unlock(r.Hold)
	assert.Len(w.t, b.Rejoined(), 1)
}

// revokedTogether: the entries of a holder and of the waiter behind it end together, and
// the events come one after the other.
func revokedTogether(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	for range 20 {
		h := a.hold()
		x := endOf(h)
		own, other := a.queue(w.soon()), b.queue(w.soon())
		w.svc.Expire(w.t, h.SessionID())
		h2 := other.granted()
		w.when(x)
		var again session.Token
		select {
		case again = <-a.joined:
		case <-own.Done:
			require.Fail(w.t, "granted without an entry")
		}
		require.Greater(w.t, again, own.token)
		require.True(w.t, own.waiting(), "another holds")
		w.t.Logf("token %d lost, %d after it in place %d", h.Token(), h2.Token(), again)
		w.unlock(h2)
		require.Equal(w.t, again, own.granted().Token())
		w.unlock(own.Hold)
		require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	}
}

// reasons are the cases of the error after the end of a hold.
func reasons() []testCase {
	return []testCase{
		{"TheCauseAfterUnlockIsReleased", causeReleased},
		{"ALossByTheDeadlineIsReportedAsSuch", lossByDeadline},
		{"ALossWithTheSessionIsReportedAsExpired", lossByExpiry},
		{"DoReturnsOneLossOnce", doReturnsOnce},
	}
}

// oneLoss requires that an error describes one loss, on one line of text.
func (w *Fixture) oneLoss(err error) {
	w.t.Helper()
	require.ErrorIs(w.t, err, session.ErrLost)
	assert.NotContains(w.t, err.Error(), "\n")
	assert.LessOrEqual(w.t, strings.Count(err.Error(), "lost"), 1, "%s", err)
}

// lostFor requires that an error is a loss with that reason.
func (w *Fixture) lostFor(want session.Reason, err error) {
	w.t.Helper()
	w.oneLoss(err)
	var lost *session.LostError
	require.ErrorAs(w.t, err, &lost)
	assert.Equal(w.t, want, lost.Reason)
	assert.Contains(w.t, err.Error(), want.Error())
}

// lostSince is lostFor for a reason that a call since then has looked for at the service. It
// does so for one second: after that the loss may be reported by its first event.
func (w *Fixture) lostSince(began time.Time, want session.Reason, err error) {
	w.t.Helper()
	var lost *session.LostError
	if !w.h.Virtual && time.Since(began) >= time.Second && errors.As(err, &lost) && lost.Reason == session.ReasonDeleted {
		want = session.ReasonDeleted
	}
	w.lostFor(want, err)
}

// unlockLost requires the reason that Unlock reports of a loss.
func (w *Fixture) unlockLost(want session.Reason, h *session.Hold) {
	w.t.Helper()
	began := time.Now()
	w.lostSince(began, want, h.Unlock())
}

// cause is why the context of a hold ended.
func cause(h *session.Hold) error { return context.Cause(h.Context()) }

func causeReleased(w *Fixture) {
	p := w.Client("p")
	h := p.hold()
	w.unlock(h)
	require.ErrorIs(w.t, cause(h), session.ErrReleased)
	require.NotErrorIs(w.t, cause(h), session.ErrUnlocked)
	assert.Equal(w.t, "lock released", cause(h).Error())
	require.ErrorIs(w.t, h.Unlock(), session.ErrUnlocked)
	ended := make(chan error, 1)
	w.released(mutex.New(p.Session, name).Do(w.soon(), func(ctx context.Context, _ *session.Hold) error {
		context.AfterFunc(ctx, func() { ended <- context.Cause(ctx) })
		return nil
	}))
	assert.Equal(w.t, "lock released", (<-ended).Error())
}

func lossByDeadline(w *Fixture) {
	p := w.mortal("p")
	h := p.hold()
	x := endOf(h)
	p.net.Cut(fault.Both)
	w.when(x)
	w.lostFor(session.ReasonDeadline, cause(h))
	w.lostFor(session.ReasonDeadline, h.Unlock())
	p.net.Heal()
}

// lossByExpiry: the context ends with the first event, which may be that of the entry. The
// error of Unlock reports that the session has expired.
func lossByExpiry(w *Fixture) {
	p := w.Client("p")
	h := w.holdLong(p)
	x := endOf(h)
	w.svc.Expire(w.t, h.SessionID())
	w.when(x)
	w.oneLoss(cause(h))
	assert.NotContains(w.t, cause(h).Error(), "delete")
	w.unlockLost(session.ReasonExpired, h)
}

func doReturnsOnce(w *Fixture) {
	p := w.Client("p")
	m := mutex.New(p.Session, name)
	soon := w.soon()
	var ended time.Time
	err := m.Do(soon, func(ctx context.Context, h *session.Hold) error {
		p.queueFor(soon, passing(lock)) // with a waiter behind, the holder is watched at once
		w.svc.Expire(w.t, h.SessionID())
		<-ctx.Done()
		ended = time.Now()
		return context.Cause(ctx)
	})
	w.lostSince(ended, session.ReasonExpired, err)
}
