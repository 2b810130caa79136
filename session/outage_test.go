package session_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

func TestOutageIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		c := membackend.New().NewClient()
		s, err := c.Open(t.Context(), &session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		lines := func(what string) int { return strings.Count(log.String(), what) }
		for outages := 1; outages <= 2; outages++ {
			log.Reset()
			c.Cut(fault.Both)
			time.Sleep(time.Minute) // the session is over
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			_, err = mutex.New(s, "n").Lock(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, session.ErrNotAcquired)
			synctest.Wait()
			assert.InDelta(t, 10, lines("cannot open a session"), 1, "one at the beginning and one a minute")
			assert.Zero(t, lines("reachable again"))

			c.Heal()
			h, err := mutex.New(s, "n").Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, h.Unlock())
			synctest.Wait() // the session logs a moment later
			assert.Equal(t, 1, lines("reachable again"), "one at the end")
			assert.LessOrEqual(t, lines("level=WARN"), 13, "and the loss of the session")
		}
		require.NoError(t, s.Close())
	})
}

// TestAnOutageIsNotLoggedAcrossATimeWithoutRequests: nothing is sent for hours after a request
// has failed, so whether the service answered meanwhile is not known.
func TestAnOutageIsNotLoggedAcrossATimeWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		c := membackend.New().NewClient()
		s, err := c.Open(t.Context(), &session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		c.Cut(fault.Both)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err = mutex.New(s, "n").Lock(ctx)
			cancel()
			require.ErrorIs(t, err, session.ErrNotAcquired)
			time.Sleep(5 * time.Hour)
		}

		c.Heal()
		h, err := mutex.New(s, "n").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Unlock())
		synctest.Wait()

		assert.Contains(t, log.String(), "cannot open a session")
		assert.Contains(t, log.String(), "reachable again")
		assert.NotRegexp(t, `(for|after)=\d+h`, log.String())
		require.NoError(t, s.Close())
	})
}
