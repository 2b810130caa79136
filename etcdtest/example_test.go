package etcdtest_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/fault"
)

func ExampleStart() {
	ctx := context.Background()
	cluster, err := etcdtest.Start(ctx, &etcdtest.Options{Members: 3})
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	client, err := cluster.NewClient(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	if _, err := client.Put(ctx, "key", "value"); err != nil {
		log.Fatal(err)
	}
	got, err := client.Get(ctx, "key")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(got.Kvs[0].Value))
	// Output: value
}

// In a test: the servers and the client are closed when the test ends.
func ExampleNew() {
	t := new(testing.T) // that of the test

	cluster := etcdtest.New(t, &etcdtest.Options{Proxied: true})
	client := cluster.Client(t)
	_, err := client.Put(t.Context(), "key", "value")
	if err != nil {
		t.Fatal(err)
	}
	cluster.Member(0).ClientProxy().Hold(fault.Both) // cuts off clients that use Endpoints
}
