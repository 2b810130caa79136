// Cron shows three replicas of a program that each have the same periodic job, on
// clocks that differ. Whichever replica comes first runs the job of a tick, and the
// others skip it. If a run fails, the next replica runs it.
//
//	go run ./examples/cron
//
// The replicas are goroutines on a service in memory. In production each is a process
// that opens its session with etcdbackend.Dial or zkbackend.Open.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// skews are how far the clocks of the replicas are from the right time.
var skews = [...]time.Duration{-250 * time.Millisecond, 0, 300 * time.Millisecond}

func main() {
	ticks := flag.Int("ticks", 5, "how many times the job is due, once a second")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *ticks, &report{out: os.Stdout}); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// run returns when every replica has seen all ticks, or when ctx ends.
func run(ctx context.Context, ticks int, job *report) error {
	store := membackend.New()
	first := time.Now().Truncate(time.Second).Add(time.Second)
	var errs [len(skews)]error
	var all sync.WaitGroup
	for id, skew := range skews {
		all.Go(func() {
			s, err := store.Open(ctx, nil)
			if err != nil {
				errs[id] = err
				return
			}
			errs[id] = errors.Join(replica(ctx, s, first, ticks, skew, func(ctx context.Context, token session.Token, tick time.Time) error {
				return job.write(ctx, id, token, tick)
			}), s.Close())
		})
	}
	all.Wait()
	return errors.Join(errs[:]...)
}

// replica runs the job at each tick by its own clock, unless another replica has.
func replica(
	ctx context.Context, s *session.Session, tick time.Time, ticks int, skew time.Duration,
	job func(ctx context.Context, token session.Token, tick time.Time) error,
) error {
	m := mutex.New(s, "cron/report")
	for range ticks {
		select {
		case <-time.After(time.Until(tick.Add(-skew))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		err := m.Once(ctx, tick.Format(time.RFC3339), func(ctx context.Context, h *session.Hold) error {
			return job(ctx, h.Token(), tick)
		})
		if err != nil {
			log.Printf("tick %s: %v", tick.Format(time.TimeOnly), err) // another replica may run it
		}
		tick = tick.Add(time.Second)
	}
	return nil
}

// report is the job. It takes some milliseconds.
type report struct {
	mu  sync.Mutex
	out io.Writer
}

func (r *report) write(ctx context.Context, id int, token session.Token, tick time.Time) error {
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
		return context.Cause(ctx) // the lock is lost: another replica may be at work
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := fmt.Fprintf(r.out, "%s: replica %d, token %d\n", tick.UTC().Format(time.TimeOnly), id, token)
	return err
}
