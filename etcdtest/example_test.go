package etcdtest_test

import (
	"context"
	"fmt"
	"log"

	"github.com/fairlock/fairlock/etcdtest"
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
