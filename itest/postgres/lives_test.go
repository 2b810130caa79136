package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// longest is the greatest TTL where a case waits for it.
const longest = 4 * time.Second

// mortal is a server of one case that can begin a new life.
type mortal struct{ *service }

// NewLife implements drivertest.Lives: the server becomes a standby of none, and is promoted, so its
// data has another timeline at the same address.
func (m mortal) NewLife(t *testing.T, _ string) {
	folder := value[string](t, store{server: m.server, schema: "fairlock"}, "select current_setting('data_directory')")
	require.NoError(t, m.server.Exec(t.Context(), "copy (select 1) to '"+folder+"/standby.signal'"))
	require.NoError(t, m.server.Restart(t.Context()))
	require.NoError(t, m.server.Exec(t.Context(), "select pg_promote()"))
	hang.Until(t, func() bool {
		standby, err := pgtest.Value[bool](t.Context(), m.server, "select pg_is_in_recovery()")
		return err == nil && !standby
	}, "the server is not promoted")
	m.admin.Reset()
}

// Client implements drivertest.Service.
func (m mortal) Client(t *testing.T) drivertest.Client {
	c := m.service.Client(t).(*both.Client) //nolint:forcetypeassert // it is
	c.Service = knowing{c.Service}
	return c
}

// knowing is a backend that knows the greatest TTL before it has asked.
type knowing struct{ driver.Backend }

// Info implements driver.Backend.
func (k knowing) Info() driver.Info {
	info := k.Backend.Info()
	info.MaxTTL = longest
	return info
}

func TestDriverOverLives(t *testing.T) { drivertest.Run(t, overLives(t)) }

// On Redis they run always: above the cases of drivertest they take the same path.
func TestRecipesOverLives(t *testing.T) {
	tier.Seldom(t)
	t.Parallel()
	recipetest.Run(t, overLives(t))
}

// overLives is a harness with a server for each case, of which it runs those about lives.
func overLives(t *testing.T) drivertest.Harness {
	t.Helper()
	h := suite(t, newSetup(t, nil), false)
	h.Topics, h.Lives, h.TTL, h.Calm = []string{"life"}, []string{"Promotion"}, longest, 0
	h.Service = func(t *testing.T) drivertest.Service {
		s := setup{server: pgtest.New(t, nil)}
		require.NoError(t, pgbackend.Apply(t.Context(), s.server.Conn(t), "", longest))
		return mortal{s.harness(t).Service(t).(*service)} //nolint:forcetypeassert // it is
	}
	return h
}

// failover is a primary and a standby that lags.
type failover struct {
	store

	standby *pgtest.Server
}

func newFailover(t *testing.T, clock bool) failover {
	t.Helper()
	s := newStoreFor(t, &pgtest.Options{Clock: clock}, longest)
	standby, err := s.server.Standby(hang.Context(t), nil)
	require.NoError(t, err)
	return failover{s, standby}
}

// newStoreFor is newStore with a greatest TTL.
func newStoreFor(t *testing.T, opts *pgtest.Options, maxTTL time.Duration) store {
	t.Helper()
	s := store{pgtest.New(t, opts), "fairlock"}
	s.apply(t, maxTTL)
	return s
}

// url names both servers.
func (f failover) url() string {
	return fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable", f.server.Addr(), f.standby.Addr())
}

func (f failover) open(t *testing.T, ttl time.Duration) *recipetest.Client {
	t.Helper()
	c, err := f.dial(hang.Context(t), t, f.url(), ttl)
	require.NoError(t, err)
	return c
}

