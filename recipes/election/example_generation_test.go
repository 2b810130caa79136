package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// A process of roll-out 8 takes over from one of roll-out 7, when it has been the next candidate for
// long enough.
func ExampleOptions() {
	ctx := context.Background()
	service := membackend.New()
	candidate := func(rollOut int64) *election.Election {
		s, err := service.Open(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		settle := 10 * time.Millisecond
		warmUp := func(context.Context) { fmt.Println("next:", rollOut) }

		e := election.NewWith(s, "scheduler", election.Options{
			Generation: rollOut, // equal for all its replicas, and higher for the next roll-out
			Settle:     settle,  // 0: ten seconds or more
			Next:       warmUp,  // this process leads next; ctx ends when it leads, or is no longer next
		})
		return e
	}

	leads := make(chan struct{})
	ended, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() {
		done <- candidate(7).Run(ended, "old", func(ctx context.Context, _ *session.Hold) error {
			close(leads)
			<-ctx.Done()
			fmt.Println("handed over:", errors.Is(context.Cause(ctx), election.ErrHandOver))
			stop() // else Run would campaign again
			return nil
		})
	}()
	<-leads
	h, err := candidate(8).Campaign(ctx, "new")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("token:", h.Token())
	fmt.Println(<-done)
	fmt.Println("resigned:", h.Unlock())
	// Output:
	// next: 8
	// handed over: true
	// token: 2
	// election: run for "scheduler": context canceled
	// resigned: <nil>
}
