package pgstand

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/pgbackend"
)

// ttl is the TTL of all sessions and rows, the greatest that the tables admit.
const ttl = pgbackend.DefaultMaxTTL

// Open implements stand.Stand. A session of ours is a process: it has its three connections, and
// shares none of them. So clients does not matter.
func (s *server) Open(ctx context.Context, contestant stand.Contestant, n, _ int) (*stand.Team, error) {
	share := !contestant.Alone
	clients := n
	if share {
		clients = 1
	}
	tallies, configs := make([]*stand.Tally, clients), make([]*pgx.ConnConfig, clients)
	for i := range tallies {
		config, err := pgx.ParseConfig(s.at.Clients[0])
		if err != nil {
			return nil, fmt.Errorf("address %q: %w", s.at.Clients[0], err)
		}
		tallies[i] = stand.NewTally(requestKinds(), periodic...)
		config.Tracer = tracer{tallies[i]}
		configs[i] = config
	}
	p := stand.Parts{Tallies: tallies, Stop: stand.StopByContext, Busy: func() bool { return false }}
	if contestant.Ours {
		p.Stop = stand.StopByClose
		p.QueueOf = func(name string) string { return pgbackend.DefaultRoot + "\x01q" + name }
		p.Busy = func() bool { return busy(tallies) }
		p.Session = func(i int) (stand.Contender, func() error, error) { return ours(ctx, configs[i], contestant) }
		return stand.NewTeam(contestant, n, share, p) //nolint:wrapcheck // it is of this module
	}
	p.QueueOf = func(name string) string { return contestant.Name + "/" + name }
	p.Session = func(i int) (stand.Contender, func() error, error) {
		conn, err := pgx.ConnectConfig(ctx, configs[i])
		if err != nil {
			return nil, nil, fmt.Errorf("connect: %w", err)
		}
		end := func() error { return conn.Close(context.Background()) } //nolint:contextcheck // after the run
		queued := queued{&s.waiting, p.QueueOf}
		if contestant.Name == Advisory {
			return &advisory{queued, conn}, end, nil
		}
		return newLease(queued, conn), end, nil
	}
	return stand.NewTeam(contestant, n, share, p) //nolint:wrapcheck // it is of this module
}

// busy reports whether a client waits for an answer. A waiter of an advisory lock always does.
func busy(tallies []*stand.Tally) bool {
	for _, t := range tallies {
		if t.Busy() {
			return true
		}
	}
	return false
}

// ours opens a session.
func ours(ctx context.Context, config *pgx.ConnConfig, c stand.Contestant) (stand.Contender, func() error, error) {
	opts := &pgbackend.Options{Session: c.Options(ttl)}
	b, err := pgbackend.ConfigBackend(config, opts)
	if err != nil {
		return nil, nil, fmt.Errorf("make a backend: %w", err)
	}
	s, err := pgbackend.OpenBackend(ctx, b, opts)
	if err != nil {
		return nil, nil, fmt.Errorf("open a session: %w", err)
	}
	return stand.Of(s), s.Close, nil
}

// queued counts the contenders of a peer that wait or hold.
type queued struct {
	waiting *stand.Waiting
	queueOf func(name string) string
}

func (q queued) wrap(name string, lock func() (func() error, error)) (func() error, error) {
	return q.waiting.Wrap(q.queueOf(name), lock) //nolint:wrapcheck // it is that of lock
}

// advisory is a contender with an advisory lock.
type advisory struct {
	queued
	conn *pgx.Conn
}

// Lock implements stand.Contender.
func (a *advisory) Lock(ctx context.Context, name string) (func() error, error) {
	return a.wrap(name, func() (func() error, error) {
		if _, err := a.conn.Exec(ctx, "select pg_advisory_lock(hashtextextended($1, 0))", name); err != nil {
			return nil, fmt.Errorf("advisory lock: %w", err)
		}
		return func() error {
			_, err := a.conn.Exec(context.WithoutCancel(ctx), "select pg_advisory_unlock(hashtextextended($1, 0))", name)
			return err //nolint:wrapcheck // it names itself
		}, nil
	})
}

// lease is a connection for contenders with a row. Each Lock is an owner of its own.
type lease struct {
	queued
	turn  chan *pgx.Conn
	owner chan int64 // the next owner
}

func newLease(q queued, conn *pgx.Conn) *lease {
	l := &lease{q, make(chan *pgx.Conn, 1), make(chan int64, 1)}
	l.turn <- conn
	l.owner <- time.Now().UnixNano()
	return l
}

// The two statements of a lease.
const (
	take = `insert into bench_lease (name, owner, until) values ($1, $2, now() + $3)
on conflict (name) do update set owner = excluded.owner, until = excluded.until where bench_lease.until < now()`
	drop = `delete from bench_lease where name = $1 and owner = $2`
)

// pollTime is the time between two attempts of a waiter. The first pause is random, because the
// measurements release at regular times after the waiter has begun.
const pollTime = 50 * time.Millisecond

// errLost means that the row was another owner's before it was dropped.
var errLost = errors.New("the lease was lost")

// Lock implements stand.Contender.
func (l *lease) Lock(ctx context.Context, name string) (func() error, error) {
	owner := <-l.owner
	l.owner <- owner + 1
	return l.wrap(name, func() (func() error, error) {
		for attempt := 0; ; attempt++ {
			taken, err := l.exec(ctx, attempt > 0, take, name, owner, ttl)
			if err != nil {
				return nil, err
			}
			if taken {
				break
			}
			pause := pollTime
			if attempt == 0 {
				pause = rand.N(pollTime)
			}
			if err := stand.Sleep(ctx, pause); err != nil {
				return nil, err
			}
		}
		return func() error {
			dropped, err := l.exec(context.WithoutCancel(ctx), false, drop, name, owner)
			if err == nil && !dropped {
				err = errLost
			}
			return err
		}, nil
	})
}

// exec runs a statement on the connection, and reports whether it wrote the row.
func (l *lease) exec(ctx context.Context, again bool, sql string, args ...any) (bool, error) {
	conn := <-l.turn
	defer func() { l.turn <- conn }()
	tag, err := conn.Exec(context.WithValue(ctx, repeated{}, again), sql, args...)
	if err != nil {
		return false, fmt.Errorf("row lease: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}
