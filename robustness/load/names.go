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
	contendEvery = 8 // one name in so many has a second who waits for it
)

// Names locks and unlocks names for a time, and each of them only once: mutexes
// and read-write locks, one in eight with somebody of another session who waits.
// What is kept for a name must go with it.
//
// On the way it takes stock so many times; see Store.Tidy.
func Names(ctx context.Context, s Store, d time.Duration) (*Result, error) {
	return scenario(ctx, s, "names", 0, nameSessions, func(ctx context.Context, r *run) (err error) {
		if r.res.N, err = r.names(ctx, d); err != nil {
			return err
		}
		return r.back(ctx, momentRest, r.idle)
	})
}

// names uses names for a time, and says how many.
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

// samples takes stock now and then until it is over. Each moment is named after
// how many names there were.
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

// locker is what has a Lock.
type locker interface {
	Lock(ctx context.Context) (*session.Hold, error)
}

// lockerOf alternates between the recipes.
func lockerOf(s *session.Session, i int64) locker {
	name := fmt.Sprintf("name/%d", i)
	if i%2 == 0 {
		return rwlock.New(s, name)
	}
	return mutex.New(s, name)
}

// oneName uses a name.
func (r *run) oneName(ctx context.Context, worker int, i int64) error {
	first := lockerOf(r.sessions[worker%len(r.sessions)], i)
	h, err := first.Lock(ctx)
	if err != nil {
		return err
	}
	if i%contendEvery > 1 { // of both recipes
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
	err = until(ctx, "the other waits", func() (bool, error) {
		n, err := r.s.Line(ctx, fmt.Sprintf("name/%d", i))
		return n == 2, err
	})
	return errors.Join(err, r.unlock(h), waiting.Wait())
}
