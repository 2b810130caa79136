package main

import (
	"context"
	"time"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

const (
	metricHandOff    = "hand-off, mean"
	metricHandOffP50 = "hand-off, p50"
	metricJoins      = "joins"
)

// fewJoins are too few for a rate.
const fewJoins = 40

// runLine measures how fast a lock goes down a line of waiters who hold it for
// no time. The first release waits until nobody sends anything any more: the
// hand-off is measured, not the joining.
//
// Of a line longer than the plan's bound only so many hand-offs are made, of
// both sides the same number: the figure is that at the head of such a line. And
// since it takes minutes to line up 10 000 of the peer's, who each have the
// server read the whole line several times, all behind the plan's number of
// them are entries without an owner, which is all that the server sees of those
// who wait.
func runLine(ctx context.Context, b *bench) error {
	p := &b.plan.line
	for _, kind := range b.plan.on(p.clusters) {
		for _, n := range p.sizes {
			if err := b.lines(ctx, kind, b.Contestants, n); err != nil {
				return err
			}
		}
		if kind != stand.Single && p.bound < 10_000 { // long lines everywhere only with -full
			continue
		}
		for _, n := range p.together {
			if err := b.lines(ctx, kind, b.together(), n); err != nil {
				return err
			}
		}
	}
	return nil
}

// lines measures one length on one kind of cluster, a fresh one: what a line of
// 10 000 leaves in the server is not the next one's.
func (b *bench) lines(ctx context.Context, kind stand.Kind, cs []stand.Contestant, n int) error {
	b.say("  %s, %d waiters …", kind, n)
	return b.on(ctx, setting{Kind: kind}, func(s *site) error {
		k := key{Scenario: "line", Cluster: kind, Size: n}
		err := rounds(ctx, b.plan.rounds*b.plan.line.times(n), cs, func(c stand.Contestant) error {
			k.Contestant = c.Name
			return b.line(ctx, s, c, k)
		})
		if err != nil {
			return err
		}
		k.Metric = metricHandOffP50
		b.told(k, cs)
		if n >= fewJoins {
			k.Metric = metricJoins
			b.told(k, cs)
		}
		return nil
	})
}

// line measures one round: a line, or several one after the other if they are
// short.
func (b *bench) line(ctx context.Context, s *site, c stand.Contestant, k key) error {
	p := &b.plan.line
	waiters := k.Size
	if !c.Ours {
		waiters = min(k.Size, p.peers)
	}
	least := min(p.handOffs, p.bound) / p.times(k.Size)
	return with(ctx, s, drive.Opening{Contestant: c, N: waiters + 1, Clients: mostClients}, func(crew drive.Crew) error {
		var (
			joins, elapsed time.Duration
			took           []time.Duration
			people         int
			moved          stand.Counts
		)
		for people == 0 || len(took) < least {
			q := drive.Line{Waiters: waiters, Behind: k.Size - waiters, Settle: p.settle, Bound: p.bound}
			result, err := crew.Do(ctx, drive.Job{Name: b.name("line"), Line: &q})
			if err != nil {
				return err
			}
			r := &result.Line
			joins, elapsed, people = joins+r.Joins, elapsed+r.Elapsed, people+waiters
			for _, h := range r.HandOffs {
				took = append(took, h.Took)
			}
			moved.Requests, moved.Bytes = moved.Requests+r.Moved.Requests, moved.Bytes+r.Moved.Bytes
		}
		n := float64(len(took))
		k.Metric = metricHandOff
		b.record.add(k, micros, inMicros(elapsed)/n)
		k.Metric = metricHandOffP50
		b.record.add(k, micros, median(toMicros(took)))
		b.recordMoved(k, moved, n)
		if k.Size >= fewJoins && waiters == k.Size {
			k.Metric = metricJoins
			b.record.add(k, perSec, float64(people)/joins.Seconds())
		}
		return nil
	})
}
