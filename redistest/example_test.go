package redistest_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/redis/rueidis"

	"github.com/fairlock/fairlock/redistest"
)

func ExampleStart() {
	ctx := context.Background()
	server, err := redistest.Start(ctx, &redistest.Options{Config: []string{"maxmemory 3mb"}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	memory, err := server.Info(ctx, "memory")
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(memory["maxmemory_human"])
	// Output: 3.00M
}

// In a test: the server and the client are closed when the test ends.
func ExampleNew() {
	t := new(testing.T) // that of the test

	server := redistest.New(t, &redistest.Options{Persistence: redistest.Log})
	client := server.Client(t)
	if err := client.Do(t.Context(), client.B().Set().Key("job").Value("1").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	server.Kill() // as a crash of the machine
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A failover that loses what the replica had not received.
func ExampleServer_Replica() {
	ctx := context.Background()
	server, err := redistest.Start(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close() // and of the replica
	replica, err := server.Replica(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := replica.CutOff(); err != nil {
		log.Fatal(err)
	}
	if err := server.Do(ctx, "SET", "job", "1").Error(); err != nil {
		log.Fatal(err)
	}

	server.Kill()
	if err := replica.Promote(ctx); err != nil {
		log.Fatal(err)
	}

	err = replica.Do(ctx, "GET", "job").Error()
	fmt.Println(rueidis.IsRedisNil(err))
	// Output: true
}

func ExampleStartSentinels() {
	ctx := context.Background()
	sentinels, err := redistest.StartSentinels(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sentinels.Close()
	master, err := sentinels.Master(ctx)
	if err != nil {
		log.Fatal(err)
	}

	master.Kill()
	next, err := sentinels.AwaitFailover(ctx, master)
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(next == master)
	// Output: false
}

// In a test: all are closed when the test ends.
func ExampleNewSentinels() {
	t := new(testing.T) // that of the test

	sentinels := redistest.NewSentinels(t, &redistest.SentinelOptions{Replicas: 1})
	if _, err := sentinels.Failover(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func ExampleStartCluster() {
	ctx := context.Background()
	cluster, err := redistest.StartCluster(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	nodes := cluster.Nodes()
	if err := cluster.Move(ctx, "{job}:1", nodes[0]); err != nil {
		log.Fatal(err)
	}

	owner, err := cluster.Owner(ctx, "{job}:2")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(owner == nodes[0])
	// Output: true
}

// In a test: the cluster is closed when the test ends.
func ExampleNewCluster() {
	t := new(testing.T) // that of the test

	cluster := redistest.NewCluster(t, &redistest.ClusterOptions{Replicas: 1})
	cluster.Nodes()[0].Kill() // its replica takes over
}
