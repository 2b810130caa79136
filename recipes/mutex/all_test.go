package mutex_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// One lock of two is lost while the other is waited for, and no watch is armed that would
// report it. They are armed late, in any order.
func TestNoLockOfSeveralIsGrantedWithoutItsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		other := open(t, st, nil)
		y, err := mutex.New(other, "y").Lock(t.Context())
		require.NoError(t, err)
		c := st.NewClient()
		s := open(t, c, nil)
		for range 3 { // on the lock that it has got, on the other one, and on the holder of that
			c.Inject(fault.Watch, fault.LostRequest)
		}
		got := make(chan *session.Hold, 1)
		go func() {
			h, err := mutex.LockAll(t.Context(), mutex.New(s, "x"), mutex.New(s, "y"))
			assert.NoError(t, err)
			got <- h
		}()
		synctest.Wait()
		st.Delete("x", memtest.Entries(st, "x")[0].Key)
		x, err := mutex.New(other, "x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, y.Unlock())
		time.Sleep(session.DefaultTTL)

		require.Empty(t, got, "two hold at once")
		require.NoError(t, x.Unlock())
		h := <-got
		assert.Greater(t, h.Token(), x.Token())
		require.NoError(t, h.Unlock())
	})
}

// TestLateUnlockOfSeveralForgetsNoQueueInUse: one lock of several was lost long ago, and the
// process has acquired it again since.
func TestLateUnlockOfSeveralForgetsNoQueueInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		s := open(t, st, nil)
		a := mutex.New(s, "a")
		both, err := mutex.LockAll(t.Context(), a, mutex.New(s, "b"))
		require.NoError(t, err)
		require.True(t, st.Delete("a", memtest.Entries(st, "a")[0].Key))
		<-both.Context().Done()
		require.NoError(t, a.Do(t.Context(), func(context.Context, *session.Hold) error { return nil }))
		time.Sleep(time.Minute) // the queue is forgotten

		runs := 0
		for range 2 {
			require.NoError(t, a.Once(t.Context(), "key", func(context.Context, *session.Hold) error {
				runs++
				require.ErrorIs(t, both.Unlock(), session.ErrLost)
				time.Sleep(time.Minute)
				return nil
			}))
		}

		assert.Equal(t, 1, runs)
	})
}

// TestTryWaitsForTheDelayAndNotForTheService: LockDelay is for a holder that has died, and
// bounds no request.
func TestTryWaitsForTheDelayAndNotForTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		delay := mutex.Options{LockDelay: time.Minute}
		dead := open(t, st, nil)
		_, err := mutex.NewWith(dead, "n", delay).Lock(t.Context())
		require.NoError(t, err)
		require.True(t, st.Expire(st.Sessions()[0]))
		c := st.NewClient()
		m := mutex.NewWith(open(t, c, nil), "n", delay)

		began := time.Now()
		h, err := m.TryLock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, time.Minute, time.Since(began))
		require.NoError(t, h.Unlock())

		c.Cut(fault.Both)
		began = time.Now()
		_, err = m.TryLock(t.Context())
		require.ErrorIs(t, err, session.ErrUnavailable)
		assert.Less(t, time.Since(began), 10*time.Second)
		c.Heal()
	})
}

// TestErrorOfALockIsTheContextsOwnInAnOutage: the cause of a context may be another error.
func TestErrorOfALockIsTheContextsOwnInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		s := open(t, c, nil)
		c.Cut(fault.Both)
		time.Sleep(2 * session.DefaultTTL)
		failed := errors.New("another worker has failed")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(failed) })
		_, err := mutex.New(s, "n").Lock(ctx)

		require.ErrorIs(t, err, session.ErrNotAcquired)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, failed)
		c.Heal()
	})
}
