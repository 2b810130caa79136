package main

import (
	"context"

	"github.com/fairlock/fairlock/bench/stand"
)

// runFar measures hand-offs over a network that takes its time: what counts
// there is how often a hand-off crosses it. Everybody holds for a while, so that
// what the next ones do beside the hand-off is done before it.
func runFar(ctx context.Context, b *bench) error {
	for _, kind := range b.plan.farAway() {
		err := b.on(ctx, stand.Setting{Kind: kind}, func(s stand.Stand) error {
			k := key{Scenario: "far", Cluster: kind, Size: b.plan.far.size, Metric: metricHandOffP50}
			err := rounds(ctx, b.plan.rounds, b.Contestants, func(c stand.Contestant) error {
				us, err := b.farLines(ctx, s, c)
				k.Contestant = c.Name
				b.record.add(k, micros, us)
				return err
			})
			b.told(k, b.Contestants)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// farLines returns the median over some lines, in microseconds.
func (b *bench) farLines(ctx context.Context, s stand.Stand, c stand.Contestant) (us float64, err error) {
	p := &b.plan.far
	err = with(ctx, s, c, p.size+1, mostClients, func(t *stand.Team) error {
		var took []float64
		for range p.lines {
			q := queue{name: b.name("far"), waiters: p.size, settle: b.plan.line.settle, hold: p.hold}
			r, err := q.run(ctx, s, t)
			if err != nil {
				return err
			}
			for _, h := range r.handOffs {
				took = append(took, inMicros(h.took))
			}
		}
		us = median(took)
		return nil
	})
	return us, err
}
