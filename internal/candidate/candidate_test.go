package candidate_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/candidate"
	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, st *membackend.Store, log *bytes.Buffer) *session.Session {
	t.Helper()
	s, err := st.Open(t.Context(), &session.Options{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// noFailure is for a candidate whose campaign does not fail.
func noFailure(t *testing.T) func(error) {
	return func(err error) { assert.NoError(t, err) }
}

func TestCloseEndsTheWorkWaitsAndHandsOverWithoutALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		var log bytes.Buffer
		first := candidate.New(election.New(open(t, st, &log), "n"), "one", noFailure(t))
		synctest.Wait()
		second := candidate.New(election.New(open(t, st, &log), "n"), "two", noFailure(t))
		synctest.Wait()
		require.NoError(t, first.Leads())
		require.ErrorIs(t, second.Leads(), session.ErrNotLeader)
		called := false
		require.ErrorIs(t, second.Do(t.Context(), func(context.Context, *session.Hold) error { called = true; return nil }), session.ErrNotLeader)
		assert.False(t, called)

		var order []string
		type key struct{}
		done := make(chan error, 1)
		go func() {
			ctx := context.WithValue(t.Context(), key{}, "value")
			done <- first.Do(ctx, func(ctx context.Context, h *session.Hold) error {
				token, ok := session.TokenFrom(ctx)
				assert.True(t, ok)
				assert.Equal(t, h.Token(), token)
				assert.Equal(t, "value", ctx.Value(key{}))
				<-ctx.Done()
				time.Sleep(time.Minute) // the work stops slowly
				require.ErrorIs(t, second.Leads(), session.ErrNotLeader)
				order = append(order, "worked")
				return nil
			})
		}()
		synctest.Wait()
		require.NoError(t, first.Close())
		order = append(order, "closed")
		require.NoError(t, <-done)
		synctest.Wait()
		require.NoError(t, second.Leads())
		require.ErrorIs(t, first.Leads(), session.ErrNotLeader)
		require.NoError(t, second.Close())
		require.NoError(t, second.Close(), "again")

		assert.Equal(t, []string{"worked", "closed"}, order)
		assert.Empty(t, log.String())
	})
}

func TestALossEndsTheWorkAndIsItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		var log bytes.Buffer
		c := candidate.New(election.New(open(t, st, &log), "n"), "one", noFailure(t))
		synctest.Wait()
		err := c.Do(t.Context(), func(ctx context.Context, _ *session.Hold) error {
			st.Delete("n", memtest.Entries(st, "n")[0].Key)
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), session.ErrLost)
			return nil
		})
		require.ErrorIs(t, err, session.ErrLost)

		time.Sleep(time.Minute)
		require.NoError(t, c.Leads(), "it has campaigned again")
		require.NoError(t, c.Close())
	})
}

func TestWorkEndsWithItsOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := candidate.New(election.New(open(t, membackend.New(), &log), "n"), "one", noFailure(t))
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped")
		err := c.Do(ctx, func(ctx context.Context, _ *session.Hold) error {
			cancel(stopped)
			<-ctx.Done()
			return context.Cause(ctx)
		})

		require.ErrorIs(t, err, stopped)
		require.NoError(t, c.Leads())
		require.NoError(t, c.Close())
	})
}

func TestACampaignThatCannotSucceedIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var reported []error
		c := candidate.New(election.New(open(t, membackend.New(), &log), strings.Repeat("n", 1000)), "one", func(err error) { reported = append(reported, err) })
		synctest.Wait()

		require.ErrorIs(t, c.Leads(), session.ErrNotLeader)
		require.ErrorIs(t, c.Leads(), session.ErrInvalidName)
		require.ErrorIs(t, c.Close(), session.ErrInvalidName)
		assert.Len(t, reported, 1)
	})
}
