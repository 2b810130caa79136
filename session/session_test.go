package session_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hold opens a session that holds the lock "n".
func hold(t *testing.T) (st *membackend.Store, c *membackend.Client, s *session.Session, h *session.Hold) {
	t.Helper()
	st, c, s = memtest.Open(t)
	h, err := mutex.New(s, "n").Lock(t.Context())
	require.NoError(t, err)
	return st, c, s, h
}

// TestRemainingIsRightBeforeAnyTimerHasFired is about a process that was stopped. When it
// goes on, the work may run before the timer that ends its context.
func TestRemainingIsRightBeforeAnyTimerHasFired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, _, h := hold(t)
		c.Stall()
		time.Sleep(session.DefaultTTL + time.Second)
		require.Empty(t, memtest.Entries(st, "n"), "the service has given it up")
		require.NoError(t, h.Context().Err(), "no timer has fired yet")

		assert.Zero(t, h.Remaining())
		require.Error(t, h.Context().Err(), "and Remaining has ended the context too")
		c.Resume()
		synctest.Wait()
		require.ErrorIs(t, h.Unlock(), session.ErrLost)
	})
}

// TestUnlockedLostSessionIsClosedEarly: when no worker needs the margin any more, the
// waiters need not wait for the expiry.
func TestUnlockedLostSessionIsClosedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, _, h := hold(t)
		c.Cut(fault.Both)
		<-h.Context().Done()
		c.Heal()
		synctest.Wait()
		require.Len(t, st.Sessions(), 1, "left to expire while the worker may still work")
		require.ErrorIs(t, h.Unlock(), session.ErrLost)
		synctest.Wait()

		assert.Empty(t, st.Sessions(), "closed when the last hold was unlocked")
	})
}

func TestFreshSessionIsOpenedWhenItIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		var opened, lost []string
		s, err := c.Open(t.Context(), &session.Options{Hooks: session.Hooks{
			SessionOpened: func(e session.Event) { opened = append(opened, e.Session) },
			SessionLost:   func(e session.Event) { lost = append(lost, e.Session) },
		}})
		require.NoError(t, err)
		st.Expire("m1")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"m1"}, lost)
		require.Len(t, opened, 1, "no request needs another one")
		h, err := mutex.New(s, "n").Lock(t.Context())
		require.NoError(t, err)

		synctest.Wait() // the hook may run a moment after Lock has returned
		assert.Equal(t, []string{"m1", "m2"}, opened)
		require.NoError(t, h.Unlock())
		require.NoError(t, s.Close())
		assert.Equal(t, []string{"m1"}, lost, "Close is not a loss")
	})
}

// backend is a memory backend that fails to open, and notes that it was closed.
type backend struct {
	driver.Backend
	err    error
	closed int
}

func (b *backend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	if b.err != nil {
		return nil, b.err
	}
	return b.Backend.Open(ctx, cfg)
}

func (b *backend) Close() error {
	b.closed++
	return nil
}

func TestOpenThatFailsClosesTheBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			err  error
			opts session.Options
			want error
		}{
			{err: driver.ErrDenied, want: session.ErrDenied},
			{err: errors.Join(driver.ErrUnavailable, errors.New("127.0.0.1:1")), want: session.ErrUnavailable},
			{opts: session.Options{TTL: time.Millisecond}, want: session.ErrInvalidOptions},
			{opts: session.Options{TTL: 10 * time.Second, Margin: 10 * time.Second}, want: session.ErrInvalidOptions},
			{opts: session.Options{TTL: 10 * time.Second, Margin: 9 * time.Second}, want: session.ErrInvalidOptions},
			{opts: session.Options{TTL: time.Hour + time.Millisecond}, want: session.ErrInvalidOptions},
			{opts: session.Options{Margin: -1}, want: session.ErrInvalidOptions},
			{opts: session.Options{Label: string(make([]byte, 129))}, want: session.ErrInvalidOptions},
		} {
			client := memtest.NewWith(memory.Options{MaxTTL: time.Hour}).NewClient()
			b := &backend{Backend: client.Backend(), err: c.err}
			_, err := core.Open(t.Context(), b, &c.opts)

			require.ErrorIs(t, err, c.want)
			assert.Zero(t, client.Requests(), "nothing was sent")
			assert.Equal(t, 1, b.closed)
		}
	})
}

func TestIncurableErrorsEndTheWaitForASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		b := &backend{Backend: st.Backend()}
		s, err := core.Open(t.Context(), b, nil)
		require.NoError(t, err)
		b.err = driver.ErrDenied // an operator has changed the password
		st.Expire("m1")
		time.Sleep(time.Minute)
		_, err = mutex.New(s, "n").Lock(t.Context())

		require.ErrorIs(t, err, session.ErrDenied)
		require.NoError(t, s.Close())
		assert.Equal(t, 1, b.closed)
	})
}

