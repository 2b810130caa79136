package fairgocron_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	fairgocron "github.com/fairlock/fairlock/adapters/gocron"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// replica starts the scheduler of one replica. In production each is a process.
func replica(s *session.Session, report func(ctx context.Context, h *session.Hold, tick time.Time) error) (gocron.Scheduler, error) {
	scheduler, err := gocron.NewScheduler()
	if err != nil {
		return nil, err
	}
	once := fairgocron.NewOnce(mutex.New(s, "gocron/report"), report)
	_, err = scheduler.NewJob(
		gocron.CronJob("* * * * * *", true), once.Task(), once.Schedule(),
		gocron.WithName("report"),
		gocron.WithEventListeners(gocron.AfterJobRunsWithError(
			func(_ uuid.UUID, name string, err error) { log.Print(name, ": ", err) }, // the next replica does it
		)),
	)
	if err != nil {
		return nil, err
	}
	scheduler.Start()
	return scheduler, nil
}

// Three replicas have the same job, which is due once a second. Each tick runs on one of them.
func ExampleOnce() {
	store := membackend.New()
	var mu sync.Mutex
	runs := map[time.Time]int{}
	ticks := make(chan time.Time, 10)
	var replicas []gocron.Scheduler
	for range 3 {
		s, err := store.Open(context.Background(), nil)
		if err != nil {
			log.Fatal(err)
		}
		defer s.Close()
		r, err := replica(s, func(_ context.Context, h *session.Hold, tick time.Time) error {
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
	for _, r := range replicas {
		if err := r.Shutdown(); err != nil {
			log.Fatal(err)
		}
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
	s, err := membackend.New().Open(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	elector := fairgocron.NewElector(election.New(s, "gocron"), "10.0.0.7:8080", nil)
	defer elector.Close() // after Shutdown, and before the session is closed
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan session.Token, 10)
	_, err = scheduler.NewJob(
		gocron.DurationJob(time.Second),
		elector.Task(func(ctx context.Context, h *session.Hold) error {
			ran <- h.Token()
			return ctx.Err()
		}),
		gocron.WithName("report"),
	)
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	fmt.Println("ran with a token:", <-ran > 0)
	if err := scheduler.Shutdown(); err != nil {
		log.Fatal(err)
	}
	// Output: ran with a token: true
}

// A replica skips a run while another one has the lock of the job, or has had it in the last
// five seconds.
func ExampleLocker() {
	s, err := membackend.New().Open(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	locker := fairgocron.NewLocker(func(job string) *mutex.Mutex {
		return mutex.NewWith(s, "gocron/"+job, mutex.Options{MinHold: 5 * time.Second})
	})
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan session.Token, 10)
	_, err = scheduler.NewJob(
		gocron.DurationJob(time.Minute),
		locker.Task("report", func(ctx context.Context, h *session.Hold) error {
			ran <- h.Token()
			return ctx.Err() // ctx ends when the lock is lost
		}),
		gocron.WithName("report"), gocron.WithStartAt(gocron.WithStartImmediately()),
	)
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	fmt.Println("ran with a token:", <-ran > 0)
	if err := scheduler.Shutdown(); err != nil {
		log.Fatal(err)
	}
	// Output: ran with a token: true
}
