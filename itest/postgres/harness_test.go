package postgres

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/drivertest"
	"github.com/fairlock/fairlock/testnet"
)

// setup is where the clients of a suite connect.
type setup struct {
	server *pgtest.Server
	pooler *pgtest.Bouncer // nil for none
	direct bool            // with a pooler: notifications come from the server itself
}

// newSetup returns a server with the tables.
func newSetup(t *testing.T, opts *pgtest.Options) setup {
	t.Helper()
	s := setup{server: pgtest.New(t, opts)}
	require.NoError(t, pgbackend.Apply(t.Context(), s.server.Conn(t), "", 2*recipetest.EventTTL))
	return s
}

// behindPooler puts a PgBouncer in transaction mode before the server.
func (s setup) behindPooler(t *testing.T, direct bool) setup {
	t.Helper()
	b, err := s.server.Bouncer(t.Context(), &pgtest.BouncerOptions{PoolSize: 100, Config: map[string]string{"max_client_conn": "1000"}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	s.pooler, s.direct = b, direct
	return s
}

// withStandby makes each commit wait for a standby.
func (s setup) withStandby(t *testing.T) setup {
	t.Helper()
	standby, err := s.server.Standby(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, s.server.Set(t.Context(), "synchronous_standby_names", standby.Name()))
	return s
}

// harness runs the suites on a server. Every case has a root of its own, and every client its own
// proxies.
func (s setup) harness(t *testing.T) drivertest.Harness {
	t.Helper()
	admin, err := pgxpool.New(t.Context(), s.server.URL())
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	var secret string
	require.NoError(t, admin.QueryRow(t.Context(), "select secret from fairlock.meta").Scan(&secret))
	var cases atomic.Int64
	polls := s.pooler != nil && !s.direct
	return drivertest.Harness{
		TTL:       2 * time.Second,
		Calm:      recipetest.EventTTL,
		Parallel:  true,
		Prompt:    500 * time.Millisecond,
		First:     !polls, // a read of the state shows that an entry is gone, and not what it was
		Observed:  true,
		NoForeign: true,
		Spurious:  true,
		Keeps:     driver.Keeps{Exclusion: driver.UntilSplit, Order: driver.UntilDataLoss, Tokens: driver.UntilSplit},
		Leaks: []goleak.Option{
			goleak.IgnoreAnyFunction("github.com/fairlock/fairlock/testnet.(*pipe).read"),
			goleak.IgnoreAnyFunction("github.com/fairlock/fairlock/testnet.(*pipe).write"),
			goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck"),
			// A connection that a call has given up is closed in the background.
			goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgconn.(*PgConn).asyncClose.func1"),
		},
		Service: func(*testing.T) drivertest.Service {
			return &service{setup: s, admin: admin, secret: secret, root: fmt.Sprint("case", cases.Add(1))}
		},
	}
}

// service is the part of a server that one case sees.
type service struct {
	setup
	admin  *pgxpool.Pool
	secret string
	root   string
}

// stored is how a queue is stored.
func (s *service) stored(queue string) string {
	if of, asks := driver.AskedQueue(queue); asks {
		return s.root + "\x01a" + of
	}
	return s.root + "\x01q" + queue
}

// channel is an expression for the channel of a queue, given as $1, and the secret as $2.
const channel = `'fl_' || left(encode(sha256(convert_to($1::text || $2::text, 'UTF8')), 'hex'), 32)`

// Expire does what a client does that ends a session.
func (s *service) Expire(t *testing.T, session string) {
	var id int64
	_, err := fmt.Sscanf(session, "%x", &id)
	require.NoError(t, err)
	err = pgx.BeginFunc(t.Context(), s.admin, func(tx pgx.Tx) error {
		tag, err := tx.Exec(t.Context(), "delete from fairlock.session where id = $1", id)
		require.EqualValues(t, 1, tag.RowsAffected(), "session %s", session)
		for _, sql := range []string{
			"delete from fairlock.member where id = $1",
			`with gone as (delete from fairlock.entry where session = $1 returning queue, place, marks)
			select pg_notify('fl_' || left(encode(sha256(convert_to(t.queue || m.secret, 'UTF8')), 'hex'), 32) || suffix, 'g0' || marks)
			from fairlock.meta m, (select *, '' as suffix from gone union all select *, '_' || place from gone) t`,
			`with gone as (delete from fairlock.record where session = $1 returning queue, name)
			select pg_notify('fl_' || left(encode(sha256(convert_to(queue || secret, 'UTF8')), 'hex'), 32), 'r' || name) from gone, fairlock.meta`,
		} {
			if err == nil {
				_, err = tx.Exec(t.Context(), sql, id)
			}
		}
		return err
	})
	require.NoError(t, err)
}

func (s *service) Delete(t *testing.T, ref driver.Ref) {
	tag, err := s.admin.Exec(t.Context(), `with gone as (delete from fairlock.entry where queue = $1 and place = $3 returning place, marks)
		select pg_notify(`+channel+`, 'g0' || marks), pg_notify(`+channel+` || '_' || place, 'g0' || marks) from gone`, s.stored(ref.Queue), s.secret, ref.Place)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected(), "entry %v", ref)
}

func (s *service) PutForeign(t *testing.T, _ string, _ bool) driver.Ref {
	require.Fail(t, "only this library makes entries")
	return driver.Ref{}
}

func (s *service) Overwrite(t *testing.T, ref driver.Ref, value []byte) {
	_, err := s.admin.Exec(t.Context(), `with new as (update fairlock.entry set data = coalesce($4, data), changed = changed + 1
		where queue = $1 and place = $3 returning place, marks, changed)
		select pg_notify(`+channel+`, 'c0' || marks || ',' || changed), pg_notify(`+channel+` || '_' || place, 'c0' || marks || ',' || changed) from new`,
		s.stored(ref.Queue), s.secret, ref.Place, value)
	require.NoError(t, err)
}

func (s *service) Count(t *testing.T, queue string) (n int) {
	require.NoError(t, s.admin.QueryRow(t.Context(), "select count(*) from fairlock.entry where queue = $1", s.stored(queue)).Scan(&n))
	return n
}

func (s *service) Client(t *testing.T) drivertest.Client {
	c := &both.Client{}
	proxy := func(addr string) string {
		p, err := testnet.New(addr, nil)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, p.Close()) })
		c.Proxies = append(c.Proxies, p)
		return "postgres://postgres@" + p.Addr() + "/postgres?sslmode=disable"
	}
	opts := &pgbackend.Options{Root: s.root}
	url := ""
	if s.pooler == nil {
		url = proxy(s.server.Addr())
	} else {
		url = proxy(s.pooler.Addr())
		if s.direct {
			opts.Listen = proxy(s.server.Addr())
		}
	}
	b, err := pgbackend.DialBackend(url, opts)
	require.NoError(t, err)
	pgbackend.Intercept(door.Key{}, b, c.Intercept)
	c.Service = b
	t.Cleanup(c.Deliver)
	return c
}
