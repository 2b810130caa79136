// Package onpg tests locks on PostgreSQL: Fairlock's locks, and what programs use there without
// it. The servers run in processes of their own, and each client is behind proxies of its own.
package onpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/pgtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
	"github.com/fairlock/fairlock/session"
)

// Name is the name of the service.
const Name = "postgres"

// attemptTimeout bounds one attempt of an operator's request, because the server may be stopped.
const attemptTimeout = 700 * time.Millisecond

// Service implements trial.Service, trial.Watcher and trial.Breaker.
type Service struct {
	setup   string
	first   *pgtest.Server  // Close of it closes all others
	pooler  *pgtest.Bouncer // nil for none
	disk    *disk           // nil for none
	feed    *feed
	resting context.CancelFunc // ends the newest of keepers
	keepers sync.WaitGroup     // see keep

	mu               sync.Mutex
	primary, standby *pgtest.Server
	began            history.Instant // when the newest promotion began
	ttl              time.Duration   // of the sessions that are opened next
	open             map[string]bool // the sessions that clients have
	clients          int
	waiters          map[string][]string // of locks without a queue, see peers.go

	admin   sync.Mutex // one request at a time
	conn    *pgx.Conn
	unblock func(context.Context) error // ends the fault that is in effect
}

var (
	_ trial.Service = (*Service)(nil)
	_ trial.Watcher = (*Service)(nil)
	_ trial.Breaker = (*Service)(nil)
)

// Start starts the servers of a setup, "" for the default. ctx bounds only the start.
func Start(ctx context.Context, setup string) (*Service, error) {
	if setup == "" {
		setup = Direct
	}
	s := &Service{setup: setup, open: map[string]bool{}, waiters: map[string][]string{}, ttl: trial.TTL}
	err := s.start(ctx)
	if err == nil {
		s.feed = follow(s.primary)
		s.keep() //nolint:contextcheck // it outlives the start
	}
	if err != nil {
		return nil, errors.Join(err, s.Close()) //nolint:contextcheck // it bounds itself
	}
	return s, nil
}

// keep has a session on the servers that there are now, which has no lock most of the time, as that of
// another program. It ends the sessions of processes that were killed, and what a client has left
// that could not close its session.
func (s *Service) keep() {
	if s.resting != nil {
		s.resting()
	}
	ctx, stop := context.WithCancel(context.Background())
	s.resting = stop
	url, o := s.direct(), &pgbackend.Options{Root: root, Session: s.options()}
	s.keepers.Go(func() { // ends with stop
		for ctx.Err() == nil {
			opened, err := pgbackend.Dial(ctx, url, o)
			if err == nil {
				rest(ctx, opened)
				_ = opened.Close() // its server may be stopped
				return
			}
			wait(ctx, attemptTimeout) // nothing is opened in a quarantine
		}
	})
}

// rest holds a lock for a moment now and then.
func rest(ctx context.Context, opened *session.Session) {
	m := mutex.New(opened, "keeper")
	for ctx.Err() == nil {
		wait(ctx, 5*time.Second)
		h, err := m.Lock(ctx)
		if err == nil {
			_ = h.Unlock() // its session may be lost
		}
	}
}

// options are those of a session that the service knows.
func (s *Service) options() session.Options {
	note := func(open bool) func(session.Event) {
		return func(e session.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if open {
				s.open[e.Session] = true
			} else {
				delete(s.open, e.Session)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return session.Options{
		TTL: s.ttl, Logger: slog.New(slog.DiscardHandler),
		Hooks: session.Hooks{SessionOpened: note(true), SessionLost: note(false), SessionClosed: note(false)},
	}
}

// direct returns the URL of the servers, which bypasses proxies and poolers.
func (s *Service) direct() string { return urlOf(s.addrs()...) }

// addrs returns the addresses of the servers.
func (s *Service) addrs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []string{s.primary.Addr()}
	if s.standby != nil {
		all = append(all, s.standby.Addr())
	}
	return all
}

func urlOf(addrs ...string) string {
	return "postgres://" + app + "@" + strings.Join(addrs, ",") + "/postgres?sslmode=disable"
}

// Name implements trial.Service.
func (s *Service) Name() string { return Name }

// Transport implements trial.Service: the setup.
func (s *Service) Transport() string { return s.setup }

// Margin implements trial.Service: pgbackend's default.
func (s *Service) Margin() time.Duration { return max(trial.TTL/10, 100*time.Millisecond) }

func (s *Service) setTTL(ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ttl = ttl
}

// Locks implements trial.Service.
func (s *Service) Locks() []string { return []string{trial.Ours, Advisory, Lease} }

// Members implements trial.Service: no server is one of several that elect a leader.
func (s *Service) Members() []trial.Member { return nil }

// Leader implements trial.Service: it waits until the primary answers.
func (s *Service) Leader(ctx context.Context) (int, error) {
	return 0, s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "select pg_current_wal_lsn()")
		return err
	})
}

