package main

import (
	"context"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

// runFar measures hand-offs over a network with a round trip. What matters is how often a hand-off
// crosses the network. Each holder holds for a while, so that the other requests of the next
// waiters are done before the hand-off.
func runFar(ctx context.Context, b *bench) error {
	for _, kind := range b.plan.farClusters() {
		err := b.onServers(ctx, setting{Kind: kind}, func(s *site) error {
			k := key{Scenario: "far", Cluster: kind, Size: b.plan.far.size, Metric: metricHandOffP50}
			err := rounds(ctx, b.plan.rounds, b.Contestants, func(c stand.Contestant) error {
				us, err := b.farLines(ctx, s, c)
				k.Contestant = c.Name
				b.record.add(k, micros, us)
				return err
			})
			b.logMedians(k, b.Contestants)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// farLines returns the median over some queues, in microseconds.
func (b *bench) farLines(ctx context.Context, s *site, c stand.Contestant) (us float64, err error) {
	p := &b.plan.far
	err = withCrew(ctx, s, drive.Opening{Contestant: c, N: p.size + 1, Clients: maxClients}, func(crew drive.Crew) error {
		var took []float64
		for range p.lines {
			q := drive.Line{Waiters: p.size, Settle: b.plan.line.settle, Hold: p.hold}
			r, err := crew.Do(ctx, drive.Job{Name: b.name("far"), Line: &q})
			if err != nil {
				return err
			}
			for _, h := range r.Line.HandOffs {
				took = append(took, inMicros(h.Took))
			}
		}
		us = median(took)
		return nil
	})
	return us, err
}
