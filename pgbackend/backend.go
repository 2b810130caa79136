package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// backend is one schema and root in one database. What has no comment of its own does not change
// after newBackend.
type backend struct {
	opts   Options
	layout layout.Layout
	clock  driver.Clock
	hook   call.Hook

	config *pgx.ConnConfig // of the connections that the backend makes
	listen *pgx.ConnConfig // of those that listen; nil for polling

	calls call.Conns // the caller's pool, or one connection of ours
	owned *call.Line // that one; nil with a pool of the caller

	pooled   atomic.Bool // a pooler is between, as the newest connection for renewals has shown
	explicit atomic.Bool // see call.Sender
	number   atomic.Int64

	quarantine observed.Quarantine
}

// dialTimeout bounds the making of a connection: the next attempt goes to another host.
const dialTimeout = 5 * time.Second

// NewBackend returns the backend that Open uses, for the conformance suite and for tools. The pool
// stays the caller's, and must be closed later than the backend.
func NewBackend(pool *pgxpool.Pool, opts *Options) (driver.Backend, error) {
	b, err := newBackend(pool.Config().ConnConfig, opts)
	if err != nil {
		return nil, err
	}
	b.calls = call.Pool{Pool: pool}
	return b, nil
}

// DialBackend returns the backend that Dial uses, for the conformance suite and for tools. It
// connects when it is first used, and Close closes its connections.
func DialBackend(url string, opts *Options) (driver.Backend, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("pgbackend: %w: %w", session.ErrInvalidOptions, err)
	}
	return ConfigBackend(config, opts)
}

// ConfigBackend is DialBackend with what pgx.ParseConfig returns: so a caller can set certificates
// and passwords.
func ConfigBackend(config *pgx.ConnConfig, opts *Options) (driver.Backend, error) {
	b, err := newBackend(config, opts)
	if err != nil {
		return nil, err
	}
	b.owned = &call.Line{Dial: b.dialCalls}
	b.calls = b.owned
	return b, nil
}

func newBackend(config *pgx.ConnConfig, opts *Options) (*backend, error) {
	o, err := opts.checked()
	if err != nil {
		return nil, fmt.Errorf("pgbackend: %w", err)
	}
	b := &backend{opts: o, layout: o.layout(), clock: driver.SystemClock(), config: ours(config)}
	switch o.Listen {
	case "":
		b.listen = b.config
	case ListenOff:
	default:
		direct, err := pgx.ParseConfig(o.Listen)
		if err != nil {
			return nil, fmt.Errorf("pgbackend: %w: Listen: %w", session.ErrInvalidOptions, err)
		}
		b.listen = ours(direct)
	}
	return b, nil
}

// ours returns the configuration of a connection that the backend makes for itself. Of several
// hosts the one counts that takes writes.
func ours(config *pgx.ConnConfig) *pgx.ConnConfig {
	c := config.Copy()
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = dialTimeout
	}
	if c.ValidateConnect == nil && len(hosts(c)) > 1 {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "fairlock"
	}
	return c
}

// hosts returns the addresses of a configuration, each once. pgx lists one twice that it tries
// with TLS and without.
func hosts(c *pgx.ConnConfig) []string {
	all := []string{net.JoinHostPort(c.Host, fmt.Sprint(c.Port))}
	for _, f := range c.Fallbacks {
		host := net.JoinHostPort(f.Host, fmt.Sprint(f.Port))
		if all[len(all)-1] != host {
			all = append(all, host)
		}
	}
	return all
}

// dialCalls makes the connection for calls. Statements are prepared once, unless a pooler is
// between, which may run each transaction on another connection.
func (b *backend) dialCalls(ctx context.Context) (*pgx.Conn, error) {
	c := b.config.Copy()
	if b.pooled.Load() && c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		c.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return dial(ctx, c)
}

// dialOwn makes a connection for few statements, which need not be prepared.
func dialOwn(ctx context.Context, config *pgx.ConnConfig, noted func(*pgconn.Notification), noticed func(*pgconn.Notice)) (*pgx.Conn, error) {
	c := config.Copy()
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	if noted != nil {
		c.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { noted(n) }
	}
	if noticed != nil {
		c.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { noticed(n) }
	}
	return dial(ctx, c)
}

func dial(ctx context.Context, c *pgx.ConnConfig) (*pgx.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, c.ConnectTimeout*time.Duration(len(hosts(c))))
	defer stop()
	return pgx.ConnectConfig(ctx, c) //nolint:wrapcheck // the sender does
}

