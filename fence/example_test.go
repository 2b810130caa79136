package fence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// A holder that has lost the lock without knowing it comes too late.
func ExampleGate() {
	ctx := context.Background()
	store := membackend.New()
	s, err := store.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	m := mutex.New(s, "account")
	var gate fence.Gate // at the resource
	balance := 100

	old, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	store.Expire(store.Sessions()[0]) // while the holder is stopped
	next, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Unlock()

	read := func(fence.Marks) error { fmt.Println("balance", balance); return nil }
	write := func(fence.Marks) error { balance -= 30; return nil }
	fmt.Println(gate.Do(next.Token(), session.Exclusive, read)) // the first touch is a read
	err = gate.Do(old.Token(), session.Exclusive, write)
	fmt.Println("late write is stale:", errors.Is(err, fence.ErrStale))
	// Output:
	// balance 100
	// <nil>
	// late write is stale: true
}

// A resource that several holds use at once is fenced in parts: a gate for each
// slot.
func ExampleGate_slots() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	var gpus [2]fence.Gate
	pool := semaphore.NewWith(s, "gpu", int64(len(gpus)), semaphore.Options{Slots: true})

	for range gpus {
		h, err := pool.Acquire(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		defer h.Unlock()
		fmt.Println("gpu", h.Slot(), gpus[h.Slot()].Admit(h.Token(), session.Exclusive))
	}
	// Output:
	// gpu 0 <nil>
	// gpu 1 <nil>
}
