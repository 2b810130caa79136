package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// calm is one server that every test may use that does it no harm.
var calm = both.Shared[*pgtest.Server]{
	Start: func(ctx context.Context) (*pgtest.Server, error) { return pgtest.Start(ctx, nil) },
}

// store is a schema of one test on a server.
type store struct {
	server *pgtest.Server
	schema string
}

// shared returns a schema without tables on the calm server.
func shared(t testing.TB) store {
	t.Helper()
	server, user := calm.Use(t)
	return store{server, fmt.Sprint("s", user)}
}

// newStore returns a schema with tables on a server of the test's own.
func newStore(t testing.TB, opts *pgtest.Options) store {
	t.Helper()
	s := store{pgtest.New(t, opts), "fairlock"}
	s.apply(t, 2*recipetest.EventTTL)
	return s
}

func (s store) apply(t testing.TB, maxTTL time.Duration) {
	t.Helper()
	require.NoError(t, pgbackend.Apply(hang.Context(t), s.server.Conn(t), s.schema, maxTTL))
}

// role makes a role with a setting, or none if that is "", which has the rights on the schema that a
// program needs.
func (s store) role(t testing.TB, name, setting string) {
	t.Helper()
	sql := fmt.Sprintf("create role %s login", name)
	if setting != "" {
		sql += fmt.Sprintf("; alter role %s set %s", name, setting)
	}
	s.exec(t, sql)
	s.grant(t, name, "")
}

func (s store) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	require.NoError(t, s.server.Exec(hang.Context(t), sql, args...), sql)
}

// value returns the one value of a query, in which the tables need no schema.
func value[T any](t testing.TB, s store, sql string, args ...any) T {
	t.Helper()
	conn, err := s.server.Connect(hang.Context(t))
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close(hang.Context(t))) }()
	_, err = conn.Exec(hang.Context(t), "set search_path to "+pgx.Identifier{s.schema}.Sanitize())
	require.NoError(t, err)
	var v T
	require.NoError(t, conn.QueryRow(hang.Context(t), sql, args...).Scan(&v), sql)
	return v
}

// conn returns a connection to which the tables need no schema.
func (s store) conn(t testing.TB) *pgx.Conn {
	t.Helper()
	conn := s.server.Conn(t)
	_, err := conn.Exec(hang.Context(t), "set search_path to "+s.schema)
	require.NoError(t, err)
	return conn
}

// dial opens a session on a URL.
func (s store) dial(ctx context.Context, t testing.TB, url string, ttl time.Duration, change ...func(*pgbackend.Options)) (*recipetest.Client, error) {
	t.Helper()
	c := &recipetest.Client{}
	o := pgbackend.Options{Schema: s.schema, Session: c.SessionOptions(t, ttl)}
	for _, f := range change {
		f(&o)
	}
	opened, err := pgbackend.Dial(ctx, url, &o)
	return c, c.Opened(t, opened, err)
}

// client opens a session as the role that may do anything.
func (s store) client(t testing.TB, ttl time.Duration, change ...func(*pgbackend.Options)) *recipetest.Client {
	t.Helper()
	return s.clientAs(t, "postgres", ttl, change...)
}

func (s store) clientAs(t testing.TB, role string, ttl time.Duration, change ...func(*pgbackend.Options)) *recipetest.Client {
	t.Helper()
	c, err := s.dial(hang.Context(t), t, s.server.URLAs(role, ""), ttl, change...)
	require.NoError(t, err)
	return c
}

// refused fails the test unless no session can be opened, and returns why.
func (s store) refused(t testing.TB, url string, change ...func(*pgbackend.Options)) error {
	t.Helper()
	_, err := s.dial(hang.Context(t), t, url, 15*time.Second, change...)
	require.Error(t, err)
	return err
}

// numberOf returns a session's ID as the tables have it.
func numberOf(t testing.TB, c *recipetest.Client) (id int64) {
	t.Helper()
	_, err := fmt.Sscanf(c.Service(), "%x", &id)
	require.NoError(t, err)
	return id
}

// waits reports whether a request has not returned.
func waits(r *recipetest.Request) bool {
	select {
	case <-r.Done:
		return false
	default:
		return true
	}
}

// turns has two clients take a lock in turn, and fails the test unless the tokens rise.
func turns(t testing.TB, a, b *recipetest.Client, n int) {
	t.Helper()
	last := session.Token(0)
	for range n {
		first := a.Lock(t, "turns")
		second := b.Begin(hang.Context(t), "turns")
		b.Stands(t, 1)
		require.Greater(t, first.Token(), last)
		recipetest.Unlock(t, first)
		h := second.Granted(t)
		require.Greater(t, h.Token(), first.Token())
		last = h.Token()
		recipetest.Unlock(t, h)
	}
}

// now is the clock of all processes of the machine.
func now() driver.Instant { return recipetest.Now() }
