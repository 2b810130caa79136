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

// Hooks tell what happens; here, the way of one lock.
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

// A holder that works for long listens, and gives back at a good moment when it is
// asked to.
func ExampleHold_Asked() {
	ctx := context.Background()
	service := membackend.New()
	worker, err := service.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()
	operator, err := service.Open(ctx, &session.Options{Label: "operator"})
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close()

	withdraw, err := operator.Ask(ctx, "backup", "a restore is needed")
	if err != nil {
		log.Fatal(err)
	}

	err = mutex.New(worker, "backup").Do(ctx, func(ctx context.Context, h *session.Hold) error {
		ask, err := h.Asked(ctx) // in a goroutine of its own, beside the work
		if err != nil {
			return err // the lock is lost, or ctx has ended
		}
		fmt.Printf("%s asks for %s: %q\n", ask.Label, ask.Name, ask.Reason)
		return nil // the part that was begun is finished
	})
	fmt.Println("given back:", err)
	fmt.Println("withdrawn:", withdraw())
	// Output:
	// operator asks for backup: "a restore is needed"
	// given back: <nil>
	// withdrawn: <nil>
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

	line, err := operator.Queue(ctx, "backup")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("evicted:", operator.Evict(ctx, line[0]))
	fmt.Println("again, it is gone:", errors.Is(operator.Evict(ctx, line[0]), session.ErrGone))
	fmt.Println("the holder lost it:", errors.Is(h.Unlock(), session.ErrLost))
	// Output:
	// evicted: <nil>
	// again, it is gone: true
	// the holder lost it: true
}
