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

// An Election is a name and a session.
func ExampleNew() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	e := election.New(s, "scheduler")
	h, err := e.Campaign(ctx, "10.0.0.7:8080")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("leading", e.Name(), "with token", h.Token())
	fmt.Println("resigned:", h.Unlock())
	// Output:
	// leading scheduler with token 1
	// resigned: <nil>
}

// With Latch, candidates share a queue with Curator's LeaderLatch.
func ExampleNewWith() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	e := election.NewWith(s, "scheduler", election.Options{Latch: true})
	h, err := e.Campaign(ctx, "10.0.0.7:8080")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("resigned:", h.Unlock())
	// Output:
	// resigned: <nil>
}

// IsLeader answers without a request, for example in a health check.
func ExampleElection_IsLeader() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	e := election.New(s, "scheduler")
	fmt.Println("before:", e.IsLeader())
	h, err := e.Campaign(ctx, "10.0.0.7:8080")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("leading:", e.IsLeader())
	fmt.Println("resigned:", h.Unlock(), e.IsLeader())
	// Output:
	// before: false
	// leading: true
	// resigned: <nil> false
}

// Leader reads the current leader.
func ExampleElection_Leader() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	e := election.New(s, "scheduler")
	_, err = e.Leader(ctx)
	fmt.Println("no leader:", errors.Is(err, session.ErrNoLeader))
	h, err := e.Campaign(ctx, "10.0.0.7:8080")
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()
	leader, err := e.Leader(ctx)
	fmt.Println(leader.Value, leader.Token, err)
	// Output:
	// no leader: true
	// 10.0.0.7:8080 1 <nil>
}

// Proclaim changes the value; the leader and its token stay.
func ExampleElection_Proclaim() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	e := election.New(s, "scheduler")
	h, err := e.Campaign(ctx, "starting")
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()
	fmt.Println(e.Proclaim(ctx, h, "10.0.0.7:8080"))
	leader, err := e.Leader(ctx)
	fmt.Println(leader.Value, leader.Token, err)
	// Output:
	// <nil>
	// 10.0.0.7:8080 1 <nil>
}
