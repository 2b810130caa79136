package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/testnet"
)

// short is the TTL of sessions that a fault outlasts.
const short = 6 * time.Second

// idle are what a forgotten transaction can keep. Only what needs that may be delayed.
var idle = map[string]string{
	"the entry of the holder":       "select from entry where session = %d for update",
	"all entries":                   "select from entry for update",
	"the fence of the holder":       "select from member where id = %d for update",
	"the table of entries":          "lock table entry in access exclusive mode",
	"the table of entries, shared":  "lock table entry in share mode",
	"the table of fences, shared":   "lock table member in share mode",
	"an old snapshot":               "select count(*) from entry",
	"a schema change of watchers":   "lock table watcher in access exclusive mode",
	"the table of changes":          "lock table done in access exclusive mode",
	"the row of the other's fence":  "select from member where id <> %d for update",
	"the lock of a migration":       "lock table record in access exclusive mode",
	"the sequence, by its sessions": "select last_value from place",
}

// Renewals wait for nothing that a queue or its entries have.
func TestAForgottenTransactionEndsNoSession(t *testing.T) {
	t.Parallel()
	for what, sql := range idle {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := shared(t)
			s.apply(t, 2*recipetest.EventTTL)
			a, b, other := s.client(t, short), s.client(t, short), s.client(t, short)
			h, elsewhere := a.Lock(t, "x"), other.Lock(t, "elsewhere")
			r := b.Begin(hang.Context(t), "x")
			b.Stands(t, 1)
			forgotten := s.conn(t)
			_, err := forgotten.Exec(hang.Context(t), "begin isolation level repeatable read")
			require.NoError(t, err)
			if strings.Contains(sql, "%d") {
				sql = fmt.Sprintf(sql, numberOf(t, a))
			}
			_, err = forgotten.Exec(hang.Context(t), sql)
			require.NoError(t, err)
			<-time.After(short * 3 / 2) // the time for which it is forgotten
			require.NoError(t, h.Context().Err())
			require.NoError(t, elsewhere.Context().Err())
			require.True(t, waits(r))
			_, err = forgotten.Exec(hang.Context(t), "rollback")
			require.NoError(t, err)
			recipetest.UnlockInTrouble(t, h)
			recipetest.UnlockInTrouble(t, elsewhere)
			recipetest.Unlock(t, r.Granted(t))
			for _, c := range []*recipetest.Client{a, b, other} {
				c.Kept(t)
			}
		})
	}
}

// A session whose own row is kept is lost, and no other.
func TestAForgottenTransactionOnASessionEndsThatOne(t *testing.T) {
	t.Parallel()
	s := shared(t)
	s.apply(t, 2*recipetest.EventTTL)
	a, b, other := s.client(t, short), s.client(t, short), s.client(t, short)
	h, elsewhere := a.Lock(t, "x"), other.Lock(t, "elsewhere")
	r := b.Begin(hang.Context(t), "x")
	b.Stands(t, 1)
	forgotten := s.conn(t)
	_, err := forgotten.Exec(hang.Context(t), "begin")
	require.NoError(t, err)
	_, err = forgotten.Exec(hang.Context(t), "select from session where id = $1 for update", numberOf(t, a))
	require.NoError(t, err)
	<-h.Context().Done()
	require.NoError(t, elsewhere.Context().Err())
	_, err = forgotten.Exec(hang.Context(t), "rollback")
	require.NoError(t, err)
	next := r.Granted(t)
	require.ErrorIs(t, h.Unlock(), session.ErrLost)
	recipetest.Unlock(t, next)
	recipetest.Unlock(t, elsewhere)
	b.Kept(t)
	other.Kept(t)
}

