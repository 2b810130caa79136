package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// rights are the least that a program needs, by object.
var rights = map[string]string{
	"meta":    "select insert update",
	"session": "select insert update delete",
	"member":  "select insert update delete",
	"entry":   "select insert update delete",
	"record":  "select insert update delete",
	"void":    "select insert delete",
	"done":    "select insert delete",
	"watcher": "select insert update delete",
	"place":   "select update",
}

// spare are rights that a program needs seldom: after a failover, after a lost request, and to have
// changes notified that it would otherwise read.
var spare = []string{
	"insert on meta", "update on meta", "select on place", "insert on void",
	"insert on watcher", "update on watcher", "delete on watcher",
}

// grant gives a role the rights, but for one.
func (s store) grant(t testing.TB, role, but string) {
	t.Helper()
	var sql strings.Builder
	fmt.Fprintf(&sql, "grant usage on schema %s to %s;", s.schema, role)
	for object, names := range rights {
		kind := "table"
		if object == "place" {
			kind = "sequence"
		}
		for name := range strings.FieldsSeq(names) {
			if name+" on "+object != but {
				fmt.Fprintf(&sql, "grant %s on %s %s.%s to %s;", name, kind, s.schema, object, role)
			}
		}
	}
	s.exec(t, sql.String())
}

// connect returns a connection by a URL.
func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(hang.Context(t), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) }) // nothing of it is left
	return conn
}

// uses goes through all that the recipes send while nothing fails, and returns the first error.
func (s store) uses(t testing.TB, role string) error {
	t.Helper()
	c, err := s.dial(hang.Context(t), t, s.server.URLAs(role, ""), 15*time.Second, func(o *pgbackend.Options) { o.Root = role })
	if err != nil {
		return err
	}
	plain := func() error {
		h, err := mutex.New(c.Session, "x").Lock(hang.Context(t))
		if err != nil {
			return err
		}
		return h.Unlock()
	}
	robust := func() error {
		h, err := mutex.NewWith(c.Session, "y", mutex.Options{Robust: true}).Lock(hang.Context(t))
		if err != nil {
			return err
		}
		return h.Unlock()
	}
	leads := func() error {
		e := election.New(c.Session, "z")
		h, err := e.Campaign(hang.Context(t), "one")
		if err != nil {
			return err
		}
		return errors.Join(e.Proclaim(hang.Context(t), h, "two"), h.Unlock())
	}
	return errors.Join(plain(), robust(), leads(), c.Close())
}

// Each right that is missing is named, and nothing is left half made.
func TestEachMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	s := shared(t)
	s.apply(t, 0)
	i := 0
	for object, names := range rights {
		for name := range strings.FieldsSeq(names) {
			but := name + " on " + object
			i++
			role := fmt.Sprint(s.schema, "_role", i)
			s.exec(t, "create role "+role+" login")
			s.grant(t, role, but)
			t.Run(but, func(t *testing.T) {
				err := s.uses(t, role)
				t.Logf("%v", err)
				assert.Equal(t, slices.Contains(spare, but), err == nil)
				if err == nil {
					return
				}
				require.ErrorIs(t, err, session.ErrDenied)
				require.ErrorContains(t, err, "permission denied for")
				require.ErrorContains(t, err, object)
				left := value[int](t, s, "select count(*) from entry where queue like $1", role+"\x01%")
				assert.True(t, left == 0 || name == "delete", "nothing is left half made")
			})
		}
	}
	role := s.schema + "_all"
	s.role(t, role, "")
	require.NoError(t, s.uses(t, role), "these are all")
}

// dies leaves an entry of a session that no client renews.
func (s store) dies(t testing.TB, queue string) {
	t.Helper()
	b, err := pgbackend.DialBackend(s.server.URL(), &pgbackend.Options{Schema: s.schema})
	require.NoError(t, err)
	defer func() { assert.NoError(t, b.Close()) }()
	dead, err := b.Open(hang.Context(t), driver.Config{
		TTL: 2 * time.Second, Margin: b.Info().Margin, Logger: slog.New(slog.DiscardHandler),
		Renewed: func(driver.Instant, time.Duration, time.Duration) {}, Gone: func(error) {},
	})
	require.NoError(t, err)
	_, err = dead.Join(hang.Context(t), driver.JoinRequest{Queue: queue})
	require.NoError(t, err)
	dead.Abandon()
}

// A waiter has no call that could return this error. With a policy, PostgreSQL has none either.
func TestASessionThatMayNotBeEndedIsReported(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ lacks, before, after, says string }{
		"privilege":        {"delete on session", "", "grant delete on session to %s", "permission denied for table session"},
		"of what it keeps": {"delete on entry", "", "grant delete on entry to %s", "permission denied for table entry"},
		"policy": {
			"", "alter table session enable row level security; create policy all_else on session using (true); create policy none on session as restrictive for delete using (false)",
			"alter table session disable row level security", "the database deleted nothing",
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := shared(t)
			s.apply(t, 2*recipetest.EventTTL)
			conn, role := s.conn(t), s.schema+"_waits"
			s.exec(t, "create role "+role+" login")
			s.grant(t, role, c.lacks)
			_, err := conn.Exec(hang.Context(t), c.before)
			require.NoError(t, err)
			s.dies(t, "x")
			b := s.clientAs(t, role, recipetest.EventTTL)
			r := b.Begin(hang.Context(t), "x")
			b.Stands(t, 1)

			hang.Until(t, func() bool { return strings.Contains(b.Log.String(), "was not ended") }, "nothing is reported")

			assert.Contains(t, b.Log.String(), c.says)
			assert.True(t, waits(r))
			_, err = conn.Exec(hang.Context(t), strings.ReplaceAll(c.after, "%s", role))
			require.NoError(t, err)
			recipetest.Unlock(t, r.Granted(t))
			hang.Until(t, func() bool { return strings.Contains(b.Log.String(), "are ended again") }, "it is not reported")
			b.Kept(t)
		})
	}
}

// defaults are settings of a role that must do no harm.
var defaults = []string{
	"default_transaction_isolation = 'repeatable read'",
	"default_transaction_isolation = 'serializable'",
	"synchronous_commit = off",
	"statement_timeout = '1s'",
	"lock_timeout = '1ms'",
	"idle_in_transaction_session_timeout = '100ms'",
	"idle_session_timeout = '300ms'",
	"search_path = 'nowhere'",
	"bytea_output = 'escape'",
	"datestyle = 'German'",
	"timezone = 'Asia/Kathmandu'",
	"standard_conforming_strings = off",
	"plan_cache_mode = force_generic_plan",
	"jit_above_cost = 0",
	"client_min_messages = debug1",
}

func TestDefaultsOfARoleDoNoHarm(t *testing.T) {
	t.Parallel()
	s := shared(t)
	s.apply(t, 2*recipetest.EventTTL)
	for i, setting := range defaults {
		role := fmt.Sprint(s.schema, "_set", i)
		s.role(t, role, setting)
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			root := func(o *pgbackend.Options) { o.Root = role }
			a, b := s.clientAs(t, role, recipetest.EventTTL, root), s.clientAs(t, role, recipetest.EventTTL, root)
			turns(t, a, b, 5)
			h, err := mutex.NewWith(a.Session, "robust", mutex.Options{Robust: true}).Lock(hang.Context(t))
			require.NoError(t, err)
			recipetest.Unlock(t, h)
			a.Kept(t)
			b.Kept(t)
		})
	}
}
