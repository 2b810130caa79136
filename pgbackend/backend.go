package pgbackend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
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

	pooled   atomic.Bool  // a pooler is between, as the newest connection for renewals has shown
	explicit atomic.Bool  // see call.Sender
	created  atomic.Bool  // the tables are there, see Options.Create
	number   atomic.Int64 // of the newest change of an entry's data in this process

	mu   sync.Mutex
	live map[string]struct{} // the sessions of this backend that were not abandoned; no other session of it ends them

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
	if b.opts.BeforeConnect == nil {
		b.opts.BeforeConnect = pool.Config().BeforeConnect
	}
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
	b := &backend{opts: o, layout: o.layout(), clock: driver.SystemClock(), config: ours(config), live: map[string]struct{}{}}
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
//
// The server finds out within half a minute that this machine is gone: if it had half of a
// request, it keeps the lock of a queue for that long. By default it is two hours. A pooler
// admits no such settings.
func (b *backend) dialCalls(ctx context.Context) (*pgx.Conn, error) {
	c := b.config.Copy()
	if b.pooled.Load() {
		if c.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
			c.DefaultQueryExecMode = pgx.QueryExecModeExec
		}
		return b.dial(ctx, c)
	}
	for name, value := range map[string]string{"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3"} {
		if c.RuntimeParams[name] == "" {
			c.RuntimeParams[name] = value
		}
	}
	return b.dial(ctx, c)
}

// dialOwn makes a connection for few statements, which need not be prepared.
func (b *backend) dialOwn(ctx context.Context, config *pgx.ConnConfig, noted func(*pgconn.Notification), noticed func(*pgconn.Notice)) (*pgx.Conn, error) {
	c := config.Copy()
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	if noted != nil {
		c.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { noted(n) }
	}
	if noticed != nil {
		c.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { noticed(n) }
	}
	return b.dial(ctx, c)
}

// dial makes a connection that sends no request to cancel when it is given up. pgx would make another
// connection for that, while the server may have too much to do already, and such a request can crash
// PgBouncer (its issue 801, in 1.18 to 1.24 at least). A statement that no client waits for ends by itself
// when its lock_timeout has passed. c must be a copy that nothing else uses.
func (b *backend) dial(ctx context.Context, c *pgx.ConnConfig) (*pgx.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, c.ConnectTimeout*time.Duration(len(hosts(c))))
	defer stop()
	if b.opts.BeforeConnect != nil {
		if err := b.opts.BeforeConnect(ctx, c); err != nil {
			return nil, fmt.Errorf("BeforeConnect: %w", err)
		}
	}
	var made atomic.Bool
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if made.Load() {
			return nil, errNoCancel
		}
		return dial(ctx, network, addr)
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	made.Store(true)
	return conn, err
}

var errNoCancel = errors.New("nothing is canceled")

// Info implements driver.Backend. What is kept depends on the standbys of the server, which the
// backend has not asked yet: it is what every setup keeps. The greatest TTL is in the tables.
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

// next returns a number above all before it. It begins at the clock, so that an operator who
// counts one up by hand does not reach the next one.
func (b *backend) next() int64 {
	for {
		last := b.number.Load()
		n := max(last+1, int64(b.clock.Now()))
		if b.number.CompareAndSwap(last, n) {
			return n
		}
	}
}

// begun and ended keep the list of the sessions of this backend.
func (b *backend) begun(session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live[session] = struct{}{}
}

func (b *backend) ended(session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.live, session)
}

func (b *backend) owns(session string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.live[session]
	return ok
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
