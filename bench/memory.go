package main

import (
	"context"
	"errors"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

const (
	metricHeap       = "heap per waiter"
	metricStack      = "stack per waiter, the caller's included"
	metricGoroutines = "goroutines per waiter, beside the caller's"
)

// runMemory measures what a long line costs the process that waits in it. The
// server has a process of its own. Contestants apart are measured from before
// their sessions were opened, so that a session is part of their cost; those
// together from after, because there it is the waiter that counts.
func runMemory(ctx context.Context, b *bench) error {
	p := &b.plan.memory
	want := setting{Kind: stand.Single, Outside: p.process}
	measure := func(cs []stand.Contestant, n int) error {
		if n == 0 {
			return nil
		}
		k := key{Scenario: "memory", Cluster: want.Kind, Size: n}
		for _, c := range cs {
			b.say("  %s, %d waiters …", c.Name, n)
			err := b.on(ctx, want, func(s *site) error {
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
	return errors.Join(measure(b.oursTogether(), p.ours), measure(b.together(), p.waiters), measure(b.apart(), p.sessions))
}

// waiters measures so many of them once; bytes do not have moods as times do.
func (b *bench) waiters(ctx context.Context, s *site, c stand.Contestant, k key) error {
	w := drive.Wait{Waiters: k.Size, Settle: b.plan.memory.settle}
	o := drive.Opening{Contestant: c, N: k.Size + 1, Clients: 1}
	if c.Alone {
		o.Weigh = w.Settle
	}
	return with(ctx, s, o, func(crew drive.Crew) error {
		r, err := crew.Do(ctx, drive.Job{Name: b.name("memory"), Wait: &w})
		if err != nil {
			return err
		}
		k.Metric = metricHeap
		b.record.add(k, octets, r.Each.Heap)
		k.Metric = metricStack
		b.record.add(k, octets, r.Each.Stack)
		k.Metric = metricGoroutines
		b.record.add(k, count, r.Each.Goroutines)
		return nil
	})
}
