package main

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	metricRate  = "acquisitions"
	metricShare = "least share of a contender" // of an equal share: 1 is fair
)

// runChurn measures contenders that take a lock as often as they can.
func runChurn(ctx context.Context, b *bench) error {
	cs := everybody()
	for _, kind := range b.plan.on(b.plan.churn.clusters) {
		err := b.on(ctx, kind, nil, func(s *stand) error {
			for _, n := range b.plan.churn.sizes {
				err := b.rounds(ctx, cs, func(c contestant) error { return b.churn(ctx, s, c, n) })
				if err != nil {
					return err
				}
				b.told(key{Scenario: "churn", Cluster: kind, Size: n, Metric: metricRate}, cs)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) churn(ctx context.Context, s *stand, c contestant, n int) error {
	return s.with(ctx, c, n, mostClients, func(t *team) error {
		var (
			name  = b.name("churn")
			sent  = total(t.clients)
			start = time.Now()
		)
		done, err := t.churn(ctx, name, b.plan.churn.time)
		if err != nil {
			return err
		}
		took := time.Since(start)
		sent = total(t.clients).since(sent)

		sum := 0
		for _, d := range done {
			sum += d
		}
		k := key{Scenario: "churn", Cluster: s.kind, Size: n, Contestant: c.name, Metric: metricRate}
		b.record.add(k, perSec, float64(sum)/took.Seconds())
		k.Metric = metricShare
		b.record.add(k, count, float64(slices.Min(done)*n)/float64(sum))
		k.Metric = metricPerLock
		b.record.add(k, count, float64(sent.sum())/float64(sum))
		b.recordKinds(k, sent, float64(sum))
		return nil
	})
}

// churn has all contenders lock and unlock for a while, and returns how often
// each did. Those who wait at the end still get their turn, and it counts: so
// everybody acquires at least once.
func (t *team) churn(ctx context.Context, name string, d time.Duration) ([]int, error) {
	var over atomic.Bool
	done := make([]int, len(t.contenders))
	g, waiting := errgroup.WithContext(ctx)
	for i, contender := range t.contenders {
		g.Go(func() error {
			for !over.Load() {
				if _, err := cycles(waiting, contender, name, 1); err != nil {
					return err
				}
				done[i]++
			}
			return nil
		})
	}
	err := sleep(waiting, d)
	over.Store(true)
	if e := g.Wait(); e != nil {
		err = e // why the sleep was cut short
	}
	return done, err
}
