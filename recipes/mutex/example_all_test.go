package mutex_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
)

// Two accounts at once: it does not matter in which order others name them.
func ExampleLockAll() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	from, to := mutex.New(s, "account/7"), mutex.New(s, "account/3")
	h, err := mutex.LockAll(ctx, from, to)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Names(), "with one token,", h.Token())
	fmt.Println(h.Unlock())
	// Output:
	// [account/7 account/3] with one token, 1
	// <nil>
}

// A robust mutex reports that the previous holder has died, so that what it was doing
// can be repaired first.
func ExampleNewWith_robust() {
	ctx := context.Background()
	store := membackend.New()
	robust := mutex.Options{Robust: true}
	crashes, err := store.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer crashes.Close()
	if _, err := mutex.NewWith(crashes, "ledger", robust).Lock(ctx); err != nil {
		log.Fatal(err)
	}
	store.Expire(store.Sessions()[0]) // there is no waiter at this moment

	s, err := store.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		h, err := mutex.NewWith(s, "ledger", robust).Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("repair first:", h.PreviousDied())
		if err := h.Unlock(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// repair first: true
	// repair first: false
}
