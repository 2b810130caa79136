package pgtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/pgtest"
)

// pooled returns a connection through a pooler.
func pooled(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	require.NoError(t, err)
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(hang.Context(t), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// backend returns the process that answers a connection.
func backend(t *testing.T, conn *pgx.Conn) (pid int) {
	t.Helper()
	require.NoError(t, conn.QueryRow(hang.Context(t), "select pg_backend_pid()").Scan(&pid))
	return pid
}

func TestBouncerSharesConnections(t *testing.T) {
	s := pgtest.New(t, nil)
	for mode, shared := range map[string]bool{"": true, "transaction": true, "session": false} {
		b, err := s.Bouncer(hang.Context(t), &pgtest.BouncerOptions{Mode: mode, PoolSize: 2})
		require.NoError(t, err)
		one, two := pooled(t, b.URL()), pooled(t, b.URL())
		assert.Equal(t, shared, backend(t, one) == backend(t, two), mode)
		require.NoError(t, b.Close())
		assert.True(t, testserver.Refused(b.Addr()))
	}
}

func TestBouncerAdmitsRoles(t *testing.T) {
	s := pgtest.New(t, &pgtest.Options{TLS: true})
	require.NoError(t, s.Exec(hang.Context(t), "create role app login"))
	b, err := s.Bouncer(hang.Context(t), nil)
	require.NoError(t, err)

	var role string
	require.NoError(t, pooled(t, b.URLAs("app")).QueryRow(hang.Context(t), "select current_user").Scan(&role))

	assert.Equal(t, "app", role)
}

func TestBouncerIsPausedAndRestarted(t *testing.T) {
	s := pgtest.New(t, nil)
	b, err := s.Bouncer(hang.Context(t), nil)
	require.NoError(t, err)
	conn := pooled(t, b.URL())
	first := backend(t, conn)

	require.NoError(t, b.Pause(hang.Context(t)))
	ended := answers(t, func() error { return conn.Ping(hang.Context(t)) })
	require.Never(t, func() bool { return len(ended) > 0 }, 300*time.Millisecond, 10*time.Millisecond)
	require.NoError(t, b.Resume(hang.Context(t)))
	require.NoError(t, <-ended)

	n, err := b.KillServerConnections(hang.Context(t))
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	hang.Until(t, func() bool {
		// PgBouncer may give the client a connection whose end it has not seen yet, and ends the
		// client's own then.
		again, err := pgx.Connect(hang.Context(t), b.URL()+"&default_query_exec_mode=exec")
		require.NoError(t, err)
		defer again.Close(hang.Context(t))
		var pid int
		return again.QueryRow(hang.Context(t), "select pg_backend_pid()").Scan(&pid) == nil && pid != first
	}, "clients get no other backend")
	conn = pooled(t, b.URL())

	b.Kill()
	b.Kill() // a second Kill does nothing
	assert.True(t, testserver.Refused(b.Addr()))
	require.Error(t, conn.Ping(hang.Context(t)))
	require.NoError(t, b.Restart(hang.Context(t)))
	require.NoError(t, pooled(t, b.URL()).Ping(hang.Context(t)))
	require.NoError(t, s.Close())
	assert.True(t, testserver.Refused(b.Addr()))
	require.ErrorContains(t, b.Restart(hang.Context(t)), "closed")
}
