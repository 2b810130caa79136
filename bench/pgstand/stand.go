// Package pgstand compares fairlock on PostgreSQL with what programs build there by hand: a row
// that is a lease and is polled, and an advisory lock that waits with a connection.
package pgstand

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/pgbackend"
)

// The names of the peers. Neither is fair: any waiter may be next.
const (
	// Lease is a row with an owner and a time. One statement takes it, if it is free or its
	// time has passed, and one drops it. A waiter tries every 50 ms.
	Lease = "row lease"

	// LeaseOneConn is Lease with one connection for all contenders.
	LeaseOneConn = "row lease, one connection"

	// Advisory is pg_advisory_lock, with a connection for each contender, also while it waits.
	Advisory = "advisory lock"
)

// Service returns PostgreSQL.
func Service() stand.Service {
	const alone, together = "a session each", "one process"
	return stand.Service{
		Name: "PostgreSQL", Peer: Lease,
		Contestants: []stand.Contestant{
			{Name: stand.Ours, Use: alone, Ours: true, Alone: true},
			{Name: Lease, Use: alone, Alone: true},
			{Name: Advisory, Use: Advisory, Alone: true, Against: stand.Ours},
			{Name: stand.OursOneSession, Use: together, Ours: true},
			{Name: LeaseOneConn, Use: together},
		},
		Attach: attach,
	}
}

// Prepare makes the tables of all contestants on a new server.
func Prepare(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("prepare the tables: %w", err)
	}
	err = pgbackend.Apply(ctx, conn, "", 0)
	if err == nil {
		_, err = conn.Exec(ctx, "create table bench_lease (name text primary key, owner bigint, until timestamptz)")
	}
	return errors.Join(err, conn.Close(ctx))
}

// server is a server, with a connection for the stand itself.
type server struct {
	at stand.Addresses

	waiting stand.Waiting

	mu      sync.Mutex
	control *pgx.Conn // not counted
	old     *pgx.Conn // has an open snapshot; nil if there is none
}

var (
	_ stand.Stand      = (*server)(nil)
	_ stand.Connected  = (*server)(nil)
	_ stand.Processors = (*server)(nil)
	_ stand.Snapshots  = (*server)(nil)
)

func attach(ctx context.Context, at stand.Addresses) (stand.Stand, error) {
	control, err := pgx.Connect(ctx, at.Direct[0])
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &server{at: at, control: control}, nil
}

// Close implements stand.Stand.
func (s *server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.control.Close(context.Background())
	if s.old != nil {
		err = errors.Join(err, s.old.Close(context.Background()))
	}
	return err
}

// Length implements stand.Stand. The server does not know the waiters of the peers, whose queues
// are in this process.
func (s *server) Length(ctx context.Context, queue string) (int, error) {
	n, theirs := s.waiting.Waiters(queue)
	if theirs {
		return n, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.control.QueryRow(ctx, "select count(*) from fairlock.entry where queue = $1", queue).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the queue: %w", err)
	}
	return n, nil
}

// Fill implements stand.Stand. It returns an error, because a peer has no entries.
func (s *server) Fill(_ context.Context, queue string, n int) error {
	if n > 0 {
		return fmt.Errorf("%d entries without an owner in %q: a row and an advisory lock have none", n, queue)
	}
	return nil
}

// Clear implements stand.Stand. Nothing is left in a queue here.
func (s *server) Clear(context.Context, string) error { return nil }

// Connections implements stand.Connected.
func (s *server) Connections(ctx context.Context) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int
	err := s.control.QueryRow(ctx, "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()").Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the connections: %w", err)
	}
	return n, nil
}

// ServerTime implements stand.Processors. Linux has the time that each process ran, in nanoseconds.
// The processes of the server that write to the disk later do not count.
func (s *server) ServerTime(ctx context.Context) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const others = "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
	rows, err := s.control.Query(ctx, others)
	if err != nil {
		return 0, fmt.Errorf("list the server's processes: %w", err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return 0, fmt.Errorf("list the server's processes: %w", err)
	}
	var sum time.Duration
	for _, pid := range pids {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid)) // see proc(5)
		var ran int64
		if _, err := fmt.Sscan(string(text), &ran); err == nil {
			sum += time.Duration(ran)
		}
	}
	return sum, nil
}

// Snapshot implements stand.Snapshots.
func (s *server) Snapshot(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.at.Direct[0])
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	s.mu.Lock()
	s.old = conn
	s.mu.Unlock()
	for _, sql := range []string{"begin isolation level repeatable read", "select count(*) from fairlock.entry"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("open a snapshot: %w", err)
		}
	}
	return nil
}