// MoveLeader implements trial.Service.
func (s *Service) MoveLeader(context.Context, int) error { return errors.ErrUnsupported }

// Compact implements trial.Service.
func (s *Service) Compact(context.Context) error { return errors.ErrUnsupported }

// Quota implements trial.Service.
func (s *Service) Quota(context.Context) (func(context.Context) error, error) {
	return nil, errors.ErrUnsupported
}

// Healthy implements trial.Service: the primary commits, and its standby has what it commits.
func (s *Service) Healthy(ctx context.Context) error {
	err := s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "update robustness.mark set n = n + 1")
		return err
	})
	if err == nil && s.standby != nil {
		err = s.standby.CatchUp(ctx)
	}
	if err == nil && s.pooler != nil {
		err = retry(ctx, func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, s.pooler.URL())
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		})
	}
	return err
}

// do has the operator send a request, which may be carried out more than once, until it succeeds.
func (s *Service) do(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	return retry(ctx, func(ctx context.Context) (err error) {
		s.admin.Lock()
		defer s.admin.Unlock()
		if s.conn == nil {
			s.mu.Lock()
			primary := s.primary
			s.mu.Unlock()
			s.conn, err = primary.Connect(ctx)
			if err != nil {
				return err
			}
		}
		err = f(ctx, s.conn)
		if err != nil && s.conn.IsClosed() {
			s.conn = nil
		}
		return err
	})
}

// reconnect has the operator leave the primary of before.
func (s *Service) reconnect(ctx context.Context) error {
	s.admin.Lock()
	defer s.admin.Unlock()
	if s.conn != nil {
		_ = s.conn.Close(ctx) // it may be broken
		s.conn = nil
	}
	return nil
}

// retry calls f until it succeeds or ctx ends.
func retry(ctx context.Context, f func(context.Context) error) error {
	for {
		one, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := f(one)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		wait(ctx, 10*time.Millisecond)
	}
}

// notify reports entries that an operator has deleted, as the client does that ends a session.
const notify = `select pg_notify('fl_' || left(encode(sha256(convert_to(t.queue || m.secret, 'UTF8')), 'hex'), 32) || suffix, 'g0' || marks)
	from fairlock.meta m, (select *, '' as suffix from gone union all select *, '_' || place from gone) t`

// EndSession implements trial.Service: an operator deletes the session. Of a peer it ends the
// connection.
func (s *Service) EndSession(ctx context.Context, id string) error {
	lock, of, isPeer := strings.Cut(id, ":")
	if isPeer {
		return s.endPeer(ctx, lock, of)
	}
	number, err := strconv.ParseInt(id, 16, 64)
	if err != nil {
		return fmt.Errorf("onpg: end session %q: %w", id, err)
	}
	return s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			for _, sql := range []string{
				"delete from fairlock.session where id = $1",
				"delete from fairlock.member where id = $1",
				"with gone as (delete from fairlock.entry where session = $1 returning queue, place, marks) " + notify,
				"delete from fairlock.record where session = $1",
			} {
				if _, err := tx.Exec(ctx, sql, number); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// Delete implements trial.Service.
func (s *Service) Delete(ctx context.Context, entry string) error {
	lock, of, isPeer := strings.Cut(entry, ":")
	if isPeer {
		return s.endPeer(ctx, lock, of)
	}
	id, place, err := parse(entry)
	if err != nil {
		return err
	}
	return s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "with gone as (delete from fairlock.entry where session = $1 and place = $2 returning queue, place, marks) "+notify, id, place)
		return err
	})
}