// Info implements driver.Backend. What is kept depends on the standbys of the server, which nobody
// has asked yet: it is what every setup keeps. The greatest TTL is in the tables.
func (b *backend) Info() driver.Info {
	return driver.Info{
		Service: "postgres",
		Clock:   b.clock,
		MinTTL:  minTTL,
		Margin:  func(ttl time.Duration) time.Duration { return max(ttl/10, 100*time.Millisecond) },
		MaxJoin: maxJoin,
		MaxData: maxData,
		Keeps:   driver.Keeps{Exclusion: driver.UntilSplit, Order: driver.UntilDataLoss, Tokens: driver.UntilSplit},
	}
}

// CheckName implements driver.Backend: every name can be stored.
func (b *backend) CheckName(string) error { return nil }

// Close implements driver.Backend.
func (b *backend) Close() error {
	if b.owned != nil {
		b.owned.Close()
	}
	return nil
}

// sender returns what sends requests on connections until over ends.
func (b *backend) sender(over context.Context, conns call.Conns, hook call.Hook) *call.Sender {
	return &call.Sender{Conns: conns, Clock: b.clock, Hook: hook, Over: over, Explicit: &b.explicit, Refused: b.command()}
}

// command is the command that makes the tables.
func (b *backend) command() string {
	name := "fairlock schema postgres --apply"
	if b.opts.Schema != DefaultSchema {
		name += " --schema " + b.opts.Schema
	}
	return fmt.Sprintf("run %q with the address of the database", name)
}

// observerTick is how often an observer looks at the sessions in the queues that it watches.
const observerTick = time.Second

// Open implements driver.Backend.
func (b *backend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	return s, nil
}

func (b *backend) open(ctx context.Context, cfg driver.Config) (*pgSession, error) {
	p := newPulse(b)
	var s *pgSession
	a, err := b.admit(ctx, p, cfg.Observer, cfg.Logger)
	if err == nil {
		s = newSession(b, p, a, cfg)
		err = s.begin(ctx)
	}
	if err != nil {
		if s != nil {
			s.Abandon()
		}
		p.close()
		return nil, err
	}
	return s, nil
}

// admission is what a session is opened with, when the store is whole.
type admission struct {
	life   layout.Life
	maxTTL time.Duration
	secret string
}

// examination is what one answer shows of the server and of table meta.
type examination struct {
	pid         uint32
	standby     bool
	version     int
	encoding    string
	fsync, sync string
	life        layout.Life
	layout      *int
	stored      *string
	claim       *string
	maxTTL      *int64
	secret      *string
}

func (e *examination) scan(r pgx.BatchResults) error {
	return r.QueryRow().Scan(&e.pid, &e.standby, &e.version, &e.encoding, &e.fsync, &e.sync, //nolint:wrapcheck // the sender does
		&e.life.System, &e.life.Timeline, &e.life.Started, &e.layout, &e.stored, &e.claim, &e.maxTTL, &e.secret)
}

// The oldest server that has what the statements use.
const minServer = 130000

// check returns why the server or its tables cannot be used.
func (b *backend) check(e *examination) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", driver.ErrRefused, fmt.Sprintf(format, args...))
	}
	switch {
	case e.version < minServer:
		return refuse("the server is PostgreSQL %d, and 13 or later is needed", e.version/10000)
	case e.encoding != "UTF8":
		return refuse("the database has the encoding %s, and UTF8 is needed", e.encoding)
	case e.layout != nil && *e.layout != layout.Version:
		return refuse("the tables in schema %q are of version %d, and this program needs version %d: %s", b.opts.Schema, *e.layout, layout.Version, b.command())
	case e.fsync != "on" && !b.opts.AcceptWeaker:
		return refuse("fsync is off: after a crash the server has lost what it has answered, and two clients can hold at once; " +
			"turn it on, or set AcceptWeaker")
	}
	return nil
}

// errStandby is why a server in recovery admits nobody.
var errStandby = errors.New("the server is a standby")

