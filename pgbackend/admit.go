package pgbackend

import (
	"context"
	"errors"
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

// errStandby is why a server in recovery admits no session.
var errStandby = errors.New("the server is a standby")

// admit returns when the store is whole in the life of the server. Where it is not, it takes part
// in the quarantine, unless it is for an observer, which may have no right to.
//
// A claim counts from the answer to a write of it: where a commit waits for standbys, that answer
// shows that none of them follows a primary of an older life.
func (b *backend) admit(ctx context.Context, p *ownConn, observer bool, log *slog.Logger) (admission, error) {
	send := b.sender(context.Background(), p, nil) //nolint:contextcheck // no session can be over
	told := false
	claim := ""
	var last *examination
	for {
		e, err := b.look(ctx, send, claim, last)
		if err == nil && e.standby {
			err = errStandby
		}
		why := b.quarantine.Err(b.clock.Now())
		if why != nil && errors.Is(err, driver.ErrUnavailable) {
			err = fmt.Errorf("%w: %w", why, err)
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
		why = b.quarantine.Err(b.clock.Now())
		if why != nil && !told {
			told = true
			log.WarnContext(ctx, "postgres: nothing is granted for now", "reason", why.Error())
		}
		if pause > 0 && !driver.Sleep(ctx, b.clock, pause) {
			return admission{}, fmt.Errorf("%w: %w", why, driver.ContextError(ctx))
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

// bless declares the store whole, if no other client has.
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
// grant the same locks. A host that does not answer is no primary that this client can reach.
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
