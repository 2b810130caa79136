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
	metricGoroutines = "goroutines per waiter, without the caller's"
)

// runMemory measures what a long queue costs the process of its waiters. The server has a process of
// its own. Contestants apart are measured from before their sessions are opened, so that a session
// is part of the cost of a waiter. Contestants in one process are measured from after that.
func runMemory(ctx context.Context, b *bench) error {
	p := &b.plan.memory
	want := setting{Kind: stand.Single, Outside: p.process}
	measure := func(cs []stand.Contestant, n int) error {
		if n == 0 {
			return nil
		}
		k := key{Scenario: "memory", Cluster: want.Kind, Size: n}
		for _, c := range cs {
			b.log("  %s, %d waiters …", c.Name, n)
			err := b.onServers(ctx, want, func(s *site) error {
				k.Contestant = c.Name
				return b.waiters(ctx, s, c, k)
			})
			if err != nil {
				return err
			}
		}
		for _, k.Metric = range []string{metricHeap, metricStack, metricGoroutines} {
			b.logMedians(k, cs)
		}
		return nil
	}
	return errors.Join(measure(b.oursTogether(), p.ours), measure(b.together(), p.waiters), measure(b.apart(), p.sessions))
}

// waiters measures one contestant, once: bytes vary less than times.
func (b *bench) waiters(ctx context.Context, s *site, c stand.Contestant, k key) error {
	w := drive.Wait{Waiters: k.Size, Settle: b.plan.memory.settle}
	o := drive.Opening{Contestant: c, N: k.Size + 1, Clients: 1}
	if c.Alone {
		o.Weigh = w.Settle
	}
	return withCrew(ctx, s, o, func(crew drive.Crew) error {
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
