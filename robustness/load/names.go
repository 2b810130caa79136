package load

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/session"
)

const (
	nameSessions = 4
	nameWorkers  = 16
	nameSamples  = 20
	contendEvery = 8 // of so many names, two have a second client that waits: one of each recipe
)

// Names locks and unlocks names for a time, each of them only once: mutexes and
// read-write locks, two of eight with a waiter of another session. Whatever is kept for
// a name must be freed with it.
//
// Meanwhile it measures the figures nameSamples times, each time after a Service.Tidy.
func Names(ctx context.Context, s Service, d time.Duration) (*Result, error) {
	return scenario(ctx, s, "names", 0, nameSessions, func(ctx context.Context, r *run) (err error) {
		r.res.N, err = r.names(ctx, d)
		if err != nil {
			return err
		}
		return r.back(ctx, momentRest, r.idle)
	})
}

// names locks names for a time, and returns how many.
func (r *run) names(ctx context.Context, d time.Duration) (int, error) {
	var used atomic.Int64
	err := r.phase("lock and unlock", func() error {
		g, ctx := errgroup.WithContext(ctx)
		over := time.Now().Add(d)
		for w := range nameWorkers {
			g.Go(func() error {
				for time.Now().Before(over) && ctx.Err() == nil {
					if err := r.oneName(ctx, w, used.Add(1)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		g.Go(func() error { return r.samples(ctx, over, d/nameSamples, &used) })
		return g.Wait()
	})
	if err != nil {
		return 0, err
	}
	return int(used.Load()), r.s.Tidy(ctx)
}

// samples measures the figures at intervals until over. The name of each moment has the
// number of names so far.
func (r *run) samples(ctx context.Context, over time.Time, every time.Duration, used *atomic.Int64) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for time.Now().Before(over) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := r.s.Tidy(ctx); err != nil {
			return err
		}
		if _, err := r.moment(ctx, fmt.Sprintf("after %d names", used.Load())); err != nil {
			return err
		}
	}
	return nil
}

// locker is a lock of any recipe.
type locker interface {
	Lock(ctx context.Context) (*session.Hold, error)
}

// lockerOf returns the lock of the name i, of alternating recipes.
func lockerOf(s *session.Session, i int64) locker {
	name := fmt.Sprintf("name/%d", i)
	if i%2 == 0 {
		return rwlock.New(s, name)
	}
	return mutex.New(s, name)
}

// oneName locks and unlocks the name i, with or without a waiter.
func (r *run) oneName(ctx context.Context, worker int, i int64) error {
	first := lockerOf(r.sessions[worker%len(r.sessions)], i)
	h, err := first.Lock(ctx)
	if err != nil {
		return err
	}
	if i%contendEvery > 1 { // 0 and 1 are names of different recipes
		return r.unlock(h)
	}
	second := lockerOf(r.sessions[(worker+1)%len(r.sessions)], i)
	var waiting errgroup.Group
	waiting.Go(func() error {
		h, err := second.Lock(ctx)
		if err != nil {
			return err
		}
		return r.unlock(h)
	})
	err = until(ctx, "the second client waits", func() (bool, error) {
		n, err := r.s.Entries(ctx, fmt.Sprintf("name/%d", i))
		return n == 2, err
	})
	return errors.Join(err, r.unlock(h), waiting.Wait())
}
