package faircron_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	faircron "github.com/fairlock/fairlock/adapters/cron"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// replica starts the cron of one replica. In production each is a process.
func replica(ctx context.Context, s *session.Session, report func(ctx context.Context, h *session.Hold, tick time.Time) error) (*cron.Cron, error) {
	logger := cron.PrintfLogger(log.New(os.Stderr, "cron: ", log.LstdFlags))
	c := cron.New(cron.WithLogger(logger))
	everySecond, err := cron.ParseStandard("@every 1s")
	if err != nil {
		return nil, err
	}
	c.Schedule(faircron.OncePerTick(ctx, everySecond, mutex.New(s, "cron/report"), logger, report))
	c.Start()
	return c, nil
}

// Three replicas have the same job, which is due once a second. Each tick runs on one of them.
func ExampleOncePerTick() {
	ctx, cancel := context.WithCancel(context.Background()) // signal.NotifyContext in a program
	defer cancel()
	store := membackend.New()
	var mu sync.Mutex
	runs := map[time.Time]int{}
	ticks := make(chan time.Time, 10)
	var replicas []*cron.Cron
	for range 3 {
		s, err := store.Open(ctx, nil)
		if err != nil {
			log.Fatal(err)
		}
		defer s.Close()
		r, err := replica(ctx, s, func(_ context.Context, h *session.Hold, tick time.Time) error {
			mu.Lock()
			defer mu.Unlock()
			runs[tick]++
			ticks <- tick
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
		replicas = append(replicas, r)
	}
	first := <-ticks
	second := <-ticks
	cancel() // ends the contexts of jobs
	for _, r := range replicas {
		<-r.Stop().Done()
	}
	mu.Lock()
	defer mu.Unlock()
	fmt.Println("runs of two ticks:", runs[first], runs[second])
	fmt.Println("between them:", second.Sub(first))
	// Output:
	// runs of two ticks: 1 1
	// between them: 1s
}

// Only the leader runs jobs. The context of this job ends when the leadership is lost.
func ExampleElector() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	elector := faircron.NewElector(election.New(s, "cron"), "10.0.0.7:8080", cron.DefaultLogger)
	defer elector.Close() // after Stop, and before the session is closed
	c := cron.New(cron.WithChain(cron.Recover(cron.DefaultLogger), elector.OnlyLeader(ctx)))
	ran := make(chan session.Token, 10)
	_, err = c.AddJob("@every 1s", faircron.FuncJob(func(ctx context.Context, h *session.Hold) error {
		ran <- h.Token()
		return ctx.Err()
	}))
	if err != nil {
		log.Fatal(err)
	}
	c.Start()
	fmt.Println("ran with a token:", <-ran > 0)
	<-c.Stop().Done()
	// Output: ran with a token: true
}

// A replica skips a run while another one has the lock of the job.
func ExampleSkipIfHeld() {
	ctx := context.Background()
	s, err := membackend.New().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	c := cron.New()
	skip := faircron.SkipIfHeld(ctx, mutex.New(s, "cron/report"), cron.DefaultLogger)
	ran := make(chan bool, 10)
	_, err = c.AddJob("@every 1s", cron.NewChain(skip).Then(cron.FuncJob(func() { ran <- true })))
	if err != nil {
		log.Fatal(err)
	}
	c.Start()
	fmt.Println("ran:", <-ran)
	<-c.Stop().Done()
	// Output: ran: true
}
