package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

func TestMissingTablesNameTheCommand(t *testing.T) {
	t.Parallel()
	s := shared(t)
	err := s.refused(t, s.server.URL())
	require.ErrorIs(t, err, session.ErrRefused)
	require.ErrorContains(t, err, "fairlock schema postgres --apply --schema "+s.schema)
	assert.False(t, value[bool](t, s, "select exists (select from pg_namespace where nspname = $1)", s.schema), "nothing was made")

	s.exec(t, "create schema "+s.schema)
	require.ErrorContains(t, s.refused(t, s.server.URL()), "fairlock schema postgres --apply")

	s.apply(t, 0)
	s.exec(t, "drop table "+s.schema+".entry")
	c := s.client(t, 15*time.Second)
	r := c.Begin(hang.Context(t), "x")
	<-r.Done
	require.ErrorIs(t, r.Err, session.ErrRefused)
	require.ErrorContains(t, r.Err, "fairlock schema postgres --apply")
	s.exec(t, "drop schema "+s.schema+" cascade")
	s.apply(t, 0) // so that the session can be closed
}

func TestTablesOfAnotherVersionNameTheCure(t *testing.T) {
	t.Parallel()
	s := shared(t)
	s.apply(t, 0)
	for layout, cure := range map[int]string{
		0: "fairlock schema postgres --apply",
		2: "update the program", // the command would not go back to tables of before
	} {
		s.exec(t, fmt.Sprintf("update %s.meta set layout = %d", s.schema, layout))
		err := s.refused(t, s.server.URL())
		require.ErrorIs(t, err, session.ErrRefused)
		require.ErrorContains(t, err, cure)
		require.ErrorContains(t, err, fmt.Sprint("version ", layout))
		err = pgbackend.Apply(hang.Context(t), s.server.Conn(t), s.schema, 0)
		require.ErrorIs(t, err, session.ErrRefused, "it does not touch them")
	}
}

func TestTablesOfAnEarlierProgramAreCompleted(t *testing.T) {
	t.Parallel()
	s := shared(t)
	s.apply(t, 0)
	s.exec(t, "alter table "+s.schema+".meta drop column since")
	require.ErrorContains(t, s.refused(t, s.server.URL()), "fairlock schema postgres --apply")
	s.apply(t, 0)
	require.NoError(t, s.client(t, 15*time.Second).Begin(hang.Context(t), "x").Granted(t).Unlock())
}

func TestOpenMakesTablesOnlyIfAsked(t *testing.T) {
	t.Parallel()
	s := shared(t)
	create := func(o *pgbackend.Options) { o.Create = true }
	done := make(chan *recipetest.Client)
	for range 4 {
		go func() {
			c, err := s.dial(hang.Context(t), t, s.server.URL(), 15*time.Second, create)
			assert.NoError(t, err)
			done <- c
		}()
	}
	var all []*recipetest.Client
	for range 4 {
		all = append(all, hang.Receive(t, done, "an opening"))
	}
	turns(t, all[0], all[1], 2)
}

func TestARoleThatMayNotCreateIsDenied(t *testing.T) {
	t.Parallel()
	s := shared(t)
	s.exec(t, "create role makes_nothing login")
	config := s.server.URLAs("makes_nothing", "")
	conn := connect(t, config)
	err := pgbackend.Apply(hang.Context(t), conn, s.schema, 0)
	require.ErrorIs(t, err, session.ErrDenied)
	require.ErrorContains(t, err, s.schema)
	require.ErrorContains(t, err, "permission denied")
	assert.False(t, value[bool](t, s, "select exists (select from pg_namespace where nspname = $1)", s.schema), "nothing was made")
	require.ErrorIs(t, s.refused(t, config, func(o *pgbackend.Options) { o.Create = true }), session.ErrDenied)
}

func TestApplyTwiceAndByManyAtOnce(t *testing.T) {
	t.Parallel()
	s := shared(t)
	const programs = 8
	errs := make(chan error, programs)
	for range programs {
		conn := s.server.Conn(t)
		go func() { errs <- pgbackend.Apply(hang.Context(t), conn, s.schema, 0) }()
	}
	for range programs {
		require.NoError(t, hang.Receive(t, errs, "Apply"))
	}
	state := func() string {
		return value[string](t, s, "select concat(count(*), min(secret), min(life), (select last_value from place)) from meta")
	}
	before := state()
	assert.True(t, strings.HasPrefix(before, "1"), "one row")
	c := s.client(t, time.Minute)
	h := c.Lock(t, "x")
	s.apply(t, 2*time.Minute)
	assert.EqualValues(t, 120_000, value[int](t, s, "select max_ttl_ms from meta"))
	s.apply(t, 0)
	assert.EqualValues(t, 120_000, value[int](t, s, "select max_ttl_ms from meta"), "it only rises")
	assert.Equal(t, strings.TrimRight(before, "0123456789"), strings.TrimRight(state(), "0123456789"))
	recipetest.Unlock(t, h)
	c.Kept(t)
	longer := s.client(t, 2*time.Minute)
	recipetest.Unlock(t, longer.Lock(t, "x"))
}

// A name that SQL would fold, or end, is one like any other.
func TestAnySchemaNameWorks(t *testing.T) {
	t.Parallel()
	s := shared(t)
	for _, name := range []string{`We"ird 'schema'; $meta $1`, strings.Repeat("é", 31), "select"} {
		require.NoError(t, pgbackend.Apply(hang.Context(t), s.server.Conn(t), name, 0))
		s.schema = name
		a, b := s.client(t, time.Minute), s.client(t, time.Minute)
		turns(t, a, b, 2)
		a.Kept(t)
	}
}
