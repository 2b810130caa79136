package recipetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// ends are the cases of requests and holds that their owners end.
func ends() []testCase {
	return []testCase{
		{"CancelledWaiterLeavesAtOnceAndGrantsNoOther", cancelledWaiter},
		{"CancelledManyLeaveNothing", cancelledMany},
		{"GrantAndCancellationRaceLeavesNothing", cancelRace},
		{"DoReleasesInEveryCase", doReleases},
		{"CloseEndsHoldsThenGrantsTheNext", closeGrantsNext},
		{"ATryIsBoundedWhileTheServiceIsAway", boundedTry},
	}
}

func cancelledWaiter(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.hold()
	ctx, cancel := context.WithCancel(w.soon())
	middle := b.queue(ctx)
	last := c.queue(w.soon())
	at := time.Now()
	cancel()
	middle.returned()

	require.ErrorIs(w.t, middle.Err, session.ErrNotAcquired)
	require.ErrorIs(w.t, middle.Err, context.Canceled)
	middle.names("(a)", at)
	w.eventually(2, "the cancelled one has left")
	require.True(w.t, last.waiting(), "its predecessor gave up, and the first still holds")
	w.unlock(h)
	w.unlock(last.granted())
}

func cancelledMany(w *Fixture) {
	ps := w.clients(3)
	h := ps[0].hold()
	ctx, cancel := context.WithCancel(w.soon())
	var waits []*Request
	for i := range 60 {
		waits = append(waits, ps[i%3].start(ctx))
	}
	w.eventually(61, "all have joined")
	survivor := ps[1].queue(w.soon())
	cancel()
	for _, r := range waits {
		r.returned()
		require.ErrorIs(w.t, r.Err, context.Canceled)
	}
	w.eventually(2, "all cancelled ones have left")
	w.unlock(h)
	w.unlock(survivor.granted())
}

func cancelRace(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	for range 30 {
		h := a.hold()
		ctx, cancel := context.WithCancel(w.soon())
		r := b.queue(ctx)
		go cancel()
		w.unlock(h)
		r.returned()
		if r.Err == nil {
			w.unlock(r.Hold)
		} else {
			require.ErrorIs(w.t, r.Err, context.Canceled)
		}
	}
}

func doReleases(w *Fixture) {
	p := w.Client("p")
	m := mutex.New(p.Session, name)
	boom := errors.New("boom")
	require.ErrorIs(w.t, m.Do(w.soon(), func(context.Context, *session.Hold) error { return boom }), boom)
	assert.PanicsWithValue(w.t, "boom", func() {
		_ = m.Do(w.soon(), func(context.Context, *session.Hold) error { panic("boom") })
	})
	w.released(m.Do(w.soon(), func(ctx context.Context, h *session.Hold) error {
		_, err := m.Lock(ctx)
		require.ErrorIs(w.t, err, session.ErrReentrant)
		return nil
	}))
}

func closeGrantsNext(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	own := a.queue(w.soon())
	next := b.queue(w.soon())
	x := endOf(h)
	const worker = 20 * time.Millisecond // how long it takes to stop, well within the margin
	stopped, unlocked := make(chan time.Time, 1), make(chan error, 1)
	go func() {
		<-h.Context().Done()
		time.Sleep(worker)
		stopped <- time.Now()
		unlocked <- h.Unlock()
	}()
	require.NoError(w.t, a.Close())
	next.granted()

	at := <-stopped
	assert.True(w.t, !next.at.Before(at) || w.late(next.at), "Close waited for the holder")
	own.returned()
	require.ErrorIs(w.t, own.Err, session.ErrClosed)
	w.when(x)
	w.lostFor(session.ReasonClosed, cause(h))
	w.lostFor(session.ReasonClosed, <-unlocked)
	w.unlock(next.Hold)
}

// boundedTry: every kind of try returns though its context has no end, and leaves
// nothing in the queue. If its context ends before, what it returns is the same condition.
func boundedTry(w *Fixture) {
	p, q := w.Client("p"), w.Client("q")
	w.unlock(p.hold()) // the session is open, and the queue was used
	p.net.Cut(fault.Both)
	why := fmt.Errorf("another try failed: %w", session.ErrNotAcquired)
	short, cancel := context.WithTimeoutCause(w.t.Context(), w.short/10, why)
	defer cancel()
	var all, ended []*Request
	for _, try := range []func(context.Context) (*session.Hold, error){
		mutex.New(p.Session, name).TryLock,
		func(ctx context.Context) (*session.Hold, error) {
			return mutex.TryLockAll(ctx, locks(p.Session, name, "y")...)
		},
		rwlock.New(p.Session, "rw").TryLock,
		rwlock.New(p.Session, "rw").TryRLock,
		func(ctx context.Context) (*session.Hold, error) {
			return semaphore.New(p.Session, "pool", 3).TryAcquire(ctx, 1)
		},
	} {
		all = append(all, p.BeginWith(func() (*session.Hold, error) { return try(w.t.Context()) }))
		ended = append(ended, p.BeginWith(func() (*session.Hold, error) { return try(short) }))
	}
	for _, r := range ended {
		r.returned()
		require.ErrorIs(w.t, r.Err, session.ErrUnavailable)
		require.ErrorIs(w.t, r.Err, context.DeadlineExceeded)
		require.ErrorContains(w.t, r.Err, why.Error())
		require.NotErrorIs(w.t, r.Err, session.ErrNotAcquired, "it is unknown whether the lock is free")
		assert.NotContains(w.t, r.Err.Error(), "\n")
	}
	for _, r := range all {
		r.returned()
		require.ErrorIs(w.t, r.Err, session.ErrUnavailable)
		require.NotErrorIs(w.t, r.Err, session.ErrNotAcquired, "it is unknown whether the lock is free")
		assert.ErrorContains(w.t, r.Err, "no answer within 5s")
		assert.NotContains(w.t, r.Err.Error(), "\n")
	}
	p.net.Heal()
	w.unlock(q.hold())
	w.empty(name, "y", "rw", "pool")
}
