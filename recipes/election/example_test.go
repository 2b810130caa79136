package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// The first choice: Run campaigns, leads, and campaigns again until its context
// ends.
func ExampleElection_Run() {
	ctx, cancel := context.WithCancel(context.Background())
	s, err := membackend.New().Open(ctx, nil) // or etcdbackend.Open(ctx, client, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	e := election.New(s, "scheduler")
	err = e.Run(ctx, "10.0.0.7:8080", func(ctx context.Context, h *session.Hold) error {
		// ctx ends when the leadership is lost; the resource checks the token.
		fmt.Println("leading with token", h.Token())
		cancel() // the program is to end
		<-ctx.Done()
		return nil // only now another leads
	})
	fmt.Println("ended:", errors.Is(err, context.Canceled))
	// Output:
	// leading with token 1
	// ended: true
}

// Campaign and Proclaim by hand: the value changes, the token stays.
func ExampleElection_Campaign() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, &session.Options{Label: "web-2"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	e := election.New(s, "scheduler")
	h, err := e.Campaign(ctx, "starting")
	if err != nil {
		log.Fatal(err)
	}
	if err := e.Proclaim(ctx, h, "10.0.0.7:8080"); err != nil {
		log.Fatal(err)
	}
	l, err := e.Leader(ctx)
	fmt.Println(l.Value, "of", l.Entry.Label, "with token", l.Token, err)

	fmt.Println("resigned:", h.Unlock())
	_, err = e.Leader(ctx)
	fmt.Println("no leader:", errors.Is(err, session.ErrNoLeader))
	// Output:
	// 10.0.0.7:8080 of web-2 with token 1 <nil>
	// resigned: <nil>
	// no leader: true
}

// Observe yields the leader and each change, until the loop ends.
func ExampleElection_Observe() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	e := election.New(s, "scheduler")
	var h *session.Hold
	for l, err := range e.Observe(ctx) {
		switch {
		case err != nil:
			log.Fatal(err)
		case l.Vacant() && h == nil:
			fmt.Println("no leader")
			h, err = e.Campaign(ctx, "10.0.0.7:8080")
		case l.Vacant():
			fmt.Println("no leader any more")
			return
		default:
			fmt.Println(l.Value, "leads")
			err = h.Unlock()
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// no leader
	// 10.0.0.7:8080 leads
	// no leader any more
}
