// Package crowd is the demonstration of the page with the queues. It starts an etcd and
// a dozen worker processes that contend for several kinds of locks, and injects faults
// that make some of them lose their locks.
package crowd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Config is the configuration of a worker.
type Config struct {
	Name   string // its label
	Role   string // one of those below
	Server string // the address of etcd
}

// The roles.
const (
	settle   = "settle"   // acquires a mutex, sometimes for long
	prices   = "prices"   // reads under a read-write lock, and sometimes writes
	train    = "train"    // acquires some of eight permits
	transfer = "transfer" // acquires two mutexes, in one order or the other, which can deadlock
	leader   = "leader"   // campaigns in an election
)

const (
	ttl     = 5 * time.Second
	permits = 8
	// lockTimeout is how long a transfer waits for its second account, so a deadlock lasts
	// as long.
	lockTimeout = 40 * time.Second
)

// Work does the work of a role until stdin or ctx ends. It then releases what it holds
// and closes its session. It acquires a lock that was lost again.
func Work(ctx context.Context, cfg Config, stdin io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with stdin, which ends at the latest when the parent dies
		defer cancel()
		_, _ = io.Copy(io.Discard, stdin)
	}()
	s, err := etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: []string{cfg.Server}}, &etcdbackend.Options{
		Session: session.Options{TTL: ttl, Label: cfg.Name, Logger: slog.New(slog.DiscardHandler)},
	})
	switch {
	case ctx.Err() != nil:
		return nil // it is to end before it has begun
	case err != nil:
		return fmt.Errorf("worker %s: %w", cfg.Name, err)
	}
	turn, ok := turns()[cfg.Role]
	for ok && ctx.Err() == nil {
		_ = turn(ctx, s, cfg.Name) // the lock was lost, or lockTimeout is over: the page shows it
		_ = pause(ctx, between(500*time.Millisecond, 2*time.Second))
	}
	if err := s.Close(); err != nil {
		return fmt.Errorf("worker %s: %w", cfg.Name, err)
	}
	return nil
}

// turns returns, for each role, the function that does its work once.
func turns() map[string]func(ctx context.Context, s *session.Session, name string) error {
	work := func(from, to time.Duration) func(context.Context, *session.Hold) error {
		return func(ctx context.Context, _ *session.Hold) error { return pause(ctx, between(from, to)) }
	}
	return map[string]func(context.Context, *session.Session, string) error{
		settle: func(ctx context.Context, s *session.Session, _ string) error {
			long := 3 * time.Second
			if rand.N(12) == 0 {
				long = 45 * time.Second // a long hold for the page to show
			}
			return mutex.New(s, "orders/settle").Do(ctx, work(time.Second, long))
		},
		prices: func(ctx context.Context, s *session.Session, _ string) error {
			rw := rwlock.New(s, "config/prices")
			if rand.N(4) == 0 {
				return rw.Do(ctx, work(time.Second, 4*time.Second))
			}
			return rw.RDo(ctx, work(time.Second, 5*time.Second))
		},
		train: func(ctx context.Context, s *session.Session, _ string) error {
			return semaphore.New(s, "gpu", permits).Do(ctx, 1+rand.Int64N(5), work(3*time.Second, 12*time.Second))
		},
		transfer: func(ctx context.Context, s *session.Session, _ string) error {
			from, to := "account/17", "account/42"
			if rand.N(2) == 0 {
				from, to = to, from
			}
			return mutex.New(s, from).Do(ctx, func(ctx context.Context, _ *session.Hold) error {
				if err := pause(ctx, between(time.Second, 3*time.Second)); err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(ctx, lockTimeout)
				defer cancel()
				return mutex.New(s, to).Do(ctx, work(time.Second, 2*time.Second))
			})
		},
		leader: func(ctx context.Context, s *session.Session, name string) error {
			return election.New(s, "scheduler").Run(ctx, name+":8080", work(30*time.Second, 90*time.Second))
		},
	}
}

// pause waits. If ctx ends first, it returns why.
func pause(ctx context.Context, d time.Duration) error {
	if !driver.Sleep(ctx, driver.SystemClock(), d) {
		return context.Cause(ctx)
	}
	return nil
}

// between returns a random duration, at least from and less than to.
func between(from, to time.Duration) time.Duration { return from + rand.N(to-from) }
