package membackend_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session"
)

// A unit test gets a session with one call.
func Example() {
	s, err := membackend.New().Open(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	entries, err := s.Queue(context.Background(), "orders/settle")
	fmt.Println(len(entries), "entries,", err)
	// Output: 0 entries, <nil>
}

// Two processes on one service, one of which loses its session.
func Example_lostSession() {
	ctx := context.Background()
	service := membackend.New()
	a, err := service.Open(ctx, &session.Options{
		Hooks: session.Hooks{SessionLost: func(e session.Event) { fmt.Println("lost", e.Session) }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := service.Open(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("sessions:", service.Sessions())

	service.Expire("m1") // the client learns that at its next renewal, in seconds
	fmt.Println("sessions:", service.Sessions())
	fmt.Println(a.Close(), b.Close())
	// Output:
	// sessions: [m1 m2]
	// sessions: [m2]
	// <nil> <nil>
}

// A Store is a service that any number of clients use, each with a network of its own
// that a test can cut.
func ExampleNew() {
	ctx := context.Background()
	service := membackend.New()
	client := service.NewClient()
	s, err := client.Open(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ready:", s.Health().Ready)

	client.Cut(fault.Both)
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = s.Queue(short, "orders/settle")
	fmt.Println("cut off:", errors.Is(err, context.DeadlineExceeded))

	client.Heal()
	fmt.Println(s.Close())
	// Output:
	// ready: true
	// cut off: true
	// <nil>
}
