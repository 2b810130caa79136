package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// A Mutex is a name and a session: all that have both exclude each other.
func ExampleNew() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	a, b := mutex.New(s, "orders/settle"), mutex.New(s, "orders/settle")
	h, err := a.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = b.TryLock(ctx)
	fmt.Println(a.Name(), "is held:", errors.Is(err, session.ErrNotAcquired))
	fmt.Println("unlock:", h.Unlock())
	// Output:
	// orders/settle is held: true
	// unlock: <nil>
}

// TryDo skips the work if the lock is held.
func ExampleMutex_TryDo() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	m := mutex.New(s, "backup")
	err = m.TryDo(ctx, func(context.Context, *session.Hold) error {
		fmt.Println("this call works")
		err := m.TryDo(context.Background(), func(context.Context, *session.Hold) error { return nil })
		fmt.Println("another call skips it:", errors.Is(err, session.ErrNotAcquired))
		return nil
	})
	fmt.Println("done:", err)
	// Output:
	// this call works
	// another call skips it: true
	// done: <nil>
}

// TryLockAll acquires all locks, or none.
func ExampleTryLockAll() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	a, b := mutex.New(s, "account/a"), mutex.New(s, "account/b")
	held, err := b.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = mutex.TryLockAll(ctx, a, b)
	fmt.Println("one is held:", errors.Is(err, session.ErrNotAcquired))
	if err := held.Unlock(); err != nil {
		log.Fatal(err)
	}
	h, err := mutex.TryLockAll(ctx, a, b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("acquired", h.Names())
	fmt.Println("unlock:", h.Unlock())
	// Output:
	// one is held: true
	// acquired [account/a account/b]
	// unlock: <nil>
}
