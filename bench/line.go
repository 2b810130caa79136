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
	metricRelease    = "unlock with no waiter, p50"
)

// fewJoins is the smallest number of joins that gives a rate.
const fewJoins = 40

// releases is how often one process locks and unlocks alone, to compare its hand-off with.
const releases = 40

// runLine measures how fast a lock goes from waiter to waiter in a queue. Each holds it for no time.
// The first release waits until no client sends anything any more, so that the hand-off is
// measured, not the joining.
//
// In a queue longer than the plan's bound, only that many hand-offs are made, the same number on
// both sides: the figure is that at the head of such a queue. It would take minutes until 10 000
// waiters of the peer have joined, because each has the server read the whole queue several times.
// So the plan bounds its waiters, and the entries behind them have no waiters, which the servers do
// not see.
func runLine(ctx context.Context, b *bench) error {
	p := &b.plan.line
	for _, kind := range b.plan.on(p.clusters) {
		for _, n := range p.sizes {
			if err := b.lines(ctx, kind, b.Contestants, n); err != nil {
				return err
			}
		}
		if kind != stand.Single && p.bound < 10_000 { // long queues on other kinds only with -full
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

// lines measures one length on one kind of cluster. The cluster is new, because a queue of 10 000
// leaves data in the server that would count against the next contestant.
func (b *bench) lines(ctx context.Context, kind stand.Kind, cs []stand.Contestant, n int) error {
	b.log("  %s, %d waiters …", kind, n)
	return b.onServers(ctx, setting{Kind: kind}, func(s *site) error {
		k := key{Scenario: "line", Cluster: kind, Size: n}
		err := rounds(ctx, b.plan.rounds*b.plan.line.times(n), cs, func(c stand.Contestant) error {
			k.Contestant = c.Name
			return b.line(ctx, s, c, k)
		})
		if err != nil {
			return err
		}
		k.Metric = metricHandOffP50
		b.logMedians(k, cs)
		if n >= fewJoins {
			k.Metric = metricJoins
			b.logMedians(k, cs)
		}
		return nil
	})
}

// line measures one round: one queue, or several short ones one after the other.
func (b *bench) line(ctx context.Context, s *site, c stand.Contestant, k key) error {
	p := &b.plan.line
	waiters := k.Size
	if !c.Ours {
		waiters = min(k.Size, p.peers)
	}
	least := min(p.handOffs, p.bound) / p.times(k.Size)
	return withCrew(ctx, s, drive.Opening{Contestant: c, N: waiters + 1, Clients: maxClients}, func(crew drive.Crew) error {
		var (
			joins, elapsed time.Duration
			handOffs       []drive.HandOff
			joined         int
			moved          stand.Counts
		)
		if c.Ours && !c.Alone {
			alone := drive.Job{Name: b.name("release"), Cycles: releases}
			if waiters == 1 {
				// Each hand-off comes after a pause, in which the processors went to sleep.
				alone.Cycles, alone.Pause = 10, p.settle
			}
			r, err := crew.Do(ctx, alone)
			if err != nil {
				return err
			}
			k.Metric = metricRelease
			b.record.add(k, micros, median(toMicros(r.Unlocks)))
		}
		for joined == 0 || len(handOffs) < least {
			q := drive.Line{Waiters: waiters, Behind: k.Size - waiters, Settle: p.settle, Bound: p.bound}
			result, err := crew.Do(ctx, drive.Job{Name: b.name("line"), Line: &q})
			if err != nil {
				return err
			}
			r := &result.Line
			joins, elapsed, joined = joins+r.Joins, elapsed+r.Elapsed, joined+waiters
			handOffs = append(handOffs, r.HandOffs...)
			moved.Requests, moved.Bytes = moved.Requests+r.Moved.Requests, moved.Bytes+r.Moved.Bytes
		}
		b.recordHandOffs(k, elapsed, handOffs)
		b.recordMoved(k, moved, float64(len(handOffs)))
		if k.Size >= fewJoins && waiters == k.Size {
			k.Metric = metricJoins
			b.record.add(k, perSec, float64(joined)/joins.Seconds())
		}
		return nil
	})
}

// recordHandOffs records the mean and the median time of hand-offs that took so long together.
func (b *bench) recordHandOffs(k key, elapsed time.Duration, handOffs []drive.HandOff) {
	took := make([]time.Duration, len(handOffs))
	for i, h := range handOffs {
		took[i] = h.Took
	}
	k.Metric = metricHandOff
	b.record.add(k, micros, inMicros(elapsed)/float64(len(handOffs)))
	k.Metric = metricHandOffP50
	b.record.add(k, micros, median(toMicros(took)))
}
