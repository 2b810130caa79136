package drive

import (
	"context"
	"errors"
	"math"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/bench/stand"
)

// Wait is a job with many waiters behind one holder. It measures what each waiter costs its
// process.
type Wait struct {
	Waiters int
	Settle  time.Duration // how long nothing must happen before it is measured
}

// Footprint is what a process uses at a moment.
type Footprint struct{ Heap, Stack, Goroutines float64 }

// measure collects garbage and measures, until two results agree. What was closed before may
// take some time to end, and must not count now or be missing in a later result.
func measure(ctx context.Context, settle time.Duration) (Footprint, error) {
	var last Footprint
	for range 10 {
		if err := stand.Sleep(ctx, settle); err != nil {
			return last, err
		}
		runtime.GC()
		runtime.GC() // frees what finalizers and pools kept the first time
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		now := Footprint{float64(m.HeapAlloc), float64(m.StackInuse), float64(runtime.NumGoroutine())}
		if now.Goroutines == last.Goroutines && math.Abs(now.Heap-last.Heap) < 64<<10 {
			return now, nil
		}
		last = now
	}
	return last, nil
}

// run returns what one waiter uses, without its caller's goroutine. before is what the process
// used before the crew was opened; then the result includes the sessions. If before is nil, it
// does not.
func (w Wait) run(ctx context.Context, s stand.Stand, t *stand.Team, name string, before *Footprint) (each Footprint, err error) {
	unlock, err := t.Contenders[0].Lock(ctx, name)
	if err != nil {
		return each, err
	}
	if before == nil {
		opened, err := measure(ctx, w.Settle)
		if err != nil {
			return each, errors.Join(err, unlock())
		}
		before = &opened
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	var g errgroup.Group
	for _, waiter := range t.Contenders[1 : w.Waiters+1] {
		g.Go(func() error {
			if unlock, err := waiter.Lock(waiting, name); err == nil {
				_ = unlock() // some are granted while all are stopped
			}
			return nil
		})
	}
	err = joined(ctx, s, t.QueueOf(name), w.Waiters+1)
	if err == nil {
		err = t.Quiet(ctx, w.Settle)
	}
	var after Footprint
	if err == nil {
		after, err = measure(ctx, w.Settle)
	}
	err = errors.Join(err, unlock(), t.StopWaiters(cancel), g.Wait())
	n := float64(w.Waiters)
	return Footprint{
		Heap:       (after.Heap - before.Heap) / n,
		Stack:      (after.Stack - before.Stack) / n,
		Goroutines: (after.Goroutines-before.Goroutines)/n - 1,
	}, err
}
