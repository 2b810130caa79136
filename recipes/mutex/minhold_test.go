package mutex_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/progtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

func TestMinHoldKeepsTheLockHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		s, other := open(t, st, nil), open(t, st, nil)
		m := mutex.NewWith(s, "tick", mutex.Options{MinHold: time.Second, Robust: true})
		theirs := mutex.NewWith(other, "tick", mutex.Options{Robust: true})
		granted := time.Now()
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, h.Unlock())
		assert.Equal(t, granted.Add(100*time.Millisecond), time.Now(), "Unlock does not wait")
		require.ErrorIs(t, context.Cause(h.Context()), session.ErrReleased)
		assert.Zero(t, h.Remaining())
		require.ErrorIs(t, h.Unlock(), session.ErrUnlocked)
		_, err = theirs.TryLock(t.Context())
		require.ErrorIs(t, err, session.ErrNotAcquired)

		next, err := theirs.Lock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, granted.Add(time.Second), time.Now(), "granted when the time has passed")
		assert.Greater(t, next.Token(), h.Token())
		assert.False(t, next.PreviousDied())
		require.NoError(t, next.Unlock())

		h, err = m.Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		require.NoError(t, h.Unlock())
		_, err = theirs.TryLock(t.Context())
		require.NoError(t, err, "a hold that was long enough is released by Unlock")
	})
}

func TestMinHoldEndsWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		s := open(t, st, &session.Options{TTL: 10 * time.Second, Margin: 2 * time.Second})
		for _, hold := range []time.Duration{time.Second, time.Minute} {
			other := open(t, st, nil)
			m := mutex.NewWith(other, "tick", mutex.Options{MinHold: hold})
			require.NoError(t, m.Do(t.Context(), func(context.Context, *session.Hold) error { return nil }))
			closing := time.Now()
			require.NoError(t, other.Close())
			margin := other.Options().Margin
			assert.Equal(t, min(hold, margin), time.Since(closing), "Close waits for it, for up to the margin")
			h, err := mutex.New(s, "tick").TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, h.Unlock())
		}
	})
}

// A caller that has unlocked has done all that it must: what Close does not wait for is no warning.
func TestCloseWarnsOfLocksThatAreHeldAndNotOfMinHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		for _, held := range []bool{false, true} {
			var log progtest.Buffer
			s := open(t, st, &session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			h, err := mutex.New(s, "held").Lock(t.Context())
			require.NoError(t, err)
			m := mutex.NewWith(s, "tick", mutex.Options{MinHold: time.Minute})
			require.NoError(t, m.Do(t.Context(), func(context.Context, *session.Hold) error { return nil }))
			if !held {
				require.NoError(t, h.Unlock())
			}
			require.NoError(t, s.Close())
			assert.Contains(t, log.String(), `level=INFO msg="fairlock: session closed before MinHold had passed: others can acquire these locks" names=tick`)
			if held {
				assert.Contains(t, log.String(), `level=WARN msg="fairlock: session closed while locks were held or removals were pending" held=held`)
			} else {
				assert.NotContains(t, log.String(), "level=WARN")
			}
		}
	})
}

// Three replicas attempt the same job, with tickers that are not quite together.
func TestTryDoWithMinHoldRunsAJobOncePerTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		runs := map[int64]int{} // by second
		done := make(chan struct{})
		begin := time.Now().Unix()
		for replica := range 3 {
			s := open(t, st, nil)
			go func() {
				defer func() { done <- struct{}{} }()
				time.Sleep(time.Duration(replica) * 100 * time.Millisecond) // the skew
				m := mutex.NewWith(s, "job", mutex.Options{MinHold: 500 * time.Millisecond})
				for range 20 {
					err := m.TryDo(t.Context(), func(context.Context, *session.Hold) error {
						runs[time.Now().Unix()-begin]++
						time.Sleep(10 * time.Millisecond)
						return nil
					})
					if err != nil {
						assert.ErrorIs(t, err, session.ErrNotAcquired)
					}
					time.Sleep(time.Second)
				}
			}()
		}
		for range 3 {
			<-done
		}
		assert.GreaterOrEqual(t, len(runs), 19)
		for second, n := range runs {
			assert.Equal(t, 1, n, "second %d", second)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	s := open(t, membackend.New(), nil)
	for _, o := range []mutex.Options{{MinHold: -1}, {LockDelay: -1}} {
		_, err := mutex.NewWith(s, "n", o).Lock(t.Context())
		require.ErrorIs(t, err, session.ErrInvalidOptions)
	}
}
