package session_test

import (
	"context"
	"slices"
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
	"github.com/fairlock/fairlock/session/driver"
)

// assertIs checks that of all ways to end err is those, by errors.Is, and no others.
func assertIs(t *testing.T, err error, want ...error) {
	t.Helper()
	for _, end := range []error{
		session.ErrReleased, session.ErrUnlocked, session.ErrLost, session.ReasonDeadline,
		session.ReasonExpired, session.ReasonDeleted, session.ReasonEvicted, session.ReasonClosed,
	} {
		if slices.Contains(want, end) {
			assert.ErrorIs(t, err, end)
		} else {
			assert.NotErrorIs(t, err, end)
		}
	}
}

// TestUnlockThatFindsTheSessionExpiredReportsALoss: no event has come, so the release is the first
// to find out. The work may have gone on next to another holder.
func TestUnlockThatFindsTheSessionExpiredReportsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, s := memtest.Open(t)
		for _, o := range []mutex.Options{{}, {Robust: true, MinHold: time.Minute}} {
			err := mutex.NewWith(s, "n", o).Do(t.Context(), func(_ context.Context, h *session.Hold) error {
				require.True(t, st.Expire(h.SessionID()))
				require.NoError(t, h.Context().Err())
				return nil
			})
			assertIs(t, err, session.ErrLost, session.ReasonExpired)
			require.NotErrorIs(t, err, session.ErrReleasePending)
		}
	})
}

// TestUnlockDuringWhichTheSessionExpiresReportsALoss: the term learns of it before the release
// is answered.
func TestUnlockDuringWhichTheSessionExpiresReportsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &scripted{}
		st, s, h := play(t, b)
		term, err := core.Of(s).Live(t.Context())
		require.NoError(t, err)
		b.leave = func(ctx context.Context) error {
			st.Expire(term.ID())
			term.Renew()
			<-ctx.Done()
			return driver.ContextError(ctx)
		}

		assertIs(t, h.Unlock(), session.ErrLost, session.ReasonExpired)
	})
}

// TestEvictionWhoseAnswerIsLostWithTheSessionIsDone: the second attempt, with another service
// session, finds the entry gone, because the first one has deleted it.
func TestEvictionWhoseAnswerIsLostWithTheSessionIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		holder, err := st.Open(t.Context(), nil)
		require.NoError(t, err)
		h, err := mutex.New(holder, "n").Lock(t.Context())
		require.NoError(t, err)
		c := st.NewClient()
		operator, err := c.Open(t.Context(), nil)
		require.NoError(t, err)
		entries, err := operator.Queue(t.Context(), "n")
		require.NoError(t, err)
		own, err := core.Of(operator).Live(t.Context())
		require.NoError(t, err)

		c.Cut(fault.Replies)
		evicted := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // without a deadline it would return earlier
		defer cancel()
		go func() { evicted <- operator.Evict(ctx, entries[0]) }()
		<-h.Context().Done()
		<-own.Context().Done()
		synctest.Wait()
		c.Heal()
		require.NoError(t, <-evicted)

		require.ErrorIs(t, operator.Evict(t.Context(), entries[0]), session.ErrGone, "the next call finds nothing")
		require.ErrorIs(t, h.Unlock(), session.ErrLost)
		require.NoError(t, operator.Close())
		require.NoError(t, holder.Close())
	})
}
