package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
)

// patience is how long a call that does not wait for a lock goes on without an answer if its
// context has no deadline.
const patience = 5 * time.Second

// silent is a session whose service has answered until now, and answers nothing from now on.
type silent struct {
	c     *membackend.Client
	s     *session.Session
	entry session.Entry // of a lock that another client holds
}

func newSilent(t *testing.T) *silent {
	st := membackend.New()
	holder, err := st.Open(t.Context(), nil)
	require.NoError(t, err)
	_, err = mutex.New(holder, "m").Lock(t.Context())
	require.NoError(t, err)
	w := &silent{c: st.NewClient()}
	w.s, err = w.c.Open(t.Context(), nil)
	require.NoError(t, err)
	es, err := w.s.Queue(t.Context(), "m")
	require.NoError(t, err)
	w.entry = es[0]
	t.Cleanup(func() {
		w.c.Heal()
		_ = w.s.Close() // the service has not kept what lost its session
		_ = holder.Close()
	})
	w.c.Cut(fault.Both)
	return w
}

// answers are the calls that do not wait for a lock.
func (w *silent) answers() map[string]func(ctx context.Context) error {
	m, rw, e := mutex.New(w.s, "m"), rwlock.New(w.s, "rw"), election.New(w.s, "e")
	sem := semaphore.New(w.s, "sem", 3)
	do := func(context.Context, *session.Hold) error { return nil }
	return map[string]func(ctx context.Context) error{
		"Client.Open": func(ctx context.Context) error { return second(w.c.Open(ctx, nil)) },

		"Session.Queue": func(ctx context.Context) error { return second(w.s.Queue(ctx, "m")) },
		"Session.Names": func(ctx context.Context) error { return second(w.s.Names(ctx, "")) },
		"Session.Evict": func(ctx context.Context) error { return w.s.Evict(ctx, w.entry) },
		"Session.Ask":   func(ctx context.Context) error { return second(yield.Send(ctx, w.s, "m", "why")) },
		"Session.Asks":  func(ctx context.Context) error { return second(yield.List(ctx, w.s, "m")) },

		"Mutex.Queue":   func(ctx context.Context) error { return second(m.Queue(ctx)) },
		"Mutex.TryLock": func(ctx context.Context) error { return second(m.TryLock(ctx)) },
		"Mutex.TryDo":   func(ctx context.Context) error { return m.TryDo(ctx, do) },

		"RWLock.Queue":    func(ctx context.Context) error { return second(rw.Queue(ctx)) },
		"RWLock.TryLock":  func(ctx context.Context) error { return second(rw.TryLock(ctx)) },
		"RWLock.TryRLock": func(ctx context.Context) error { return second(rw.TryRLock(ctx)) },
		"RWLock.TryDo":    func(ctx context.Context) error { return rw.TryDo(ctx, do) },
		"RWLock.TryRDo":   func(ctx context.Context) error { return rw.TryRDo(ctx, do) },

		"Semaphore.Queue":      func(ctx context.Context) error { return second(sem.Queue(ctx)) },
		"Semaphore.Limit":      func(ctx context.Context) error { return second(sem.Limit(ctx)) },
		"Semaphore.Resize":     func(ctx context.Context) error { return sem.Resize(ctx, 4) },
		"Semaphore.TryAcquire": func(ctx context.Context) error { return second(sem.TryAcquire(ctx, 1)) },
		"Semaphore.TryDo":      func(ctx context.Context) error { return sem.TryDo(ctx, 1, do) },

		"Election.Queue":  func(ctx context.Context) error { return second(e.Queue(ctx)) },
		"Election.Leader": func(ctx context.Context) error { return second(e.Leader(ctx)) },
	}
}

func second[T any](_ T, err error) error { return err }

// TestACallThatWaitsForNoLockReturnsWithoutAnAnswer: the context has no deadline and the service
// does not answer, whether the session still lives or has been lost meanwhile.
func TestACallThatWaitsForNoLockReturnsWithoutAnAnswer(t *testing.T) {
	for name := range (&silent{}).answers() {
		for when, later := range map[string]time.Duration{"at once": 0, "after the loss of the session": time.Hour} {
			t.Run(name+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newSilent(t)
					time.Sleep(later)
					began, returned := time.Now(), make(chan error, 1)
					go func() { returned <- w.answers()[name](context.WithoutCancel(t.Context())) }()
					select {
					case err := <-returned:
						require.ErrorIs(t, err, session.ErrUnavailable)
						assert.Equal(t, patience, time.Since(began))
					case <-time.After(time.Hour):
						t.Error("it has not returned in an hour")
						w.c.Heal()
						t.Log(<-returned)
					}
				})
			})
		}
	}
}

// TestACallWithADeadlineWaitsUntilThen for an answer, also for longer.
func TestACallWithADeadlineWaitsUntilThen(t *testing.T) {
	for name := range (&silent{}).answers() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSilent(t)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				began := time.Now()
				require.ErrorIs(t, w.answers()[name](ctx), session.ErrUnavailable)
				assert.Equal(t, 3*time.Second, time.Since(began))
			})
		})
	}
}

// TestACallThatWaitsForALockWaitsWithoutAnAnswer: it goes on until its context ends.
func TestACallThatWaitsForALockWaitsWithoutAnAnswer(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, s *session.Session) error{
		"Mutex.Lock":   func(ctx context.Context, s *session.Session) error { return second(mutex.New(s, "m").Lock(ctx)) },
		"RWLock.RLock": func(ctx context.Context, s *session.Session) error { return second(rwlock.New(s, "rw").RLock(ctx)) },
		"Semaphore.Acquire": func(ctx context.Context, s *session.Session) error {
			return second(semaphore.New(s, "sem", 3).Acquire(ctx, 1))
		},
		"Election.Campaign": func(ctx context.Context, s *session.Session) error {
			return second(election.New(s, "e").Campaign(ctx, "v"))
		},
		"Election.Observe": func(ctx context.Context, s *session.Session) error {
			var last error
			for _, err := range election.New(s, "e").Observe(ctx) {
				last = err
			}
			return errors.Join(last, ctx.Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSilent(t)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Hour, cancel)
				began := time.Now()
				require.ErrorIs(t, call(ctx, w.s), context.Canceled)
				assert.GreaterOrEqual(t, time.Since(began), time.Hour)
			})
		})
	}
}