// A lagging standby does not know the newest holds. Their holders may believe for the greatest TTL.
func TestAPromotedStandbyGrantsNothingForTheGreatestTTL(t *testing.T) {
	t.Parallel()
	for _, behind := range []time.Duration{0, -30 * time.Second} {
		t.Run(fmt.Sprint("clock ", behind), func(t *testing.T) {
			t.Parallel()
			f := newFailover(t, behind != 0)
			a, b := f.open(t, longest), f.open(t, longest)
			known := a.Lock(t, "known")
			require.NoError(t, f.standby.CatchUp(hang.Context(t)))
			require.NoError(t, f.standby.CutOff(hang.Context(t)))
			unknown := a.Lock(t, "unknown")
			ends := make(chan driver.Instant, 1)
			context.AfterFunc(unknown.Context(), func() { ends <- now() })

			f.server.Kill()
			if behind != 0 {
				require.NoError(t, f.standby.SetClock(behind))
			}
			before := now()
			require.NoError(t, f.standby.Promote(hang.Context(t)))
			_, err := f.dial(hang.Ending(t, longest/4), t, f.url(), longest)
			require.ErrorIs(t, err, session.ErrUnavailable)
			for _, name := range []string{"known", "unknown"} {
				r := b.Begin(hang.Context(t), name)
				h := r.Granted(t)
				assert.GreaterOrEqual(t, r.At.Sub(before), longest)
				assert.Greater(t, h.Token(), max(known.Token(), unknown.Token()))
				recipetest.Unlock(t, h)
			}
			ended := hang.Receive(t, ends, "the hold of before does not end")
			assert.Less(t, ended, before.Add(longest), "before the first grant")
			require.ErrorIs(t, unknown.Unlock(), session.ErrLost)
			require.ErrorIs(t, known.Unlock(), session.ErrLost)
		})
	}
}

// Each of two primaries would grant.
func TestTwoPrimariesAreRefused(t *testing.T) {
	t.Parallel()
	f := newFailover(t, false)
	require.NoError(t, f.standby.CatchUp(hang.Context(t)))
	a := f.open(t, longest)
	recipetest.Unlock(t, a.Lock(t, "x"))
	require.NoError(t, f.standby.Promote(hang.Context(t)))
	err := f.refused(t, f.url())
	require.ErrorIs(t, err, session.ErrRefused)
	require.ErrorContains(t, err, "are primaries")
	_, err = f.dial(hang.Context(t), t, f.url(), longest, func(o *pgbackend.Options) { o.AcceptWeaker = true })
	require.NoError(t, err)
}

// This is a limit, and not a promise: the old primary goes on answering a client that does not reach
// the new one. Both grant, and the tokens of the old one are behind. It ends when the old one does.
func TestClientsThatReachOneOfTwoPrimariesBothHold(t *testing.T) {
	t.Parallel()
	f := newFailover(t, false)
	a := f.client(t, longest)
	h := a.Lock(t, "x")
	require.NoError(t, f.standby.CatchUp(hang.Context(t)))
	require.NoError(t, f.standby.Promote(hang.Context(t)))
	b, err := f.dial(hang.Context(t), t, f.standby.URL(), longest)
	require.NoError(t, err)

	other := b.Lock(t, "x")
	require.NoError(t, h.Context().Err(), "both hold")
	assert.Greater(t, other.Token(), h.Token())
	recipetest.Unlock(t, h)
	again := a.Lock(t, "x")
	assert.Less(t, again.Token(), other.Token())

	f.server.Kill()
	<-again.Context().Done()
	require.ErrorIs(t, again.Unlock(), session.ErrLost)
	recipetest.Unlock(t, other)
}

// A commit whose wait for its standby was cancelled is on the primary only.
func TestARenewalThatDidNotWaitForTheStandbyIsNone(t *testing.T) {
	t.Parallel()
	f := newFailover(t, false)
	require.NoError(t, f.server.Set(hang.Context(t), "synchronous_standby_names", f.standby.Name()))
	c := f.client(t, longest)
	h := c.Lock(t, "x")
	id := numberOf(t, c)
	version := value[int](t, f.store, "select version from session where id = $1", id)
	require.NoError(t, f.standby.Pause())
	hang.Until(t, func() bool {
		f.exec(t, "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'")
		return h.Context().Err() != nil
	}, "the hold goes on")
	assert.GreaterOrEqual(t, value[int](t, f.store, "select version from session where id = $1", id), version+1, "renewals were committed")
	require.NoError(t, f.standby.Resume())
	require.ErrorIs(t, h.Unlock(), session.ErrLost)
	assert.Contains(t, c.Log.String(), "not waited for its standbys")
}

