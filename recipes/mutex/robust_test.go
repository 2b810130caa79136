package mutex_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver/fault"
)

// begin starts a Lock, and returns when it waits. The channel has the hold, or
// nil.
func begin(ctx context.Context, t *testing.T, m *mutex.Mutex) chan *session.Hold {
	t.Helper()
	got := make(chan *session.Hold, 1)
	go func() {
		h, err := m.Lock(ctx)
		if ctx.Err() == nil {
			assert.NoError(t, err)
		}
		got <- h
	}()
	synctest.Wait()
	return got
}

func TestForeignHolderBehindAWaiterThatLeftIsUnknown(t *testing.T) {
	for _, tells := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := membackend.NewWith(&membackend.Options{Tells: tells})
			robust := mutex.Options{Robust: true}
			st.PutForeign("n", "theirs", true)
			ctx, cancel := context.WithCancel(t.Context())
			between := begin(ctx, t, mutex.NewWith(open(t, st, nil), "n", robust))
			got := begin(t.Context(), t, mutex.NewWith(open(t, st, nil), "n", robust))
			cancel()
			<-between
			synctest.Wait()
			st.Delete("n", "theirs")
			h := <-got

			assert.Equal(t, session.PastUnknown, h.Previous(), "tells: %t", tells)
			require.NoError(t, h.Unlock())
		})
	}
}

func TestForeignEntryThatGaveUpBehindAHolderIsNotTheHolderBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		m := mutex.NewWith(open(t, st, nil), "n", mutex.Options{Robust: true})
		st.PutForeign("n", "theirs", true)
		first := begin(t.Context(), t, m)
		second := begin(t.Context(), t, m)
		st.Delete("n", "theirs")
		h := <-first
		assert.Equal(t, session.PastUnknown, h.Previous())
		require.NoError(t, h.Unlock())
		h = <-second
		assert.Equal(t, session.PastClean, h.Previous())
		require.NoError(t, h.Unlock())
	})
}

func TestAccountCostsOneRequestMoreWhenWaited(t *testing.T) {
	for _, account := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := membackend.New()
			o := mutex.Options{Robust: account}
			h, err := mutex.NewWith(open(t, st, nil), "n", o).Lock(t.Context())
			require.NoError(t, err)
			c := st.NewClient()
			m := mutex.NewWith(open(t, c, nil), "n", o)
			got := begin(t.Context(), t, m)
			looks := c.Sent(fault.Look)
			require.NoError(t, h.Unlock())
			h = <-got

			want := 0
			if account {
				want = 1
			}
			assert.Equal(t, want, c.Sent(fault.Change))
			assert.Equal(t, looks, c.Sent(fault.Look))
			require.NoError(t, h.Unlock())
			h, err = m.Lock(t.Context())
			require.NoError(t, err)
			assert.Equal(t, want, c.Sent(fault.Change), "none when nobody is ahead")
			require.NoError(t, h.Unlock())
		})
	}
}

func TestSessionClosedInALockDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		delay := mutex.Options{LockDelay: time.Minute}
		_, err := mutex.NewWith(open(t, st, nil), "n", delay).Lock(t.Context())
		require.NoError(t, err)
		st.Expire(st.Sessions()[0])
		s := open(t, st, nil)
		errs := make(chan error)
		go func() {
			_, err := mutex.NewWith(s, "n", delay).Lock(t.Context())
			errs <- err
		}()
		synctest.Wait()
		at := time.Now()
		require.NoError(t, s.Close())

		require.ErrorIs(t, <-errs, session.ErrClosed)
		assert.Zero(t, time.Since(at))
		assert.Empty(t, st.Entries("n"))
	})
}

// A reentrant lock must not take another recipe's hold of its name for its own:
// that of a reader or of a few permits excludes nobody.
func TestReentrantIsOnlyInsideItsOwnKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		s := open(t, st, nil)
		for kind, take := range map[string]func() (*session.Hold, error){
			"reader":  func() (*session.Hold, error) { return rwlock.New(s, "n").RLock(t.Context()) },
			"permits": func() (*session.Hold, error) { return semaphore.New(s, "n", 2).Acquire(t.Context(), 1) },
			"leader":  func() (*session.Hold, error) { return election.New(s, "n").Campaign(t.Context(), "v") },
		} {
			h, err := take()
			require.NoError(t, err)
			_, err = mutex.NewReentrant(s, "n").Lock(h.Context())
			require.ErrorIs(t, err, session.ErrReentrant, kind)
			require.NoError(t, h.Unlock())
		}
	})
}