// What a server cannot do while it is stopped ends holds by their deadline, before the next grant.
func TestAStoppedServerEndsHoldsByTheirDeadline(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	a, b := s.client(t, short), s.client(t, recipetest.EventTTL)
	h := a.Lock(t, "x")
	r := b.Begin(hang.Context(t), "x")
	b.Stands(t, 1)
	require.NoError(t, s.server.Pause())
	<-h.Context().Done()
	ended := now()
	require.NoError(t, s.server.Resume())
	next := r.Granted(t)
	assert.Greater(t, r.At, ended)
	assert.Greater(t, next.Token(), h.Token())
	require.ErrorIs(t, h.Unlock(), session.ErrLost)
	recipetest.Unlock(t, next)
	b.Kept(t)
}

// No time of the server takes part in what holds; its clock only raises tokens.
func TestTheClockOfTheServerMayJump(t *testing.T) {
	t.Parallel()
	s := newStore(t, &pgtest.Options{Clock: true})
	a, b := s.client(t, recipetest.EventTTL), s.client(t, recipetest.EventTTL)
	last := session.Token(0)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 24 * time.Hour, -365 * 24 * time.Hour} {
		require.NoError(t, s.server.SetClock(ahead))
		turns(t, a, b, 2)
		h := a.Lock(t, "x")
		require.Greater(t, h.Token(), last)
		last = h.Token()
		recipetest.Unlock(t, h)
	}
	a.Kept(t)
	b.Kept(t)
}

// The connections that listen are cut off by an operator. What was notified meanwhile is read.
func TestAListenerThatIsCutOffMissesNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	a, b := s.client(t, recipetest.EventTTL), s.client(t, recipetest.EventTTL)
	for range 5 {
		h := a.Lock(t, "x")
		r := b.Begin(hang.Context(t), "x")
		b.Stands(t, 1)
		hang.Until(t, func() bool {
			return value[int](t, s, "select count(pg_terminate_backend(pid)) from pg_stat_activity where pid <> pg_backend_pid() and (query ilike 'listen %' or query ilike '%coalesce(e.changed%')") > 0
		}, "no connection listens")
		recipetest.Unlock(t, h)
		recipetest.Unlock(t, r.Granted(t))
	}
	a.Kept(t)
	b.Kept(t)
}

