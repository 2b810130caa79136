package session_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// Hooks tell what happens; here, the way of one lock.
func ExampleHooks() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, &session.Options{Hooks: session.Hooks{
		Joined:   func(e session.Event) { fmt.Println(e.Name, "joined,", e.Ahead, "ahead") },
		Granted:  func(e session.Event) { fmt.Println(e.Name, "granted") },
		Released: func(e session.Event) { fmt.Println(e.Name, "released:", e.Err) },
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

// Names shows what is locked, and Queue who stands where.
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
		line, err := s.Queue(ctx, name)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(name, len(line))
	}
	// Output:
	// jobs/a 1
	// jobs/b 1
}
