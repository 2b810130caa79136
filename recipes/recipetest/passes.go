package recipetest

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// passes are the cases of locks that a process passes on to its own next request when it sends the
// release. The network is cut then, so no answer can have granted anything.
func passes() []testCase {
	return append(
		over("ALockIsPassedOnBeforeTheAnswerCut%v", fault.Directions(), passOn),
		testCase{"ALockWithAGuardIsPassedOnWithTheAnswer", func(w *Fixture) {
			passNot(w, lock, lock, func(_ *Client, h *session.Hold) { core().Hold(h).Tie() })
		}},
		testCase{"ALockWhoseRecordMayComeLateIsPassedOnWithTheAnswer", passRecord},
		testCase{"ARobustLockIsPassedOnWithTheAnswer", func(w *Fixture) { passNot(w, wantRobust(mutex.Options{}), lock, nil) }},
		testCase{"ARobustLockFollowsWithTheAnswer", func(w *Fixture) { passNot(w, lock, wantRobust(mutex.Options{}), nil) }},
		testCase{"AWriterIsFollowedByReadersBeforeTheAnswer", passReaders},
		testCase{"AWriterFollowsWithTheAnswer", func(w *Fixture) { passNot(w, reading, writing, nil) }},
		testCase{"PermitsArePassedOnWithTheAnswer", func(w *Fixture) { passNot(w, wanting(1, 1), wanting(1, 1), nil) }},
		testCase{"SeveralLocksArePassedOnBeforeTheAnswer", passAll},
		testCase{"APassedLockEndsWithTheSessionBeforeTheNextIsGranted", passLost},
		testCase{"APassedLockEndsWhenTheSessionIsEnded", passExpired},
		testCase{"APassedLockStaysWhenTheOneBeforeWasDeleted", passDeleted},
	)
}

// guarded waits until requests of the client have their own entries watched.
func (p *Client) guarded(rs ...*Request) {
	p.w.t.Helper()
	for _, r := range rs {
		p.w.until("the entry is watched", func() bool { return p.own.watched(r.token) })
	}
}

// passing has a client hold, its next request wait behind that, watched, and the last one of b behind both.
func (w *Fixture) passing(a, b *Client, want locking) (h *session.Hold, next, last *Request) {
	w.t.Helper()
	h = a.holds(want)
	next, last = a.queueFor(w.soon(), want), b.queueFor(w.soon(), want)
	a.guarded(next)
	return h, next, last
}

// unlocking calls Unlock, and returns where its error comes.
func unlocking(h *session.Hold) <-chan error {
	done := make(chan error, 1)
	go func() { done <- h.Unlock() }()
	return done
}

// answered waits for the end of calls of Unlock. Those that were sent during a cut may be pending.
func (w *Fixture) answered(calls ...<-chan error) {
	w.t.Helper()
	for _, call := range calls {
		err := within(w.t, w.timeout(), call, "the end of Unlock")
		if err != nil {
			assert.ErrorIs(w.t, err, session.ErrReleasePending)
		}
	}
}

func passOn(w *Fixture, d fault.Direction) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	waits := []*Request{a.queue(w.soon()), a.queue(w.soon()), a.queue(w.soon())}
	last := b.queue(w.soon())
	a.guarded(waits...)
	a.net.Cut(d)
	var calls []<-chan error
	for _, r := range waits {
		before := h
		calls = append(calls, unlocking(h))
		h = r.granted()

		require.ErrorIs(w.t, context.Cause(before.Context()), session.ErrReleased)
		require.NoError(w.t, h.Context().Err())
		require.Positive(w.t, h.Remaining())
		assert.Equal(w.t, r.token, h.Token())
		assert.Greater(w.t, h.Token(), before.Token())
	}
	last.Waits(w.t)
	a.net.Heal()
	w.answered(calls...)
	w.eventually(2, "all releases are done in the end")
	last.Waits(w.t)
	require.NoError(w.t, h.Context().Err())
	w.unlock(h)
	w.unlock(last.granted())
}