// A network that drops what the server sends to the listener costs a recheck.
func TestNoticesThatAreLostCostARecheck(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	p, err := testnet.New(s.server.Addr(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	a := s.client(t, recipetest.EventTTL)
	b := s.client(t, recipetest.EventTTL, func(o *pgbackend.Options) {
		o.Listen = "postgres://postgres@" + p.Addr() + "/postgres?sslmode=disable"
	})
	h := a.Lock(t, "x")
	r := b.Begin(hang.Context(t), "x")
	b.Stands(t, 1)
	hang.Until(t, func() bool {
		return value[int](t, s, "select count(*) from watcher") > 0 || value[int](t, s, "select count(*) from pg_stat_activity where pid <> pg_backend_pid() and query ilike '%coalesce(e.changed%'") > 0
	}, "the watch is not armed")
	p.Drop(fault.Replies)
	recipetest.Unlock(t, h)
	p.Heal(fault.Both)
	recipetest.Unlock(t, r.Granted(t))
	b.Kept(t)
}

func TestAPoolerThatIsRestartedEndsNoSession(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	pooler, err := s.server.Bouncer(hang.Context(t), nil)
	require.NoError(t, err)
	a, err := s.dial(hang.Context(t), t, pooler.URL(), recipetest.EventTTL)
	require.NoError(t, err)
	b, err := s.dial(hang.Context(t), t, pooler.URL(), recipetest.EventTTL)
	require.NoError(t, err)
	for i := range 3 {
		h := a.Lock(t, "x")
		r := b.Begin(hang.Context(t), "x")
		b.Stands(t, 1)
		switch i {
		case 0:
			require.NoError(t, pooler.Restart(hang.Context(t)))
		case 1:
			_, err := pooler.KillServerConnections(hang.Context(t))
			require.NoError(t, err)
		default:
			require.NoError(t, pooler.Pause(hang.Context(t)))
			require.NoError(t, pooler.Resume(hang.Context(t)))
		}
		recipetest.UnlockInTrouble(t, h)
		recipetest.UnlockInTrouble(t, r.Granted(t))
	}
	a.Kept(t)
	b.Kept(t)
	assert.Equal(t, 1, strings.Count(b.Log.String(), "notifications do not arrive"), "it is reported once")
}

// Where the server has no connection left, and where it takes no writes for a while, calls wait.
func TestWhatTheServerRefusesForAWhileEndsNoSession(t *testing.T) {
	t.Parallel()
	s := newStore(t, &pgtest.Options{Config: map[string]string{"max_connections": "12", "superuser_reserved_connections": "3"}})
	s.role(t, "app", "")
	a := s.clientAs(t, "app", recipetest.EventTTL)
	h := a.Lock(t, "x")
	hang.Until(t, func() bool {
		_, err := s.dial(hang.Ending(t, 2*time.Second), t, s.server.URLAs("app", ""), recipetest.EventTTL)
		if err != nil {
			require.ErrorIs(t, err, session.ErrUnavailable)
		}
		return err != nil && strings.Contains(err.Error(), "53300")
	}, "the server has connections left")
	recipetest.Unlock(t, h)
	h = a.Lock(t, "x")
	require.NoError(t, s.server.Set(hang.Context(t), "default_transaction_read_only", "on"))
	r := a.Begin(hang.Context(t), "y")
	hang.Until(t, func() bool { return strings.Contains(s.server.Log(), "read-only transaction") }, "no statement was refused")
	require.True(t, waits(r))
	require.NoError(t, h.Context().Err())
	require.NoError(t, s.server.Reset(hang.Context(t), "default_transaction_read_only"))
	recipetest.Unlock(t, r.Granted(t))
	recipetest.UnlockInTrouble(t, h)
	a.Kept(t)
}

// full makes the statements fail that would extend a table, as they do on a disk that is full.
const full = `
create or replace function no_space() returns trigger language plpgsql as $$ begin
	raise exception using errcode = 'disk_full', message = 'could not extend file: No space left on device';
end $$;
create trigger no_space before insert on entry for each statement execute function no_space();
create trigger no_space before insert on session for each statement execute function no_space();
create trigger no_space before insert on record for each statement execute function no_space();
`

// A release needs no space, and a renewal has that of the row before it.
func TestAFullDiskStopsNewRequestsOnly(t *testing.T) {
	t.Parallel()
	s := shared(t)
	s.apply(t, 2*recipetest.EventTTL)
	conn := s.conn(t)
	a, b := s.client(t, short), s.client(t, recipetest.EventTTL)
	h := a.Lock(t, "held")
	r := b.Begin(hang.Context(t), "held")
	b.Stands(t, 1)
	_, err := conn.Exec(hang.Context(t), full)
	require.NoError(t, err)

	try := func() error { _, err := mutex.New(a.Session, "x").TryLock(hang.Context(t)); return err }
	lock := func() error { _, err := mutex.New(a.Session, "x").Lock(hang.Context(t)); return err }
	open := func() error { return s.refused(t, s.server.URL()) }
	for what, f := range map[string]func() error{"try": try, "lock": lock, "open": open} {
		err := f()
		require.ErrorIs(t, err, session.ErrRefused, what)
		require.ErrorContains(t, err, "No space left on device (SQLSTATE 53100)", what)
	}
	<-time.After(short * 3 / 2) // the time for which the disk is full
	require.NoError(t, h.Context().Err(), "it was renewed")
	assert.Equal(t, 2, value[int](t, s, "select count(*) from entry"), "nothing was made")
	recipetest.Unlock(t, h)
	recipetest.Unlock(t, r.Granted(t))

	_, err = conn.Exec(hang.Context(t), "drop trigger no_space on entry; drop trigger no_space on session; drop trigger no_space on record")
	require.NoError(t, err)
	recipetest.Unlock(t, a.Lock(t, "x"))
	recipetest.Unlock(t, s.client(t, recipetest.EventTTL).Lock(t, "x"))
	a.Kept(t)
	b.Kept(t)
}
