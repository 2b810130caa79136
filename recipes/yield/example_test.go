package yield_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
)

// A holder that works for long subscribes to yield requests, and releases the lock at a
// good moment.
func ExampleNext() {
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

	withdraw, err := yield.Send(ctx, operator, "backup", "a restore is needed")
	if err != nil {
		log.Fatal(err)
	}

	err = mutex.New(worker, "backup").Do(ctx, func(ctx context.Context, h *session.Hold) error {
		request, err := yield.Next(ctx, h) // in a goroutine of its own, while the work goes on
		if err != nil {
			return err // the lock is lost, or ctx has ended
		}
		fmt.Printf("%s asks for %s: %q\n", request.Label, request.Name, request.Reason)
		return nil // the part that was begun is finished
	})
	fmt.Println("released:", err)
	fmt.Println("withdrawn:", withdraw())
	// Output:
	// operator asks for backup: "a restore is needed"
	// released: <nil>
	// withdrawn: <nil>
}

// Send requests that the holder yields, until it is withdrawn.
func ExampleSend() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	withdraw, err := yield.Send(ctx, s, "backup", "a restore is needed")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("withdrawn:", withdraw())
	// Output:
	// withdrawn: <nil>
}

// List lists the yield requests for a lock.
func ExampleList() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	withdraw, err := yield.Send(ctx, s, "backup", "a restore is needed")
	if err != nil {
		log.Fatal(err)
	}
	requests, err := yield.List(ctx, s, "backup")
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range requests {
		fmt.Println(a.Name, a.Reason)
	}
	fmt.Println("withdrawn:", withdraw())
	// Output:
	// backup a restore is needed
	// withdrawn: <nil>
}
