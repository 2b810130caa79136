package session_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// TestTheCauseOfACallersContextIsNoAnswer: the context of another hold ends with what became of that.
func TestTheCauseOfACallersContextIsNoAnswer(t *testing.T) {
	for name, cause := range map[string]error{
		"another hold was lost at its deadline": &session.LostError{Name: "other", Reason: session.ReasonDeadline},
		"another session expired": &session.LostError{
			Name: "other", Reason: session.ReasonExpired, Err: fmt.Errorf("etcd: %w", driver.ErrSessionOver),
		},
		"an entry of another was gone": driver.ErrGone,
		"another session was closed":   session.ErrClosed,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				_, s, h := play(t, &scripted{update: func(ctx context.Context, r driver.UpdateRequest) error {
					if !r.Marks.Has(driver.MarkShared) {
						return nil
					}
					calls++
					if calls > 1 {
						return nil
					}
					<-ctx.Done()
					return driver.ContextError(ctx)
				}})
				bystander, err := mutex.New(s, "bystander").Lock(t.Context())
				require.NoError(t, err)

				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(cause) })
				err = core.Hold(h).Downgrade(ctx)
				require.ErrorIs(t, err, session.ErrUnavailable)
				require.ErrorContains(t, err, cause.Error())
				require.NotErrorIs(t, err, session.ErrLost)
				time.Sleep(time.Second)
				require.NoError(t, h.Context().Err())
				assert.Equal(t, session.Shared, h.Mode(), "the session finishes the downgrade")
				require.NoError(t, bystander.Context().Err())
				require.NoError(t, h.Unlock())
				require.NoError(t, bystander.Unlock())
			})
		})
	}
}

// TestTheCauseOfATrysContextIsNoAnswer: an errgroup ends the context of a try with the error of
// another one that found its lock held.
func TestTheCauseOfATrysContextIsNoAnswer(t *testing.T) {
	for name, outage := range map[string]time.Duration{"no answer comes": 0, "no session can be opened": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := membackend.New().NewClient()
				var outcome session.Outcome
				s, err := c.Open(t.Context(), &session.Options{Hooks: session.Hooks{
					Ended: func(_ context.Context, e session.Event) { outcome = e.Outcome },
				}})
				require.NoError(t, err)
				c.Cut(fault.Both)
				time.Sleep(outage)
				taken := &session.NotAcquiredError{Ahead: 1}
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(fmt.Errorf("mutex: try lock: %w", taken)) })
				_, err = mutex.New(s, "n").TryLock(ctx)

				require.ErrorIs(t, err, session.ErrUnavailable)
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, session.ErrNotAcquired)
				require.ErrorContains(t, err, taken.Error())
				if outage > 0 {
					require.ErrorContains(t, err, "open a session")
				}
				c.Heal()
				require.NoError(t, s.Close())
				assert.Equal(t, session.OutcomeGaveUp, outcome)
			})
		})
	}
}

// TestATryThatIsLostRightAfterItsDelayHasNoAnswer: the deadline passes with LockDelay, and then no
// session can be opened.
func TestATryThatIsLostRightAfterItsDelayHasNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		dead, err := st.Open(t.Context(), nil)
		require.NoError(t, err)
		delay := mutex.Options{LockDelay: 100 * time.Millisecond}
		_, err = mutex.NewWith(dead, "n", delay).Lock(t.Context())
		require.NoError(t, err)
		require.True(t, st.Expire(st.Sessions()[0]))
		var ahead atomic.Int64
		c := st.NewClient()
		s, err := core.Open(t.Context(), starved(c.Backend(), &ahead), nil)
		require.NoError(t, err)
		time.AfterFunc(delay.LockDelay-time.Millisecond, func() {
			c.Cut(fault.Both)
			ahead.Store(int64(session.DefaultTTL)) // no timer has fired
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = mutex.NewWith(s, "n", delay).TryLock(ctx)

		require.ErrorIs(t, err, session.ErrUnavailable, "no session can be opened")
		require.NotErrorIs(t, err, session.ErrNotAcquired)
		c.Heal()
		require.NoError(t, s.Close())
		require.NoError(t, dead.Close())
	})
}

// TestATryThatLosesItsPlaceGetsNoMoreTime: the deadline passes while the try takes a slot.
func TestATryThatLosesItsPlaceGetsNoMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := membackend.New().NewClient()
		s, err := c.Open(t.Context(), &session.Options{TTL: 5 * time.Second})
		require.NoError(t, err)
		cut := false
		c.OnSend(func(op fault.Op) {
			if op == fault.Update && !cut {
				cut = true
				c.Cut(fault.Both)
			}
		})
		began := time.Now()
		_, err = semaphore.NewWith(s, "n", 1, semaphore.Options{Slots: true}).TryAcquire(t.Context(), 1)

		require.ErrorIs(t, err, session.ErrUnavailable)
		require.True(t, cut)
		assert.Equal(t, 5*time.Second, time.Since(began))
		c.OnSend(nil)
		c.Heal()
		require.NoError(t, s.Close())
	})
}

// TestUnlockOfOneHandleOfSeveralReadsTheClock: no timer has fired yet.
func TestUnlockOfOneHandleOfSeveralReadsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, _, ahead := holdStarved(t)
		m := mutex.NewWith(s, "r", mutex.Options{Reentrant: true})
		outer := m.Do(t.Context(), func(ctx context.Context, _ *session.Hold) error {
			inner := m.Do(ctx, func(context.Context, *session.Hold) error {
				ahead.Store(int64(2 * session.DefaultTTL))
				return nil
			})
			assert.ErrorIs(t, inner, session.ErrLost)
			return nil
		})
		assert.ErrorIs(t, outer, session.ErrLost)
	})
}
