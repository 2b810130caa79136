package redisbackend_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/session"
)

// These examples need a Redis, so they are compiled and not run.
func ExampleDial() {
	ctx := context.Background()
	s, err := redisbackend.Dial(ctx, "redis://localhost", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	err = mutex.New(s, "orders/settle").Do(ctx, func(ctx context.Context, h *session.Hold) error {
		fmt.Println("token", h.Token())
		return ctx.Err()
	})
	fmt.Println("done:", err)
}

// A master with two replicas behind Sentinel: a renewal counts when one of them has it.
func ExampleOpen() {
	ctx := context.Background()
	client := rueidis.ClientOption{
		InitAddress: []string{"s-1:26379", "s-2:26379", "s-3:26379"},
		Sentinel:    rueidis.SentinelOption{MasterSet: "locks"},
	}
	s, err := redisbackend.Open(ctx, client, &redisbackend.Options{Nodes: 3})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
}

// Once, before the first program starts: without it the first lock waits for the greatest TTL.
func ExampleInit() {
	ctx := context.Background()
	client := rueidis.ClientOption{InitAddress: []string{"localhost:6379"}}
	err := redisbackend.Init(ctx, client, &redisbackend.Options{Root: "locks"})
	if err != nil {
		log.Fatal(err)
	}
}
