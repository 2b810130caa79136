package main

import (
	"context"
	"errors"
	"time"
)

const metricCycle = "lock + unlock, p50"

// runAlone measures locks that nobody else wants. Within a round the contestants
// take turns block by block, so that each block has its counterpart right beside
// it: here the two sides are closest, and the machine's moods are not.
func runAlone(ctx context.Context, b *bench) error {
	cs := apart()
	for _, kind := range b.plan.on(b.plan.alone.clusters) {
		err := b.on(ctx, kind, nil, func(s *stand) error {
			for range b.plan.rounds {
				if err := b.alonePair(ctx, s, cs); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		b.told(key{Scenario: "alone", Cluster: kind, Size: 1, Metric: metricCycle}, cs)
	}
	return nil
}

// alonePair measures one round.
func (b *bench) alonePair(ctx context.Context, s *stand, cs []contestant) (err error) {
	teams := make([]*team, len(cs))
	defer func() { err = errors.Join(err, closeTeams(teams)) }()
	for i, c := range cs {
		if teams[i], err = s.team(ctx, c, 1, 1); err != nil {
			return err
		}
	}
	name := b.name("alone")
	times := make([][]time.Duration, len(cs))
	sent := make([]int64, len(cs))
	for block := range b.plan.alone.blocks {
		for i := range cs {
			i = (i + block) % len(cs) // A B, B A, A B, …
			before := total(teams[i].clients)
			ds, err := cycles(ctx, teams[i].contenders[0], name+cs[i].name, b.plan.alone.cycles)
			if err != nil {
				return err
			}
			sent[i] += total(teams[i].clients).since(before).sum()
			if block > 0 { // the first warms up
				times[i] = append(times[i], ds...)
			}
		}
	}
	for i, c := range cs {
		k := key{Scenario: "alone", Cluster: s.kind, Size: 1, Contestant: c.name, Metric: metricCycle}
		b.record.add(k, micros, median(toMicros(times[i])))
		k.Metric = metricPerLock
		b.record.add(k, count, float64(sent[i])/float64(b.plan.alone.blocks*b.plan.alone.cycles))
	}
	return nil
}

// cycles locks and unlocks n times.
func cycles(ctx context.Context, c contender, name string, n int) ([]time.Duration, error) {
	ds := make([]time.Duration, n)
	for i := range ds {
		start := time.Now()
		unlock, err := c.lock(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := unlock(); err != nil {
			return nil, err
		}
		ds[i] = time.Since(start)
	}
	return ds, nil
}
