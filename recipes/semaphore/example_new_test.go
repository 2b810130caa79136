package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// A Semaphore is a name, a session and a limit, which all its users give alike.
func ExampleNew() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	gpus := semaphore.New(s, "gpu", 8)
	h, err := gpus.Acquire(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(gpus.Name(), "is held:", h.Mode())
	fmt.Println("unlock:", h.Unlock())
	// Output:
	// gpu is held: weighted
	// unlock: <nil>
}

// With Follow, a later user accepts the limit that the service has.
func ExampleNewWith() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	first, err := semaphore.New(s, "gpu", 8).Acquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer first.Unlock()
	_, err = semaphore.New(s, "gpu", 4).TryAcquire(ctx, 1)
	fmt.Println("another limit:", errors.Is(err, session.ErrLimitMismatch))
	second, err := semaphore.NewWith(s, "gpu", 4, semaphore.Options{Follow: true}).TryAcquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("unlock:", second.Unlock())
	// Output:
	// another limit: true
	// unlock: <nil>
}

// TryDo skips the work if the permits do not fit.
func ExampleSemaphore_TryDo() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	gpus := semaphore.New(s, "gpu", 2)
	err = gpus.TryDo(ctx, 2, func(context.Context, *session.Hold) error {
		err := gpus.TryDo(context.Background(), 1, func(context.Context, *session.Hold) error { return nil })
		fmt.Println("no permit is left:", errors.Is(err, session.ErrNotAcquired))
		return nil
	})
	fmt.Println("done:", err)
	// Output:
	// no permit is left: true
	// done: <nil>
}

// Limit reads the limit that the service has.
func ExampleSemaphore_Limit() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	gpus := semaphore.New(s, "gpu", 2)
	if err := gpus.Resize(ctx, 12); err != nil {
		log.Fatal(err)
	}
	fmt.Println(gpus.Limit(ctx))
	// Output:
	// 12 <nil>
}
