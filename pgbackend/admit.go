package pgbackend

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/pgbackend/internal/call"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session/driver"
)

// Open implements driver.Backend.
func (b *backend) Open(ctx context.Context, cfg driver.Config) (driver.Session, error) {
	s, err := b.open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	return s, nil
}

func (b *backend) open(ctx context.Context, cfg driver.Config) (*pgSession, error) {
	if b.opts.Create && !cfg.Observer && !b.created.Load() {
		if err := b.create(ctx); err != nil {
			return nil, err
		}
		b.created.Store(true)
	}
	p := newOwnConn(b)
	var s *pgSession
	a, err := b.admit(ctx, p, cfg.Observer, cfg.Logger)
	if err == nil {
		s = newSession(b, p, a, cfg) //nolint:contextcheck // it outlives the call
		err = s.begin(ctx)
	}
	if err != nil {
		if s != nil {
			s.Abandon() //nolint:contextcheck // it bounds itself
		}
		p.close() //nolint:contextcheck // it bounds itself
		return nil, err
	}
	return s, nil
}

// create makes the tables, see Options.Create.
func (b *backend) create(ctx context.Context) error {
	conn, err := b.dialOwn(ctx, b.config, nil, nil)
	if err != nil {
		return call.Explain(err, b.command())
	}
	defer call.Hangup(conn) //nolint:contextcheck // it bounds itself
	return Apply(ctx, conn, b.opts.Schema, 0)
}

// admission is what a session is opened with, when the store is whole.
type admission struct {
	life   layout.Life
	since  int64 // the place at which that life began; 0: the first one
	maxTTL time.Duration
	secret string
}

// examination is what one answer shows of the server and of table meta.
type examination struct {
	pid         uint32 // of the server process: another one than at login shows a pooler
	standby     bool
	version     int // of the server, as 150020
	encoding    string
	fsync, sync string
	isolation   string // of a transaction that sets none
	life        layout.Life

	// Of table meta. All are nil where it has no row: then the tables were emptied, and a quarantine begins.
	layout *int
	stored *string // the life in which the data was declared whole; another one than life is a new life
	since  *int64  // the place at which that life began
	claim  *string // of the quarantine that is under way
	sum    *int64  // for how long the claim was counted
	maxTTL *int64
	secret *string
}

func (e *examination) scan(r pgx.BatchResults) error {
	return r.QueryRow().Scan(e.columns()...)
}

// columns are those of layout.Examine.
func (e *examination) columns() []any {
	return []any{
		&e.pid, &e.standby, &e.version, &e.encoding, &e.fsync, &e.sync, &e.isolation,
		&e.life.System, &e.life.Timeline, &e.life.Started, &e.layout, &e.stored, &e.since, &e.claim, &e.sum, &e.maxTTL, &e.secret,
	}
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
	case e.layout != nil && *e.layout > layout.Version:
		return refuse("the tables in schema %q are of version %d, and this program knows version %d: update the program", b.opts.Schema, *e.layout, layout.Version)
	case e.layout != nil && *e.layout != layout.Version:
		return refuse("the tables in schema %q are of version %d, and this program needs version %d: %s", b.opts.Schema, *e.layout, layout.Version, b.command())
	case e.fsync != "on" && !b.opts.AcceptWeaker:
		return refuse("fsync is off: after a crash the server has lost what it has answered, and two clients can hold at once; " +
			"turn it on, or set AcceptWeaker")
	}
	return nil
}

// errStandby is why a server in recovery admits no session: it is an observed.ErrNotWhole until it is promoted.
var errStandby = fmt.Errorf("%w: the server is a standby", observed.ErrNotWhole)

// admit returns when the store is whole in the life of the server. An observer only waits for that: it may
// have no right to more.
//
// A claim counts from the answer to a write of it: where a commit waits for standbys, that answer
// shows that none of them follows a primary of an older life.
func (b *backend) admit(ctx context.Context, p *ownConn, observer bool, log *slog.Logger) (admission, error) {
	a := &admitter{b: b, conn: p, send: b.sender(context.Background(), p, nil)} //nolint:contextcheck // no session can be over
	all := observed.Admission{Quarantine: &b.quarantine, Clock: b.clock, Logger: log, Service: "postgres", Observer: observer, Do: a.do}
	if err := all.Admit(ctx); err != nil {
		return admission{}, err
	}
	return admission{life: a.last.life, since: deref(a.last.since), maxTTL: a.last.ttl(), secret: deref(a.last.secret)}, nil
}

// admitter is one call of admit.
type admitter struct {
	b    *backend
	conn *ownConn
	send *call.Sender
	last *examination // nil before the first answer
}

