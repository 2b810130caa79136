package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// A password that is valid for minutes is set by a hook. The connections that the Session makes for
// itself call that of the pool, and so do those that it makes later.
func TestAPasswordThatChangesIsAskedForBeforeEachConnection(t *testing.T) {
	t.Parallel()
	s := newStore(t, &pgtest.Options{Access: []string{"host all app 127.0.0.1/32 scram-sha-256"}})
	s.role(t, "app", "")
	var password atomic.Pointer[string]
	change := func(to string) {
		s.exec(t, "alter role app password '"+to+"'")
		password.Store(&to)
	}
	change("one")
	hook := func(_ context.Context, c *pgx.ConnConfig) error {
		c.Password = *password.Load()
		return nil
	}
	config, err := pgxpool.ParseConfig(s.server.URLAs("app", "none"))
	require.NoError(t, err)
	config.BeforeConnect = hook
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	pooled := &recipetest.Client{}
	session, err := pgbackend.Open(hang.Context(t), pool, &pgbackend.Options{Session: pooled.SessionOptions(t, recipetest.EventTTL)})
	require.NoError(t, pooled.Opened(t, session, err))
	dialled, err := s.dial(hang.Context(t), t, s.server.URLAs("app", "none"), recipetest.EventTTL, func(o *pgbackend.Options) { o.BeforeConnect = hook })
	require.NoError(t, err)

	change("two")
	s.exec(t, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'")

	turns(t, pooled, dialled, 3)
	pooled.Kept(t)
	dialled.Kept(t)
	_, err = s.dial(hang.Ending(t, time.Second), t, s.server.URLAs("app", "two"), recipetest.EventTTL, func(o *pgbackend.Options) {
		o.BeforeConnect = func(context.Context, *pgx.ConnConfig) error { return errors.New("no vault") }
	})
	assert.ErrorContains(t, err, "no vault")
}
