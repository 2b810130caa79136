package zktest_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/zktest"
)

func ExampleStart() {
	ensemble, err := zktest.Start(context.Background(), &zktest.Options{Members: 3})
	if err != nil {
		log.Fatal(err)
	}
	defer ensemble.Close()
	conn, err := ensemble.NewClient(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	path, err := conn.Create("/key-", []byte("value"), zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		log.Fatal(err)
	}
	value, _, err := conn.Get(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s is %s\n", path, value)
	// Output: /key-0000000000 is value
}

// In a test: the servers and the client are closed when the test ends.
func ExampleNew() {
	t := new(testing.T) // that of the test

	ensemble := zktest.New(t, &zktest.Options{Proxied: true})
	conn := ensemble.Client(t)
	_, err := conn.Create("/key", nil, 0, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	ensemble.Member(0).ClientProxy().Hold(fault.Both) // cuts off clients that use Endpoints
}