// A restart has the same data, and is no new life.
func TestARestartIsNoNewLife(t *testing.T) {
	t.Parallel()
	s := newStore(t, nil)
	a, b := s.client(t, recipetest.EventTTL), s.client(t, recipetest.EventTTL)
	h := a.Lock(t, "x")
	r := b.Begin(hang.Context(t), "x")
	b.Stands(t, 1)
	require.NoError(t, s.server.Restart(hang.Context(t)))
	require.True(t, waits(r))
	recipetest.UnlockInTrouble(t, h)
	next := r.Granted(t)
	assert.Greater(t, next.Token(), h.Token())
	recipetest.Unlock(t, next)
	a.Kept(t)
	b.Kept(t)
}

// What was acknowledged outlives a crash, also where the role would not wait for the disk.
func TestAnAcknowledgedJoinOutlivesACrash(t *testing.T) {
	t.Parallel()
	s := newStore(t, &pgtest.Options{Config: map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10s"}})
	c := s.client(t, recipetest.EventTTL)
	for i := range 3 {
		h := c.Lock(t, fmt.Sprint("x", i))
		require.NoError(t, s.server.Restart(hang.Context(t)), "after a SIGKILL")
		assert.Equal(t, 1, value[int](t, s, "select count(*) from entry where place = $1", h.Token()))
		require.NoError(t, h.Context().Err())
	}
	c.Kept(t)
}

func TestAServerThatDoesNotWriteIsRefused(t *testing.T) {
	t.Parallel()
	s := newStore(t, &pgtest.Options{Config: map[string]string{"fsync": "off"}})
	err := s.refused(t, s.server.URL())
	require.ErrorIs(t, err, session.ErrRefused)
	require.ErrorContains(t, err, "fsync is off")
	c := s.client(t, recipetest.EventTTL, func(o *pgbackend.Options) { o.AcceptWeaker = true })
	recipetest.Unlock(t, c.Lock(t, "x"))
}

// Tables that were emptied by hand look like new ones, and are none: holders of before may believe. The
// greatest TTL is lost too, so the default one counts.
func TestEmptiedTablesAreNoNewStore(t *testing.T) {
	t.Parallel()
	tier.Seldom(t)
	s := shared(t)
	s.apply(t, longest)
	a := s.client(t, longest)
	h := a.Lock(t, "x")
	before := now()
	s.exec(t, fmt.Sprintf("truncate %[1]s.meta, %[1]s.session, %[1]s.member, %[1]s.entry, %[1]s.record, %[1]s.void, %[1]s.done, %[1]s.watcher", s.schema))
	_, err := s.dial(hang.Ending(t, longest), t, s.server.URL(), longest)
	require.ErrorIs(t, err, session.ErrUnavailable)
	opened := make(chan *recipetest.Client)
	for range 2 {
		go func() { // ends with the quarantine
			c, err := s.dial(hang.Context(t), t, s.server.URL(), longest)
			assert.NoError(t, err)
			opened <- c
		}()
	}
	for range 2 {
		c := hang.Receive(t, opened, "an opening")
		assert.GreaterOrEqual(t, now().Sub(before), pgbackend.DefaultMaxTTL)
		next := c.Lock(t, "x")
		assert.Greater(t, next.Token(), h.Token())
		recipetest.Unlock(t, next)
	}
	require.ErrorIs(t, h.Unlock(), session.ErrLost)
}

// A process that was killed leaves a session without entries, for which no client waits.
func TestTheSweepEndsASessionOfADeadProcess(t *testing.T) {
	t.Parallel()
	tier.Seldom(t)
	s := shared(t)
	s.apply(t, 2*recipetest.EventTTL)
	s.client(t, recipetest.EventTTL) // it lives, and does nothing
	s.exec(t, fmt.Sprintf(`insert into %[1]s.member values (77); insert into %[1]s.session (id, root, ttl_ms) values (77, 'fairlock', 2000);
		insert into %[1]s.watcher values ('left', now() + interval '1 year')`, s.schema))
	hang.Until(t, func() bool {
		return value[int](t, s, "select (select count(*) from session where id = 77) + (select count(*) from member where id = 77)") == 0
	}, "the session of a dead process stays")
	hang.Until(t, func() bool { return value[int](t, s, "select count(*) from watcher") == 0 }, "the row of its watch stays")
	assert.Equal(t, 1, value[int](t, s, "select count(*) from session"), "the other one lives")
}
