package main

import (
	"context"

	"github.com/fairlock/fairlock/etcdtest"
)

// runFar measures hand-offs over a network that takes its time: what counts
// there is how often a hand-off crosses it. Everybody holds for a while, so that
// what the next ones do beside the hand-off is done before it.
func runFar(ctx context.Context, b *bench) error {
	p := &b.plan.far
	cs := everybody()
	proxied := func(o *etcdtest.Options) { o.Proxied = true }
	return b.on(ctx, single, proxied, func(s *stand) error {
		for i := range s.cluster.Len() {
			s.cluster.Member(i).ClientProxy().Delay(etcdtest.Both, p.oneWay)
		}
		k := key{Scenario: "far", Cluster: single, Size: p.size, Metric: metricHandOffP50}
		err := b.rounds(ctx, cs, func(c contestant) error {
			us, err := b.farLines(ctx, s, c)
			k.Contestant = c.name
			b.record.add(k, micros, us)
			return err
		})
		b.told(k, cs)
		return err
	})
}

// farLines returns the median over some lines, in microseconds.
func (b *bench) farLines(ctx context.Context, s *stand, c contestant) (us float64, err error) {
	p := &b.plan.far
	err = s.with(ctx, c, p.size+1, mostClients, func(t *team) error {
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
