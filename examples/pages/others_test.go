package pages

import (
	"context"
	"database/sql"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
)

func Example_zkLockBefore() {
	before := func(ctx context.Context, servers []string) error {
		conn, _, err := zk.Connect(servers, 15*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		l := zk.NewLock(conn, "/locks/orders/settle", zk.WorldACL(zk.PermAll))
		if err := l.Lock(); err != nil {
			return err
		}
		defer l.Unlock()
		return settle(ctx)
	}
	_ = before
}

func Example_zkLockAfter() {
	after := func(ctx context.Context, servers []string) error {
		s, err := zkbackend.Open(ctx, servers, &zkbackend.Options{Root: "/locks"})
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

func Example_kazooAfter() {
	after := func(ctx context.Context, servers []string) (*session.Session, error) {
		return zkbackend.Open(ctx, servers, &zkbackend.Options{
			Root:   "/locks",
			Layout: zkbackend.LayoutKazoo, // the node names of Kazoo's Lock
		})
	}
	_ = after
}

//nolint:errcheck // as the code that it stands for
func Example_advisoryLockBefore() {
	before := func(ctx context.Context, db *sql.DB) error {
		conn, err := db.Conn(ctx) // the lock belongs to this connection
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock(hashtext($1))", "orders/settle"); err != nil {
			return err
		}
		defer conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(hashtext($1))", "orders/settle")
		return settle(ctx)
	}
	_ = before
}

func Example_lockAfter() {
	after := func(ctx context.Context, s *session.Session) error {
		return mutex.New(s, "orders/settle").Do(ctx, func(ctx context.Context, h *session.Hold) error {
			return settleWith(ctx, h.Token())
		})
	}
	_ = after
}

// While old and new processes run side by side, the new ones take both locks.
func Example_bothLocks() {
	both := func(ctx context.Context, m *mutex.Mutex, old func(ctx context.Context, work func(context.Context) error) error) error {
		return m.Do(ctx, func(ctx context.Context, h *session.Hold) error {
			return old(ctx, func(ctx context.Context) error { // the old lock, inside the new one
				return settleWith(ctx, h.Token())
			})
		})
	}
	_ = both
}
