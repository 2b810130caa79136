package both

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Calls makes each call with which a program can begin, on locks of that name, and returns
// their errors.
func Calls(ctx context.Context, s *session.Session, name string) map[string]error {
	m, rw, sem := mutex.New(s, name), rwlock.New(s, name), semaphore.New(s, name, 2)
	return map[string]error{
		"lock":     failed(m.Lock(ctx)),
		"try":      failed(m.TryLock(ctx)),
		"do":       m.Do(ctx, func(context.Context, *session.Hold) error { return nil }),
		"robust":   failed(mutex.NewWith(s, name, mutex.Options{Robust: true}).Lock(ctx)),
		"all":      failed(mutex.LockAll(ctx, m, mutex.New(s, name+"-2"))),
		"rlock":    failed(rw.RLock(ctx)),
		"write":    failed(rw.Lock(ctx)),
		"acquire":  failed(sem.Acquire(ctx, 1)),
		"resize":   Decided(func() error { return sem.Resize(ctx, 3) }),
		"ask":      second(yield.Send(ctx, s, name, "please")),
		"campaign": failed(election.New(s, name).Campaign(ctx, "me")),
	}
}

// Decided makes a call again if it took so long that an attempt may have been given up: what
// came of that one is unknown, whatever the answer to the next one is.
func Decided(call func() error) (err error) {
	const attempt = 300 * time.Millisecond // the least time that an attempt has
	for range 5 {
		began := time.Now()
		if err = call(); time.Since(began) < attempt {
			break
		}
	}
	return err
}

// failed returns the error of a request, and releases what was acquired: the next
// request for the same lock would wait for it.
func failed(h *session.Hold, err error) error {
	if err != nil {
		return err
	}
	return unlessLate(h.Unlock())
}

// unlessLate returns the error of a release, nil if no more is wrong than that the answer is
// late on a busy machine.
func unlessLate(err error) error {
	if errors.Is(err, session.ErrReleasePending) && !driver.Incurable(err) {
		return nil
	}
	return err
}

// Withdraw withdraws a yield request, whose removal may be late.
func Withdraw(t testing.TB, withdraw func() error) {
	t.Helper()
	require.NoError(t, unlessLate(withdraw()), "withdraw")
}

func second[T any](_ T, err error) error { return err }

// Use makes the calls that two clients make with each recipe, on locks whose names begin
// with prefix. It leaves no entry.
func Use(t testing.TB, first, other *recipetest.Client, prefix string) {
	t.Helper()
	useMutex(t, first, other, prefix+"mutex")
	ctx, one, two := recipetest.Bounded(t), first.Session, other.Session
	release := func(h *session.Hold, err error) {
		t.Helper()
		require.NoError(t, err)
		recipetest.Unlock(t, h)
	}
	robust := func(s *session.Session) *mutex.Mutex {
		return mutex.NewWith(s, prefix+"robust", mutex.Options{Robust: true})
	}
	release(robust(one).Lock(ctx))
	release(robust(two).Lock(ctx))
	release(mutex.LockAll(ctx, mutex.New(one, prefix+"a"), mutex.New(one, prefix+"b")))

	w, err := rwlock.New(one, prefix+"rw").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, rwlock.New(one, prefix+"rw").Downgrade(ctx, w))
	release(rwlock.New(two, prefix+"rw").RLock(ctx))
	recipetest.Unlock(t, w)

	sem := func(s *session.Session) *semaphore.Semaphore {
		return semaphore.NewWith(s, prefix+"sem", 1, semaphore.Options{Follow: true, Slots: true})
	}
	h, err := sem(one).Acquire(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, sem(two).Resize(ctx, 2))
	h2, err := sem(two).Acquire(ctx, 1)
	require.NoError(t, err)
	assert.Equal(t, 1, h2.Slot())
	recipetest.Unlock(t, h)
	recipetest.Unlock(t, h2)

	e := election.New(one, prefix+"leader")
	h, err = e.Campaign(ctx, "one")
	require.NoError(t, err)
	require.NoError(t, e.Proclaim(ctx, h, "the one"))
	l, err := election.New(two, prefix+"leader").Leader(ctx)
	require.NoError(t, err)
	assert.Equal(t, "the one", l.Value)
	recipetest.Unlock(t, h)
	yields(ctx, t, one, two, prefix)
}

// useMutex has a holder, a waiter, a waiter that gives up, and a try.
func useMutex(t testing.TB, one, two *recipetest.Client, name string) {
	t.Helper()
	ctx := recipetest.Bounded(t)
	h := one.Lock(t, name)
	r := two.Begin(ctx, name)
	entries := two.Queued(t, name, 2)
	assert.EqualValues(t, h.Token(), entries[0].Token)
	assert.NotEmpty(t, recipetest.Shown(entries[0]).Host)
	_, err := mutex.New(two.Session, name).TryLock(ctx)
	require.ErrorIs(t, err, session.ErrNotAcquired)
	_, err = mutex.New(one.Session, name).Lock(hang.Ending(t, 50*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	two.Queued(t, name, 2) // the deletion may go on after Lock has returned
	recipetest.Unlock(t, h)
	recipetest.Unlock(t, r.Granted(t))
	two.Queued(t, name, 0) // a release may be late
	h, err = mutex.New(two.Session, name).TryLock(ctx)
	require.NoError(t, err)
	recipetest.Unlock(t, h)
	one.Queued(t, name, 0)
}

// yields sends one client a yield request of the other, and evicts its entry.
func yields(ctx context.Context, t testing.TB, one, two *session.Session, prefix string) {
	t.Helper()
	h, err := mutex.New(one, prefix+"asked").Lock(ctx)
	require.NoError(t, err)
	withdraw, err := yield.Send(ctx, two, prefix+"asked", "please")
	require.NoError(t, err)
	a, err := yield.Next(ctx, h)
	require.NoError(t, err)
	assert.Equal(t, "please", a.Reason)
	assert.NotEmpty(t, a.Host)
	Withdraw(t, withdraw)
	entries, err := two.Queue(ctx, prefix+"asked")
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.NoError(t, two.Evict(ctx, entries[0]))
	recipetest.Wait(t, h.Context().Done(), "the end of the hold")
	require.ErrorIs(t, h.Unlock(), session.ErrLost)
}
