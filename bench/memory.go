package main

import (
	"context"
	"errors"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/bench/stand"
)

const (
	metricHeap       = "heap per waiter"
	metricStack      = "stack per waiter, the caller's included"
	metricGoroutines = "goroutines per waiter, beside the caller's"
)

// footprint is what a process needs at a moment.
type footprint struct{ heap, stack, goroutines float64 }

// footprint collects garbage until there is nothing left to collect: what was
// closed before takes its time to end and is not to be counted, nor to be missed
// later.
func (b *bench) footprint(ctx context.Context) (footprint, error) {
	var last footprint
	for range 10 {
		if err := stand.Sleep(ctx, b.plan.memory.settle); err != nil {
			return last, err
		}
		runtime.GC()
		runtime.GC() // what finalizers and pools kept the first time
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		now := footprint{float64(m.HeapAlloc), float64(m.StackInuse), float64(runtime.NumGoroutine())}
		if now.goroutines == last.goroutines && math.Abs(now.heap-last.heap) < 64<<10 {
			return now, nil
		}
		last = now
	}
	return last, nil
}

// runMemory measures what a long line costs the process that waits in it. The
// server has a process of its own. Contestants apart are measured from before
// their sessions were opened, so that a session is part of their cost; those
// together from after, because there it is the waiter that counts.
func runMemory(ctx context.Context, b *bench) error {
	p := &b.plan.memory
	want := stand.Setting{Kind: stand.Single, Outside: p.process}
	measure := func(cs []stand.Contestant, n int) error {
		if n == 0 {
			return nil
		}
		k := key{Scenario: "memory", Cluster: want.Kind, Size: n}
		for _, c := range cs {
			b.say("  %s, %d waiters …", c.Name, n)
			err := b.on(ctx, want, func(s stand.Stand) error {
				k.Contestant = c.Name
				return b.waiters(ctx, s, c, k)
			})
			if err != nil {
				return err
			}
		}
		for _, k.Metric = range []string{metricHeap, metricStack, metricGoroutines} {
			b.told(k, cs)
		}
		return nil
	}
	return errors.Join(measure(b.together()[:1], p.ours), measure(b.together(), p.waiters), measure(b.apart(), p.sessions))
}

// waiters measures so many of them once; bytes do not have moods as times do.
func (b *bench) waiters(ctx context.Context, s stand.Stand, c stand.Contestant, k key) error {
	before, err := b.footprint(ctx)
	if err != nil {
		return err
	}
	return with(ctx, s, c, k.Size+1, 1, func(t *stand.Team) error {
		name := b.name("memory")
		unlock, err := t.Contenders[0].Lock(ctx, name)
		if err != nil {
			return err
		}
		if !c.Alone {
			if before, err = b.footprint(ctx); err != nil {
				return err
			}
		}
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		var g errgroup.Group
		for _, waiter := range t.Contenders[1:] {
			g.Go(func() error {
				if unlock, err := waiter.Lock(waiting, name); err == nil {
					_ = unlock() // some get their turn while all are sent home
				}
				return nil
			})
		}
		err = joined(ctx, s, t.Line(name), k.Size+1)
		if err == nil {
			err = t.Quiet(ctx, b.plan.memory.settle)
		}
		var after footprint
		if err == nil {
			after, err = b.footprint(ctx)
		}
		if err = errors.Join(err, unlock(), t.Disperse(cancel), g.Wait()); err != nil {
			return err
		}
		n := float64(k.Size)
		k.Metric = metricHeap
		b.record.add(k, octets, (after.heap-before.heap)/n)
		k.Metric = metricStack
		b.record.add(k, octets, (after.stack-before.stack)/n)
		k.Metric = metricGoroutines
		b.record.add(k, count, (after.goroutines-before.goroutines)/n-1)
		return nil
	})
}
