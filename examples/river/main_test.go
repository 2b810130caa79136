package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/session"
)

// database returns a database with all tables.
func database(t *testing.T, clusters ...string) *pgxpool.Pool {
	t.Helper()
	server := pgtest.New(t, nil)
	require.NoError(t, pgbackend.Apply(t.Context(), server.Conn(t), "", 0))
	db, err := pgxpool.New(t.Context(), server.URL())
	require.NoError(t, err)
	t.Cleanup(db.Close)
	for _, c := range clusters {
		require.NoError(t, prepare(t.Context(), db, c))
	}
	return db
}

// locks opens a session that is not lost because the machine is slow.
func locks(t *testing.T, db *pgxpool.Pool) *session.Session {
	t.Helper()
	s, err := pgbackend.Open(t.Context(), db, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// startClient starts a client that is stopped at the end of the test.
func startClient(t *testing.T, cluster string, w *settler) *river.Client[pgx.Tx] {
	t.Helper()
	client, err := start(context.WithoutCancel(t.Context()), cluster, w)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.StopAndCancel(context.WithoutCancel(t.Context()))) })
	return client
}

// settlements returns the tokens of an account, in the order of the commits.
func settlements(t *testing.T, db *pgxpool.Pool, account string) []int64 {
	t.Helper()
	rows, err := db.Query(t.Context(), `SELECT token FROM settlement WHERE account = $1 ORDER BY id`, account)
	require.NoError(t, err)
	tokens, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	return tokens
}

func TestAnAccountIsSettledByOneJobAtATimeInAllClusters(t *testing.T) {
	const each = 5
	db := database(t, "web", "batch")
	var running, most atomic.Int64
	for _, cluster := range []string{"web", "batch"} {
		w := &settler{db: db, locks: locks(t, db), busy: 20 * time.Millisecond, pay: func(context.Context, string, session.Token) error {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(10 * time.Millisecond)
			running.Add(-1)
			return nil
		}}
		client := startClient(t, cluster, w)
		for range each {
			_, err := client.Insert(t.Context(), settle{Account: "a"}, nil)
			require.NoError(t, err)
		}
	}
	hang.Until(t, func() bool { return len(settlements(t, db, "a")) == 2*each }, "all jobs are done")

	assert.EqualValues(t, 1, most.Load())
	tokens := settlements(t, db, "a")
	assert.IsIncreasing(t, tokens)
}

// TestAJobThatHasLostItsLockCommitsNothing: a job with the next token does the work.
func TestAJobThatHasLostItsLockCommitsNothing(t *testing.T) {
	db := database(t, "web")
	s := locks(t, db)
	var tokens []int64
	w := &settler{db: db, locks: s, pay: func(ctx context.Context, _ string, token session.Token) error {
		tokens = append(tokens, int64(token))
		if len(tokens) > 1 {
			return nil
		}
		q, err := s.Queue(ctx, "account/a")
		if assert.NoError(t, err) && assert.Len(t, q, 1) {
			assert.NoError(t, s.Evict(ctx, q[0]))
		}
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), session.ErrLost)
		return nil // as work does that does not look at its context
	}}
	client := startClient(t, "web", w)
	job, err := client.Insert(t.Context(), settle{Account: "a"}, nil)
	require.NoError(t, err)
	hang.Until(t, func() bool {
		job, err := client.JobGet(t.Context(), job.Job.ID)
		return err == nil && job.State == rivertype.JobStateCompleted
	}, "the job is done")

	require.Len(t, tokens, 2)
	assert.IsIncreasing(t, tokens)
	assert.Equal(t, tokens[1:], settlements(t, db, "a"))
}
