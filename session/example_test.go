package session_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// Hooks report what happens: here, to one lock.
func ExampleHooks() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, &session.Options{Hooks: session.Hooks{
		Joined:   func(_ context.Context, e session.Event) { fmt.Println(e.Name, "joined,", e.Ahead, "ahead") },
		Ended:    func(_ context.Context, e session.Event) { fmt.Println(e.Name, e.Outcome) },
		Released: func(_ context.Context, e session.Event) { fmt.Println(e.Name, "released:", e.Err) },
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	if err := mutex.New(s, "backup").Do(ctx, func(context.Context, *session.Hold) error { return nil }); err != nil {
		log.Fatal(err)
	}
	// Output:
	// backup joined, 0 ahead
	// backup granted
	// backup released: <nil>
}

// Names returns what is locked, and Queue the entries in their order.
func ExampleSession_Names() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"jobs/b", "jobs/a", "other"} {
		h, err := mutex.New(s, name).Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer h.Unlock()
	}

	names, err := s.Names(ctx, "jobs/")
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range names {
		entries, err := s.Queue(ctx, name)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(name, len(entries))
	}
	// Output:
	// jobs/a 1
	// jobs/b 1
}

// An operator removes the entry of a holder that does not come to an end.
func ExampleSession_Evict() {
	ctx := context.Background()
	service := membackend.New()
	stuck, err := service.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer stuck.Close()
	h, err := mutex.New(stuck, "backup").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	operator, err := service.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close()

	entries, err := operator.Queue(ctx, "backup")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("evicted:", operator.Evict(ctx, entries[0]))
	fmt.Println("again, it is gone:", errors.Is(operator.Evict(ctx, entries[0]), session.ErrGone))
	fmt.Println("the holder lost it:", errors.Is(h.Unlock(), session.ErrLost))
	// Output:
	// evicted: <nil>
	// again, it is gone: true
	// the holder lost it: true
}
