package load

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// Holds has one session hold n locks and release them all at once, two times: when all
// of them are watched, and while the watches are being created.
func Holds(ctx context.Context, s Service, n int) (*Result, error) {
	return scenario(ctx, s, "holds", n, 1, func(ctx context.Context, r *run) error { return r.holdTwice(ctx, n) })
}

func (r *run) holdTwice(ctx context.Context, n int) error {
	all := func(w int64) bool { return w == int64(n) }
	if err := r.holdAll(ctx, "when all are watched", n, all, true); err != nil {
		return err
	}
	if err := r.back(ctx, momentRest, r.idle); err != nil {
		return err
	}
	some := func(w int64) bool { return w > 0 }
	if err := r.holdAll(ctx, "while watches are made", n, some, false); err != nil {
		return err
	}
	return r.back(ctx, momentRest, r.idle)
}

// holdAll acquires n locks, and releases them when ready reports true for the number of
// their watches.
func (r *run) holdAll(ctx context.Context, name string, n int, ready func(int64) bool, peak bool) error {
	var holds []*session.Hold
	err := r.phase("take", func() (err error) {
		holds, err = r.hold(ctx, "held", n)
		return err
	})
	if err != nil {
		return err
	}
	err = r.phase("wait for watches", func() error {
		return r.watched(ctx, func(w int64) bool { return ready(w - r.idle.Watches) })
	})
	if err != nil {
		return err
	}
	if peak {
		if _, err := r.moment(ctx, momentPeak); err != nil {
			return err
		}
	}
	err = r.phase("give back "+name, func() error { return r.release(holds) })
	if err != nil {
		return err
	}
	if err := r.phase("until none is there", func() error { return r.emptied(ctx) }); err != nil {
		return err
	}
	for i, h := range holds {
		if h.Context().Err() == nil {
			return fmt.Errorf("hold %d of %d was released, but its context has not ended", i, n)
		}
	}
	return nil
}

// perQueue is how many sessions share a queue.
const perQueue = 50

// Sessions opens n sessions. Each holds a lock of its own, and waits in a queue that it
// shares with others. Each shared lock passes from holder to holder; at the end, the
// sessions release their own locks.
func Sessions(ctx context.Context, s Service, n int) (*Result, error) {
	return scenario(ctx, s, "sessions", n, n, func(ctx context.Context, r *run) error {
		var holds []*session.Hold
		err := r.phase("take", func() (err error) {
			holds, err = r.hold(ctx, "own", n)
			return err
		})
		if err != nil {
			return err
		}
		if err := r.share(ctx, n); err != nil {
			return err
		}
		if err := r.phase("give back", func() error { return r.release(holds) }); err != nil {
			return err
		}
		return r.back(ctx, momentRest, r.idle)
	})
}

// share has n sessions wait in shared queues, each behind a holder, until the lock has
// passed through the whole queue.
func (r *run) share(ctx context.Context, n int) error {
	var mine, others errgroup.Group
	queues := (n + perQueue - 1) / perQueue
	name := func(i int) string { return fmt.Sprintf("shared/%d", i%queues) }
	crowds := make([]crowd, queues)
	err := r.phase("join", func() error {
		for i := range queues {
			crowds[i].r = r
			mine.Go(func() (err error) {
				crowds[i].holder, err = mutex.New(r.sessions[i], name(i)).Lock(ctx)
				return err
			})
		}
		if err := mine.Wait(); err != nil {
			return err
		}
		for i := queues; i < n; i++ {
			others.Go(func() error { return crowds[i%queues].wait(ctx, r.sessions[i], name(i)) })
		}
		return until(ctx, "all have joined", func() (bool, error) {
			sum := 0
			for i := range queues {
				there, err := r.s.Entries(ctx, name(i))
				if err != nil {
					return false, err
				}
				sum += there
			}
			return sum == n, nil
		})
	})
	if err != nil {
		return err
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	if _, err := r.moment(ctx, momentPeak); err != nil {
		return err
	}
	err = r.phase("hand on", func() error {
		for i := range crowds {
			mine.Go(func() error { return r.unlock(crowds[i].holder) })
		}
		if err := mine.Wait(); err != nil {
			return err
		}
		return others.Wait()
	})
	if err != nil {
		return err
	}
	for i := range crowds {
		if err := crowds[i].inOrder((n - i - 1) / queues); err != nil {
			return err
		}
	}
	return nil
}
