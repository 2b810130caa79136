package concurrency_test

import (
	"context"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/compat/concurrency"
)

// Code that was written for etcd's package; only the import is another one.
func ExampleMutex() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://localhost:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	s, err := concurrency.NewSession(client, concurrency.WithTTL(15))
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	m := concurrency.NewMutex(s, "/orders/settle")
	if err := m.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := m.Unlock(ctx); err != nil {
			log.Print(err) // lost: another client may have worked at the same time
		}
	}()
	// New: the work stops when the lock is lost, and the resource checks the token.
	settle(m.Hold().Context(), int64(m.Hold().Token()))
}

func settle(context.Context, int64) {}

func ExampleElection() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://localhost:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	s, err := concurrency.NewSession(client)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	e := concurrency.NewElection(s, "/scheduler")
	if err := e.Campaign(ctx, "10.0.0.7:8080"); err != nil {
		log.Fatal(err)
	}
	settle(e.Hold().Context(), e.Rev())
	if err := e.Resign(ctx); err != nil {
		log.Fatal(err)
	}
}
