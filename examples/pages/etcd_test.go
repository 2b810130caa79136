// Package pages has the code that the pages in docs show. Compiled and not run: it
// needs servers.
package pages

import (
	"context"
	"errors"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

func settle(context.Context) error { return nil }

func settleWith(context.Context, session.Token) error { return nil }

func schedule(context.Context) error { return nil }

func scheduleWith(context.Context, session.Token) error { return nil }

func Example_etcdMutexBefore() {
	before := func(ctx context.Context, client *clientv3.Client) error {
		s, err := concurrency.NewSession(client, concurrency.WithTTL(15))
		if err != nil {
			return err
		}
		defer s.Close()
		m := concurrency.NewMutex(s, "orders/settle")
		if err := m.Lock(ctx); err != nil {
			return err
		}
		defer m.Unlock(context.WithoutCancel(ctx))
		return settle(ctx)
	}
	_ = before
}

func Example_etcdMutexAfter() {
	after := func(ctx context.Context, client *clientv3.Client) error {
		s, err := etcdbackend.Open(ctx, client, &etcdbackend.Options{
			Layout: etcdbackend.LayoutConcurrency, // the keys of concurrency.Mutex
		})
		if err != nil {
			return err
		}
		defer s.Close() // in a real program: once, at its end
		return mutex.New(s, "orders/settle").Do(ctx, func(ctx context.Context, h *session.Hold) error {
			return settleWith(ctx, h.Token())
		})
	}
	_ = after
}

//nolint:errcheck // as the code that it stands for
func Example_etcdElectionBefore() {
	before := func(ctx context.Context, s *concurrency.Session) error {
		e := concurrency.NewElection(s, "scheduler")
		if err := e.Campaign(ctx, "10.0.0.7:8080"); err != nil {
			return err
		}
		defer e.Resign(context.WithoutCancel(ctx))
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-s.Done():
				cancel()
			case <-ctx.Done():
			}
		}()
		return schedule(ctx)
	}
	_ = before
}

func Example_etcdElectionAfter() {
	after := func(ctx context.Context, s *session.Session) error {
		e := election.New(s, "scheduler")
		return e.Run(ctx, "10.0.0.7:8080", func(ctx context.Context, h *session.Hold) error {
			return scheduleWith(ctx, h.Token())
		})
	}
	_ = after
}

// A guarded write to the same etcd: it happens only while the lock is held.
func Example_guard() {
	put := func(ctx context.Context, client *clientv3.Client, h *session.Hold, key, value string) error {
		resp, err := client.Txn(ctx).If(etcdbackend.Guard(h)...).Then(clientv3.OpPut(key, value)).Commit()
		if err == nil && !resp.Succeeded {
			err = session.ErrLost
		}
		return err
	}
	_ = put
}

// The errors that a caller branches on.
func Example_errors() {
	work := func(ctx context.Context, m *mutex.Mutex) error {
		err := m.Do(ctx, func(ctx context.Context, h *session.Hold) error {
			return settleWith(ctx, h.Token())
		})
		switch {
		case errors.Is(err, session.ErrLost):
			log.Print(err) // another holder may have worked at the same time
		case errors.Is(err, session.ErrNotAcquired):
			log.Print(err) // ctx ended while the request waited; the error names the holder
		case err != nil:
			return err // of settleWith, or of a service that refuses or cannot be reached
		}
		return nil
	}
	_ = work
}
