package fairleaderelection_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	fairleaderelection "github.com/fairlock/fairlock/adapters/leaderelection"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// The callbacks are those of client-go. The context of the leader ends when the leadership is lost.
func ExampleRun() {
	s, err := membackend.New().Open(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	ctx, terminate := context.WithCancel(context.Background()) // in production, by signal.NotifyContext
	var health fairleaderelection.HealthzAdaptor

	err = fairleaderelection.Run(ctx, election.New(s, "controller"), fairleaderelection.Config{
		Identity:        "10.0.0.7:8080",
		ReleaseOnCancel: true,
		WatchDog:        &health, // its Check is for /healthz
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				token, ok := session.TokenFrom(ctx)
				fmt.Println("leads with a token:", ok && token > 0)
				terminate()
				<-ctx.Done()
			},
			OnStoppedLeading: func() { fmt.Println("stopped leading") },
			OnNewLeader:      func(identity string) {},
		},
	})
	fmt.Println("error:", err)
	// Output:
	// leads with a token: true
	// stopped leading
	// error: <nil>
}

// A host that brings client-go's elector with it uses a Lock as the record.
func ExampleLock() {
	s, err := membackend.New().Open(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	ctx, terminate := context.WithCancel(context.Background())

	lock := fairleaderelection.NewLock(election.New(s, "controller"), "10.0.0.7:8080")
	worked := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				defer close(worked)
				fmt.Println("leads")
				terminate()
				<-ctx.Done()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	elector.Run(lock.Context(ctx))
	if elector.IsLeader() { // it has led, and Run does not wait for the work
		<-worked
	}
	fmt.Println("error:", lock.Close())
	// Output:
	// leads
	// error: <nil>
}
