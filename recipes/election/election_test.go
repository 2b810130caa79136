package election_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a session that is closed at the end of the test.
func open(t *testing.T, c *membackend.Client, o *session.Options) *session.Session {
	t.Helper()
	s, err := c.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func TestRunRestsLongerEachTimeUpToTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := election.New(open(t, membackend.New().NewClient(), nil), "n")
		ctx, cancel := context.WithCancel(t.Context())
		var began []time.Time
		err := e.Run(ctx, "v", func(context.Context, *session.Hold) error {
			if began = append(began, time.Now()); len(began) == 14 {
				cancel()
			}
			return nil
		})
		require.ErrorIs(t, err, context.Canceled)

		rest := 100 * time.Millisecond
		for i := 1; i < len(began); i++ {
			took := began[i].Sub(began[i-1])
			assert.GreaterOrEqual(t, took, rest/2, "rest %d", i)
			assert.Less(t, took, rest, "rest %d", i)
			rest = min(2*rest, 10*time.Second)
		}
	})
}

func TestRunDoesNotRestAfterLongWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := election.New(open(t, membackend.New().NewClient(), nil), "n")
		ctx, cancel := context.WithCancel(t.Context())
		runs := 0
		start := time.Now()
		err := e.Run(ctx, "v", func(context.Context, *session.Hold) error {
			if runs++; runs == 5 {
				cancel()
			}
			time.Sleep(10 * time.Second) // the work
			return nil
		})
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 50*time.Second, time.Since(start))
	})
}

func TestRunCampaignsAgainAfterALossAndLogsOtherErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		st := membackend.New()
		o := &session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		e := election.New(open(t, st.NewClient(), o), "n")
		ctx, cancel := context.WithCancelCause(t.Context())
		last := errors.New("cannot flush")
		runs := 0
		err := e.Run(ctx, "v", func(ctx context.Context, h *session.Hold) error {
			switch runs++; runs {
			case 1: // an error and a loss
				st.Delete("n", memtest.Entries(st, "n")[0].Key)
				<-ctx.Done()
				return errors.New("cannot write")
			case 2: // an error, and a loss that this hold has not seen yet
				st.Delete("n", memtest.Entries(st, "n")[0].Key)
				return errors.New("refused by the table")
			case 3: // nothing but the loss
				st.Delete("n", memtest.Entries(st, "n")[0].Key)
				<-ctx.Done()
				return context.Cause(ctx)
			case 4: // a resource reports that the leadership is lost
				return session.ErrLost
			}
			cancel(errors.New("enough"))
			<-ctx.Done()
			return last
		})

		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, last)
		require.EqualError(t, err, `election: run for "n": context canceled: enough: cannot flush`)
		assert.Equal(t, 5, runs)
		synctest.Wait() // the session logs a moment later
		assert.Contains(t, log.String(), "cannot write")
		assert.Contains(t, log.String(), "refused by the table")
		assert.Equal(t, 3, bytes.Count(log.Bytes(), []byte("the leader's work ended")), "%s", &log)
	})
}

// The read of the leader must end with the session although no server answers.
func TestObserveEndsWithItsSessionWhileItReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		leads := election.New(open(t, st.NewClient(), nil), "n")
		h, err := leads.Campaign(t.Context(), "one")
		require.NoError(t, err)
		c := st.NewClient()
		s, err := c.Open(t.Context(), nil)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() {
			var last error
			for _, err := range election.New(s, "n").Observe(t.Context()) {
				last = err
			}
			ended <- last
		}()
		time.Sleep(time.Second)
		c.OnSend(func(op fault.Op) {
			if op == fault.Read {
				c.Cut(fault.Both)
			}
		})
		require.NoError(t, leads.Proclaim(t.Context(), h, "two"))
		time.Sleep(time.Minute)
		c.OnRequest(nil)
		require.NoError(t, s.Close(), "its service session was over long ago")
		synctest.Wait()

		select {
		case err := <-ended:
			require.ErrorIs(t, err, session.ErrClosed)
		default:
			assert.Fail(t, "Observe goes on")
			c.Heal()
		}
		require.NoError(t, h.Unlock())
	})
}

// An observer reads after an event, and not all the time.
func TestObserveReadsOnlyAfterAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		leads := election.New(open(t, st.NewClient(), nil), "n")
		h, err := leads.Campaign(t.Context(), "v")
		require.NoError(t, err)
		c := st.NewClient()
		e := election.New(open(t, c, nil), "n")
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for _, err := range e.Observe(ctx) {
				assert.NoError(t, err)
			}
		}()
		time.Sleep(time.Second)
		before := c.Sent(fault.Read)
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, c.Sent(fault.Read)-before, 6, "the reads without an event")

		before = c.Sent(fault.Read)
		for range 1000 {
			require.NoError(t, leads.Proclaim(t.Context(), h, time.Now().String()))
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Second)
		assert.Less(t, c.Sent(fault.Read)-before, 50, "many changes are one")
		cancel()
		require.NoError(t, h.Unlock())
	})
}

func TestIsLeaderFollowsTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		c := st.NewClient()
		one, err := c.Open(t.Context(), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = one.Close() })
		two, err := st.Open(t.Context(), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = two.Close() })
		e := election.New(one, "e")
		assert.False(t, e.IsLeader())
		h, err := e.Campaign(t.Context(), "one")
		require.NoError(t, err)
		assert.True(t, e.IsLeader())
		assert.True(t, election.New(one, "e").IsLeader())
		assert.False(t, election.New(two, "e").IsLeader(), "another Session")
		assert.False(t, election.New(one, "f").IsLeader(), "another election")
		require.NoError(t, h.Unlock())
		assert.False(t, e.IsLeader())

		h, err = e.Campaign(t.Context(), "one")
		require.NoError(t, err)
		c.Cut(fault.Both)
		time.Sleep(h.Remaining())
		assert.False(t, e.IsLeader(), "at the deadline")
		assert.False(t, election.New(nil, "e").IsLeader())
	})
}
