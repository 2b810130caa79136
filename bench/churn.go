package main

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/bench/stand"
)

const (
	metricRate  = "acquisitions"
	metricShare = "least share of a contender" // of an equal share: 1 is fair
)

// runChurn measures contenders that take a lock as often as they can.
func runChurn(ctx context.Context, b *bench) error {
	for _, kind := range b.plan.on(b.plan.churn.clusters) {
		err := b.on(ctx, stand.Setting{Kind: kind}, func(s stand.Stand) error {
			for _, n := range b.plan.churn.sizes {
				k := key{Scenario: "churn", Cluster: kind, Size: n}
				err := rounds(ctx, b.plan.rounds, b.Contestants, func(c stand.Contestant) error {
					k.Contestant = c.Name
					return b.churn(ctx, s, c, k)
				})
				if err != nil {
					return err
				}
				k.Metric = metricRate
				b.told(k, b.Contestants)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) churn(ctx context.Context, s stand.Stand, c stand.Contestant, k key) error {
	return with(ctx, s, c, k.Size, mostClients, func(t *stand.Team) error {
		var (
			name  = b.name("churn")
			sent  = t.Sent()
			start = time.Now()
		)
		done, err := churn(ctx, t, name, b.plan.churn.time)
		if err != nil {
			return err
		}
		took := time.Since(start)
		sent = t.Sent().Since(sent)

		sum := 0
		for _, d := range done {
			sum += d
		}
		k.Metric = metricRate
		b.record.add(k, perSec, float64(sum)/took.Seconds())
		k.Metric = metricShare
		b.record.add(k, count, float64(slices.Min(done)*k.Size)/float64(sum))
		b.recordSent(k, sent, float64(sum))
		return nil
	})
}

// churn has all contenders lock and unlock for a while, and returns how often
// each did. Those who wait at the end still get their turn, and it counts: so
// everybody acquires at least once. After an error the team is of no more use.
func churn(ctx context.Context, t *stand.Team, name string, d time.Duration) ([]int, error) {
	var over atomic.Bool
	done := make([]int, len(t.Contenders))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, waiting := errgroup.WithContext(ctx)
	for i, contender := range t.Contenders {
		g.Go(func() error {
			for !over.Load() {
				if _, err := cycles(waiting, contender, name, 1); err != nil {
					t.Abandon(cancel)
					return err
				}
				done[i]++
			}
			return nil
		})
	}
	err := stand.Sleep(waiting, d)
	over.Store(true)
	if e := g.Wait(); e != nil {
		err = e // why the sleep was cut short
	}
	return done, err
}