// do carries out one step of a quarantine, and returns what the store is after it. What is wrong with the
// server or its tables is found at each step: a promotion may have led to another server since. Whether
// there are two primaries is asked once, because that takes a connection to each host.
func (a *admitter) do(ctx context.Context, w observed.Write) (observed.Shown, error) {
	if w.Kind == observed.Blesses {
		if err := a.b.bless(ctx, a.send, a.last.life, w.Claim); err != nil {
			return observed.Shown{}, err
		}
		w = observed.Write{}
	}
	var e *examination
	wrote := false
	proof, err := a.conn.proves(func() (err error) {
		e, wrote, err = a.look(ctx, w)
		return err
	})
	switch {
	case err != nil:
		return observed.Shown{}, err
	case e.standby:
		return observed.Shown{}, errStandby
	}
	if err := a.b.check(e); err != nil {
		return observed.Shown{}, err
	}
	if a.last == nil {
		if err := a.b.single(ctx, e); err != nil {
			return observed.Shown{}, err
		}
	}
	a.last = e
	a.b.pooled.Store(!a.conn.direct(e.pid))
	if e.isolation != "read committed" {
		a.b.explicit.Store(true)
	}
	return e.shown(!wrote || !proof), nil
}

// shown returns what the quarantine needs to know.
func (e *examination) shown(unproven bool) observed.Shown {
	return observed.Shown{
		Store:   observed.Store{Server: e.life.String(), Stored: deref(e.stored), Claim: deref(e.claim), MaxTTL: e.ttl(), Unproven: unproven},
		Counted: time.Duration(deref(e.sum)) * time.Millisecond,
	}
}

// ttl is the greatest TTL. Where the row is missing, that of before is not known.
func (e *examination) ttl() time.Duration {
	if e.maxTTL == nil {
		return DefaultMaxTTL
	}
	return time.Duration(*e.maxTTL) * time.Millisecond
}

func deref[T any](v *T) T {
	if v == nil {
		var zero T
		return zero
	}
	return *v
}

// look reads the life, after it has written what is to be written, and reports whether that was.
func (a *admitter) look(ctx context.Context, w observed.Write) (e *examination, wrote bool, err error) {
	e = &examination{}
	_, err = a.send.Do(ctx, call.Request{
		Queue: func(batch *pgx.Batch, attempt int) {
			switch {
			case w.Kind == observed.Claims && w.Claim == w.Before:
				batch.Queue(a.b.layout.Keep(a.last.life), w.Claim)
			case w.Kind == observed.Claims:
				batch.Queue(a.b.layout.Claim(a.last.life), fmt.Sprint(w.Claim, "-", attempt), a.last.claim, a.last.ttl().Milliseconds())
			case w.Kind == observed.Counts:
				batch.Queue(a.b.layout.Count(a.last.life), w.Before, w.Added.Milliseconds(), w.Sum.Milliseconds())
			default:
				batch.Queue("select")
			}
			batch.Queue(a.b.layout.Examine())
		},
		Scan: func(r pgx.BatchResults) error {
			tag, err := r.Exec()
			if err != nil {
				return err
			}
			wrote = tag.RowsAffected() > 0 && !tag.Select()
			return e.scan(r)
		},
	})
	return e, wrote, err
}

// bless declares the store whole, if no other client has.
func (b *backend) bless(ctx context.Context, send *call.Sender, life layout.Life, claim string) error {
	_, err := send.Do(ctx, call.Request{
		Queue: func(batch *pgx.Batch, _ int) { batch.Queue(b.layout.Bless(life), claim) },
		Scan: func(r pgx.BatchResults) error {
			_, err := r.Exec()
			return err
		},
	})
	return err
}

// single returns an error if two of the hosts are primaries of one system: each of them would
// grant the same locks. A host that does not answer is no primary that this client can reach.
func (b *backend) single(ctx context.Context, e *examination) error {
	all := hosts(b.config)
	if len(all) < 2 || b.opts.AcceptWeaker {
		return nil
	}
	primaries := 0
	for _, c := range separate(b.config) {
		ctx, stop := context.WithTimeout(ctx, time.Second)
		conn, err := b.dialOwn(ctx, c, nil, nil)
		if err == nil {
			var standby bool
			var system string
			err = conn.QueryRow(ctx, "select pg_is_in_recovery(), system_identifier::text from pg_control_system()").Scan(&standby, &system)
			if err == nil && !standby && system == e.life.System {
				primaries++
			}
			call.Hangup(conn) //nolint:contextcheck // it bounds itself
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
		last := all[len(all)-1]
		if f.Host == last.Host && f.Port == last.Port {
			continue
		}
		c := config.Copy()
		c.TLSConfig = f.TLSConfig
		add(f.Host, f.Port, c)
	}
	return all
}
