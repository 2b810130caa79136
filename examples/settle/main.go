// Settle is a complete program that works under a lock. Several processes of it
// may run, and one at a time settles orders. It also shows how to handle a lost
// lock.
//
//	go run ./examples/settle -endpoints 127.0.0.1:2379
//
// Without endpoints it starts an etcd of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

func main() {
	endpoints := flag.String("endpoints", "", "etcd endpoints, comma separated; none starts one")
	orders := flag.Int("orders", 3, "how many orders to settle")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *endpoints, *orders); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, endpoints string, orders int) error {
	if endpoints == "" {
		c, err := etcdtest.Start(ctx, nil)
		if err != nil {
			return err
		}
		defer c.Close()
		endpoints = strings.Join(c.Endpoints(), ",")
	}
	s, err := etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: strings.Split(endpoints, ",")}, &etcdbackend.Options{
		Session: session.Options{Label: "settle example"},
	})
	if err != nil {
		return err
	}
	defer s.Close()

	accounts := &ledger{}
	m := mutex.New(s, "orders/settle")
	for i := range orders {
		err := m.Do(ctx, func(ctx context.Context, h *session.Hold) error { return settle(ctx, h, accounts, i) })
		switch {
		case errors.Is(err, session.ErrLost):
			// Another holder may settle the order already. Nothing is retried
			// here: the present holder settles the order, and the ledger
			// refuses our late writes.
			log.Printf("order %d: %v", i, err)
		case err != nil:
			return err
		}
	}
	return nil
}

// settle does the work of one order. It stops when ctx ends.
func settle(ctx context.Context, h *session.Hold, accounts *ledger, order int) error {
	// The first access, a read, carries the token too: from here on the ledger
	// refuses all earlier holders.
	if err := accounts.touch(h.Token()); err != nil {
		return err
	}
	select {
	case <-time.After(50 * time.Millisecond): // the work
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if h.Remaining() == 0 { // the last check of the clock before the write, which cannot be undone
		return session.ErrLost
	}
	if err := accounts.write(h.Token(), order); err != nil {
		return err
	}
	fmt.Printf("order %d settled with token %d\n", order, h.Token())
	return nil
}

// ledger stands for the resource that the lock protects. In a real program it
// is another process. It stores the highest token that it has seen.
type ledger struct {
	highest session.Token
	settled []int
}

func (l *ledger) touch(t session.Token) error {
	if t < l.highest {
		return fmt.Errorf("token %d refused: %d was seen", t, l.highest)
	}
	l.highest = t
	return nil
}

func (l *ledger) write(t session.Token, order int) error {
	if err := l.touch(t); err != nil {
		return err
	}
	l.settled = append(l.settled, order)
	return nil
}
