package etcdbackend_test

import (
	"context"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// The package comment of fairlock takes its first code from here.

// Compiled and not run: it needs an etcd.
func Example_firstLock() {
	ctx := context.Background()
	settle := func(context.Context, session.Token) error { return nil }
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{"db-1:2379", "db-2:2379", "db-3:2379"},
		DialKeepAliveTime:    10 * time.Second, // notices dead connections
		DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	s, err := etcdbackend.Open(ctx, client, nil) // on your *clientv3.Client; once, for months
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	m := mutex.New(s, "orders/settle")
	err = m.Do(ctx, func(ctx context.Context, h *session.Hold) error {
		return settle(ctx, h.Token()) // ctx is cancelled if the lock is lost
	})
	fmt.Println(err)
}
