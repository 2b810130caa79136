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
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// ended is a hold that a case brings to its end.
type ended struct {
	store  *membackend.Store
	client *membackend.Client
	s      *session.Session
	h      *session.Hold
}

// entry returns the entry of the hold.
func (e ended) entry(t *testing.T) session.Entry {
	t.Helper()
	queue, err := e.s.Queue(t.Context(), "n")
	require.NoError(t, err)
	require.Len(t, queue, 1)
	return queue[0]
}

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

// Callers branch on the end of a hold with errors.Is alone. The context does not wait
// for the service, so only Unlock distinguishes an eviction from the end of the session.
func TestErrorsIsFindsEachWayAHoldEnds(t *testing.T) {
	lost := func(r session.Reason) []error { return []error{session.ErrLost, r} }
	for name, c := range map[string]struct {
		end           func(t *testing.T, e ended)
		cause, unlock []error
	}{
		"released": {
			func(t *testing.T, e ended) { require.NoError(t, e.h.Unlock()) },
			[]error{session.ErrReleased},
			[]error{session.ErrUnlocked},
		},
		"deadline": {
			func(_ *testing.T, e ended) { e.client.Cut(fault.Both) },
			lost(session.ReasonDeadline), lost(session.ReasonDeadline),
		},
		"expired": {
			func(t *testing.T, e ended) { require.True(t, e.store.Expire(e.h.SessionID())) },
			lost(session.ReasonDeleted), lost(session.ReasonExpired),
		},
		"deleted by an operator": {
			func(t *testing.T, e ended) { require.True(t, e.store.Delete("n", e.entry(t).Key)) },
			lost(session.ReasonDeleted), lost(session.ReasonEvicted),
		},
		"evicted": {
			func(t *testing.T, e ended) { require.NoError(t, e.s.Evict(t.Context(), e.entry(t))) },
			lost(session.ReasonDeleted), lost(session.ReasonEvicted),
		},
		"closed": {
			func(_ *testing.T, e ended) { _ = e.s.Close() },
			lost(session.ReasonClosed), lost(session.ReasonClosed),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := ended{store: membackend.New()}
				e.client = e.store.NewClient()
				var err error
				e.s, err = e.client.Open(t.Context(), nil)
				require.NoError(t, err)
				defer func() { _ = e.s.Close() }()
				e.h, err = mutex.New(e.s, "n").Lock(t.Context())
				require.NoError(t, err)

				c.end(t, e)
				<-e.h.Context().Done()
				e.client.Heal()

				assertIs(t, context.Cause(e.h.Context()), c.cause...)
				assertIs(t, e.h.Unlock(), c.unlock...)
			})
		})
	}
}

// TestUnlockThatFindsTheSessionExpiredReportsALoss: no event has come, so the release is the first
// to find out. The work may have gone on next to another holder.
func TestUnlockThatFindsTheSessionExpiredReportsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, s := open(t)
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