// parse parses the key of an entry: the session in hexadecimal, and the place.
func parse(entry string) (session, place int64, err error) {
	of, at, _ := strings.Cut(entry, ".")
	session, err = strconv.ParseInt(of, 16, 64)
	if err == nil {
		place, err = strconv.ParseInt(at, 10, 64)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("onpg: entry %q: %w", entry, err)
	}
	return session, place, nil
}

// key is the inverse of parse.
func key(session, place int64) string { return fmt.Sprintf("%016x.%d", session, place) }

// Entries implements trial.Service.
func (s *Service) Entries(ctx context.Context, lock, queue string) ([]string, error) {
	if lock != trial.Ours {
		return s.peerEntries(ctx, lock, queue)
	}
	var all []string
	err := s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "select session, place from fairlock.entry where queue = $1 order by place", prefix+queue)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
			var session, place int64
			err := row.Scan(&session, &place)
			return key(session, place), err
		})
		return err
	})
	return all, err
}

// Order implements trial.Service. An entry whose client has lost its session, and behind which
// no client waits, is left to Sweep: it counts as gone.
func (s *Service) Order(ctx context.Context, lock, queue string) ([]history.Change, error) {
	if lock != trial.Ours {
		return nil, errors.ErrUnsupported
	}
	entries, err := s.Entries(ctx, lock, queue)
	if err != nil {
		return nil, err
	}
	all, err := s.feed.of(ctx, queue)
	for _, entry := range entries {
		_, place, bad := parse(entry)
		err = errors.Join(err, bad)
		gone := slices.ContainsFunc(all, func(c history.Change) bool { return c.Kind == history.Left && c.Place == place })
		if s.Ended(entry) && !gone {
			all = append(all, history.Change{At: -place, Kind: history.Left, Place: place})
		}
	}
	return all, err
}

// Left implements trial.Watcher for Fairlock's entries.
func (s *Service) Left(entry string) history.Instant {
	_, place, err := parse(entry)
	if err != nil {
		return 0
	}
	return s.feed.leftAt(place)
}

// Ended implements trial.Breaker.
func (s *Service) Ended(entry string) bool {
	id, _, _ := strings.Cut(entry, ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.open[id]
}

// Sweep implements trial.Breaker: a process looks at all sessions once a minute, at a time that
// differs by half of that, and ends one that has not changed at the next look.
func (s *Service) Sweep() time.Duration { return 200 * time.Second }

// Remains implements trial.Breaker.
func (s *Service) Remains(ctx context.Context) (all []string, err error) {
	s.mu.Lock()
	open := []string{}
	for id := range s.open {
		open = append(open, id)
	}
	s.mu.Unlock()
	err = s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `select what from (
			select 'session ' || to_hex(id) || ', version ' || version || ', renewed ' || renewed as what, id as of from fairlock.session union all
			select 'member ' || to_hex(id), id from fairlock.member union all
			select 'entry ' || queue, session from fairlock.entry union all
			select 'record ' || queue || ' ' || name, session from fairlock.record where session is not null union all
			select 'void', session from fairlock.void union all
			select 'done', session from fairlock.done) t
			where lpad(to_hex(t.of), 16, '0') <> all($1::text[])`, open)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return all, err
}

// Close implements trial.Service.
func (s *Service) Close() error {
	var errs []error
	if s.resting != nil {
		s.resting()
	}
	s.keepers.Wait()
	if s.feed != nil {
		s.feed.close()
	}
	if s.conn != nil {
		_ = s.conn.Close(context.Background()) // it may be broken
	}
	if s.first != nil {
		errs = append(errs, s.first.Close())
	}
	if s.disk != nil {
		errs = append(errs, s.disk.close())
	}
	return errors.Join(errs...)
}
