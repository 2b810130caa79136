package etcdbackend_test

import (
	"context"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// On a client that the program has anyway. These examples need an etcd, so they
// are compiled and not run; examples/settle is one that is run.
func ExampleOpen() {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{"etcd-1:2379", "etcd-2:2379", "etcd-3:2379"},
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	s, err := etcdbackend.Open(ctx, client, &etcdbackend.Options{
		Session: session.Options{TTL: 10 * time.Second, Label: "settlement"},
		Root:    "prod/locks",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	err = mutex.New(s, "orders/settle").Do(ctx, func(ctx context.Context, h *session.Hold) error {
		fmt.Println("token", h.Token())
		return ctx.Err()
	})
	if err != nil {
		log.Fatal(err)
	}
}

// With a client of its own, TLS and a login.
func ExampleDial() {
	ctx := context.Background()
	s, err := etcdbackend.Dial(ctx, etcdbackend.DialConfig{
		Endpoints: []string{"https://etcd-1:2379", "https://etcd-2:2379", "https://etcd-3:2379"},
		CAFile:    "/etc/etcd/ca.pem",
		Username:  "locks",
		Password:  "from a secret store",
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
}

// A queue shared with concurrency.Mutex, "etcdctl lock" and v3lock.
func ExampleOptions_layout() {
	ctx := context.Background()
	s, err := etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: []string{"127.0.0.1:2379"}},
		&etcdbackend.Options{Layout: etcdbackend.LayoutConcurrency})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	h, err := mutex.New(s, "deploy").Lock(ctx) // waits behind: etcdctl lock deploy
	if err != nil {
		log.Fatal(err)
	}
	defer h.Unlock()
}

// A write to the same etcd that happens only if the lock is still held then.
func ExampleGuard() {
	settle := func(ctx context.Context, client *clientv3.Client, h *session.Hold) error {
		resp, err := client.Txn(ctx).
			If(etcdbackend.Guard(h)...).
			Then(clientv3.OpPut("orders/last", "4711")).
			Commit()
		switch {
		case err != nil:
			return err // the outcome is unknown
		case !resp.Succeeded:
			return session.ErrLost // and nothing was written
		}
		return nil
	}
	_ = settle // given to mutex.Do with a client
}

// What does not need etcd can be tested without: any *session.Session will do.
func ExampleOpen_inTests() {
	s, err := membackend.New().Open(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	err = mutex.New(s, "orders/settle").Do(context.Background(), func(_ context.Context, h *session.Hold) error {
		fmt.Println("token", h.Token())
		return nil
	})
	fmt.Println(err)
	// Output:
	// token 1
	// <nil>
}