// passNot has a request wait that the release of another one of its process may not grant before the
// service has answered.
func passNot(w *Fixture, hold, want locking, before func(*Client, *session.Hold)) {
	a := w.Client("a")
	h := a.holds(hold)
	r := a.queueFor(w.soon(), want)
	a.guarded(r)
	if before != nil {
		before(a, h)
	}
	a.net.Cut(fault.Both)
	err := h.Unlock()

	require.ErrorIs(w.t, err, session.ErrReleasePending)
	r.Waits(w.t)
	a.net.Heal()
	w.unlock(r.granted())
}

// passRecord has a holder record finished work, and get no answer.
func passRecord(w *Fixture) {
	passNot(w, lock, lock, func(a *Client, h *session.Hold) {
		a.recorded() // the time of the grant is an update too
		ctx, stop := context.WithCancel(w.soon())
		defer stop()
		err := core().Hold(h).MarkDone(ctx, func([]byte) []byte {
			a.net.CutRepliesTo(fault.Update)
			a.net.OnRequest(func() { time.AfterFunc(wrongly, stop) }) // a record that was not sent is not late
			return []byte("done")
		})
		a.net.OnRequest(nil)
		require.Error(w.t, err)
	})
}

func passReaders(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.holds(writing)
	readers := []*Request{a.queueFor(w.soon(), reading), a.queueFor(w.soon(), reading), a.queueFor(w.soon(), reading)}
	writer := a.queueFor(w.soon(), writing)
	last := b.queueFor(w.soon(), reading)
	a.guarded(readers...)
	a.net.Cut(fault.Both)
	call := unlocking(h)
	holds := []*session.Hold{readers[0].granted(), readers[1].granted(), readers[2].granted()}
	writer.Waits(w.t)
	last.Waits(w.t)
	a.net.Heal()
	w.answered(call)
	for _, h := range holds {
		writer.Waits(w.t)
		w.unlock(h)
	}
	w.unlock(writer.granted())
	w.unlock(last.granted())
}

func passAll(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	both := wantAll(name, name+"/2")
	h, r, last := w.passing(a, b, both)
	a.net.Cut(fault.Both)
	call := unlocking(h)
	next := r.granted()
	last.Waits(w.t)
	a.net.Heal()
	w.answered(call)
	last.Waits(w.t)
	w.unlock(next)
	w.unlock(last.granted())
	w.queueHas(0, name+"/2", "both are free")
}

func passLost(w *Fixture) {
	a, b := w.mortal("a"), w.Client("b")
	h, r, last := w.passing(a, b, lock)
	a.net.Cut(fault.Both)
	call := unlocking(h)
	h = r.granted()
	x := endOf(h)
	next := w.endsBefore(h, x, last)
	a.net.Heal()
	w.answered(call)
	w.unlock(next[0])
}

// passExpired ends the session while a lock of it is passed on: by the answer to the release, or by an
// event, the next hold ends.
func passExpired(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h, r, last := w.passing(a, b, lock)
	id := h.SessionID()
	a.net.Cut(fault.Both)
	w.svc.Expire(w.t, id)
	call := unlocking(h)
	h = r.granted()
	x := endOf(h)
	a.net.Heal()
	w.when(x)
	require.ErrorIs(w.t, context.Cause(h.Context()), session.ErrLost)
	require.ErrorIs(w.t, h.Unlock(), session.ErrLost)
	err := within(w.t, w.timeout(), call, "the end of Unlock")
	if !errors.Is(err, session.ErrLost) {
		require.ErrorIs(w.t, err, session.ErrReleasePending)
	}
	w.unlock(last.granted())
}

// passDeleted has an operator delete the entry of the holder before it is released, which the release
// finds: that concerns the hold alone, and not the one that follows it.
func passDeleted(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h, r, last := w.passing(a, b, lock)
	a.net.Cut(fault.Both)
	w.svc.Delete(w.t, Refs(h)[0])
	call := unlocking(h)
	next := r.granted()
	a.net.Heal()
	err := within(w.t, w.timeout(), call, "the end of Unlock")
	if err != nil && !errors.Is(err, session.ErrReleasePending) { // an attempt was lost, so the answer may be unclear
		require.ErrorIs(w.t, err, session.ErrLost)
	}
	w.eventually(2, "the others are there")
	last.Waits(w.t)
	require.NoError(w.t, next.Context().Err())
	w.unlock(next)
	w.unlock(last.granted())
}