// clocked is a backend whose clock reads what a function makes of the time.
type clocked struct {
	driver.Backend
	now func(driver.Instant) driver.Instant
}

func (b clocked) Info() driver.Info {
	i := b.Backend.Info()
	i.Clock = clock{i.Clock, b.now}
	return i
}

type clock struct {
	driver.Clock
	now func(driver.Instant) driver.Instant
}

func (c clock) Now() driver.Instant { return c.now(c.Clock.Now()) }

// starved is a backend whose clock can be set forward, as if timers had been starved.
func starved(b driver.Backend, ahead *atomic.Int64) driver.Backend {
	return clocked{b, func(at driver.Instant) driver.Instant { return at.Add(time.Duration(ahead.Load())) }}
}

// holdStarved holds the lock "n" by a clock that jumps by ahead.
func holdStarved(t *testing.T) (c *membackend.Client, s *session.Session, h *session.Hold, ahead *atomic.Int64) {
	t.Helper()
	c, ahead = membackend.New().NewClient(), new(atomic.Int64)
	s, err := core.Open(t.Context(), starved(c.Backend(), ahead), nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	h, err = mutex.New(s, "n").Lock(t.Context())
	require.NoError(t, err)
	return c, s, h, ahead
}

func TestNothingIsGrantedAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		joins := 0
		late := &scripted{Backend: starved(membackend.New().Backend(), &ahead), joined: func() {
			joins++
			if joins == 1 {
				ahead.Store(int64(session.DefaultTTL)) // no timer has fired
			}
		}}
		s, err := core.Open(t.Context(), late, nil)
		require.NoError(t, err)
		first, err := core.Of(s).Live(t.Context())
		require.NoError(t, err)
		context.AfterFunc(first.Context(), func() { ahead.Store(0) })

		h, err := mutex.New(s, "n").Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, joins)
		require.NotEqual(t, first.ID(), h.SessionID(), "the lock is one of the next service session")
		require.NoError(t, h.Unlock())
		require.NoError(t, s.Close())
	})
}

func TestSleepOfTheMachineIsNoticedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, h, ahead := holdStarved(t)
		c.Cut(fault.Both)
		time.Sleep(time.Second)
		ahead.Store(int64(session.DefaultTTL)) // the machine slept, and so did all timers
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()

		require.ErrorIs(t, context.Cause(h.Context()), session.ErrLost, "by itself")
		require.ErrorIs(t, h.Unlock(), session.ErrLost)
		c.Heal()
	})
}

func TestUnlockAfterAPauseSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, h, ahead := holdStarved(t)
		ahead.Store(int64(session.DefaultTTL))

		err := h.Unlock()
		require.ErrorIs(t, err, session.ErrLost)
		require.NotErrorIs(t, err, session.ErrReleasePending)
		assert.Zero(t, c.Sent(fault.Leave))
	})
}

func TestUnlockOfADeletedEntryIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, _, h := hold(t)
		require.True(t, st.Delete("n", core.Hold(h).Refs()[0].Key)) // before it is watched
		err := h.Unlock()

		var lost *session.LostError
		require.ErrorAs(t, err, &lost)
		assert.Equal(t, session.ReasonEvicted, lost.Reason)
	})
}

func TestUnlockEndsTheContextBeforeItSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, _, h := hold(t)
		ended := false
		c.OnSend(func(op fault.Op) {
			if op == fault.Leave {
				ended = h.Context().Err() != nil
			}
		})
		require.NoError(t, h.Unlock())

		assert.True(t, ended, "the work has stopped before another client can start")
	})
}

func TestUnlockWaitsNoLongerThanTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c, _, h := hold(t)
		c.Cut(fault.Both)
		const left = 300 * time.Millisecond
		time.Sleep(h.Remaining() - left)
		at := time.Now()
		err := h.Unlock()

		require.ErrorIs(t, err, session.ErrReleasePending)
		require.NotErrorIs(t, err, session.ErrLost)
		require.ErrorIs(t, context.Cause(h.Context()), session.ErrReleased)
		assert.LessOrEqual(t, time.Since(at), left)
		synctest.Wait() // the background has sent its own
		sent := c.Sent(fault.Leave)
		require.ErrorIs(t, h.Unlock(), session.ErrUnlocked)
		assert.Equal(t, sent, c.Sent(fault.Leave), "nothing is sent for a second Unlock")
		c.Heal()
	})
}

func TestADeadlineThatPassesUnnoticedEndsTheSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, h, ahead := holdStarved(t)
		withdraw, err := yield.Send(t.Context(), s, "n", "too late")
		require.NoError(t, err)
		ahead.Add(int64(time.Hour))
		_, err = yield.Next(t.Context(), h)
		require.ErrorIs(t, err, session.ErrLost)
		require.Error(t, h.Unlock())
		require.Error(t, withdraw())
	})
}