// admit returns when the store is whole in the life of the server. Where it is not, it takes part
// in the quarantine, unless it is for an observer, which may have no right to.
//
// A claim counts from the answer to a write of it: where a commit waits for standbys, that answer
// shows that none of them follows a primary of an older life.
func (b *backend) admit(ctx context.Context, p *pulse, observer bool, log *slog.Logger) (admission, error) {
	send := b.sender(context.Background(), p, nil) //nolint:contextcheck // no session can be over
	told := false
	claim := ""
	var last *examination
	for {
		e, err := b.look(ctx, send, claim, last)
		if err == nil && e.standby {
			err = errStandby
		}
		if err != nil && (errors.Is(err, errStandby) || errors.Is(err, driver.ErrUnavailable)) {
			if why := b.quarantine.Err(b.clock.Now()); why != nil && ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", why, err)
			}
		}
		if errors.Is(err, errStandby) {
			if !driver.Sleep(ctx, b.clock, 250*time.Millisecond) {
				return admission{}, fmt.Errorf("%w: %w", driver.ContextError(ctx), err)
			}
			continue
		}
		if err != nil {
			return admission{}, err
		}
		if err := b.check(e); err != nil {
			return admission{}, err
		}
		if last == nil {
			if err := b.single(ctx, e); err != nil {
				return admission{}, err
			}
		}
		last = e
		b.pooled.Store(!p.direct(e.pid))
		v := b.quarantine.Judge(b.clock.Now(), e.store(claim == ""))
		claim = ""
		pause := time.Duration(0)
		switch {
		case v.Step == observed.Blessed:
			return admission{life: e.life, maxTTL: e.ttl(), secret: deref(e.secret)}, nil
		case observer:
			pause = time.Second
		case v.Step == observed.ClaimIt:
			claim = v.Claim
		case v.Step == observed.Bless:
			if err := b.bless(ctx, send, e.life, v.Claim); err != nil {
				return admission{}, err
			}
		default:
			pause = min(v.For, time.Second)
		}
		if why := b.quarantine.Err(b.clock.Now()); why != nil && !told {
			told = true
			log.WarnContext(ctx, "postgres: nothing is granted for now", "reason", why.Error())
		}
		if pause > 0 && !driver.Sleep(ctx, b.clock, pause) {
			return admission{}, fmt.Errorf("%w: %w", b.quarantine.Err(b.clock.Now()), driver.ContextError(ctx))
		}
	}
}

// store returns what the quarantine needs to know.
func (e *examination) store(unproven bool) observed.Store {
	return observed.Store{Server: e.life.String(), Stored: deref(e.stored), Claim: deref(e.claim), MaxTTL: e.ttl(), Unproven: unproven}
}

// ttl is the greatest TTL. Where the row is missing, that of before is not known.
func (e *examination) ttl() time.Duration {
	if e.maxTTL == nil {
		return DefaultMaxTTL
	}
	return time.Duration(*e.maxTTL) * time.Millisecond
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// look reads the life, after it has written a claim, unless that is "".
func (b *backend) look(ctx context.Context, send *call.Sender, claim string, last *examination) (*examination, error) {
	var e examination
	_, err := send.Do(ctx, call.Request{
		Queue: func(batch *pgx.Batch, _ int) {
			if claim != "" {
				batch.Queue(b.layout.Claim(last.life), claim, last.claim, last.ttl().Milliseconds())
			}
			batch.Queue(b.layout.Examine())
		},
		Scan: func(r pgx.BatchResults) error {
			if claim != "" {
				if _, err := r.Exec(); err != nil {
					return err //nolint:wrapcheck // the sender does
				}
			}
			return e.scan(r)
		},
	})
	return &e, err //nolint:wrapcheck // Open does
}

// bless declares the store whole, if nobody else has.
func (b *backend) bless(ctx context.Context, send *call.Sender, life layout.Life, claim string) error {
	_, err := send.Do(ctx, call.Request{
		Queue: func(batch *pgx.Batch, _ int) { batch.Queue(b.layout.Bless(life), claim) },
		Scan: func(r pgx.BatchResults) error {
			_, err := r.Exec()
			return err //nolint:wrapcheck // the sender does
		},
	})
	return err //nolint:wrapcheck // Open does
}

// single returns an error if two of the hosts are primaries of one system: each of them would
// grant the same locks. A host that does not answer is no primary that anybody here can reach.
func (b *backend) single(ctx context.Context, e *examination) error {
	all := hosts(b.config)
	if len(all) < 2 || b.opts.AcceptWeaker {
		return nil
	}
	primaries := 0
	for _, c := range separate(b.config) {
		ctx, stop := context.WithTimeout(ctx, time.Second)
		conn, err := dialOwn(ctx, c, nil, nil)
		if err == nil {
			var standby bool
			var system string
			err = conn.QueryRow(ctx, "select pg_is_in_recovery(), system_identifier::text from pg_control_system()").Scan(&standby, &system)
			if err == nil && !standby && system == e.life.System {
				primaries++
			}
			call.Hangup(conn)
		}
		stop()
	}
	if primaries > 1 {
		return fmt.Errorf("%w: %d of the servers %v are primaries: each grants the same locks; stop all but one, or set AcceptWeaker", driver.ErrRefused, primaries, all)
	}
	return nil
}

// separate returns a configuration for each host of one.
func separate(config *pgx.ConnConfig) []*pgx.ConnConfig {
	var all []*pgx.ConnConfig
	add := func(host string, port uint16, c *pgx.ConnConfig) {
		c.Host, c.Port = host, port
		c.Fallbacks = nil
		c.ValidateConnect = nil
		all = append(all, c)
	}
	add(config.Host, config.Port, config.Copy())
	for _, f := range config.Fallbacks {
		if last := all[len(all)-1]; f.Host == last.Host && f.Port == last.Port {
			continue
		}
		c := config.Copy()
		c.TLSConfig = f.TLSConfig
		add(f.Host, f.Port, c)
	}
	return all
}
