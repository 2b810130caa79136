package drive

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/bench/stand"
)

// cycles locks and unlocks n times, and holds for a while each time. It returns how long each cycle
// and its unlock took, without the hold.
func cycles(ctx context.Context, c stand.Contender, name string, n int, hold time.Duration) (took, unlocks []time.Duration, err error) {
	took, unlocks = make([]time.Duration, n), make([]time.Duration, n)
	for i := range n {
		start := time.Now()
		unlock, err := c.Lock(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		took[i] = time.Since(start)
		if err := stand.Sleep(ctx, hold); err != nil {
			return nil, nil, errors.Join(err, unlock())
		}
		locked := time.Now()
		if err := unlock(); err != nil {
			return nil, nil, err
		}
		unlocks[i] = time.Since(locked)
		took[i] += unlocks[i]
	}
	return took, unlocks, nil
}

// repeat has all contenders lock and unlock, n times together.
func repeat(ctx context.Context, t *stand.Team, name string, n int) error {
	var taken atomic.Int64
	g, now := errgroup.WithContext(ctx)
	for _, contender := range t.Contenders {
		g.Go(func() error {
			for taken.Add(1) <= int64(n) {
				if _, _, err := cycles(now, contender, name, 1, 0); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// churn lets all contenders lock and unlock for d, each with a hold of so long. Contenders that wait at the end still acquire, and
// that counts, so every contender acquires at least once. It also returns how many connections they
// had at the end, and what the servers have done, 0 if the stand does not count them.
func churn(ctx context.Context, s stand.Stand, t *stand.Team, name string, d, hold time.Duration) (turns Turns, connections int, spent stand.Spent, err error) {
	var over atomic.Bool
	c := newCounter(len(t.Contenders))
	c.hold = hold
	spent, err = stand.SpentOn(ctx, s)
	if err != nil {
		return turns, 0, spent, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, waiting := errgroup.WithContext(ctx)
	for i, contender := range t.Contenders {
		g.Go(func() error {
			for !over.Load() {
				if err := c.turn(waiting, i, contender, name); err != nil {
					t.Abort(cancel)
					return err
				}
			}
			return nil
		})
	}
	err = stand.Sleep(waiting, d)
	if err == nil {
		connections, err = stand.ConnectionsOf(waiting, s)
	}
	over.Store(true)
	e := g.Wait()
	if e != nil {
		err = e // the error that ended the sleep early
	}
	if err != nil {
		return turns, 0, spent, err
	}
	after, err := stand.SpentOn(ctx, s)
	return c.Turns, connections, after.Since(spent), err
}
