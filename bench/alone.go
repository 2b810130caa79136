package main

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/bench/stand"
)

const metricCycle = "lock + unlock, p50"

// runAlone measures locks that nobody else wants. Within a round the contestants
// take turns block by block, so that each block has its counterpart right beside
// it: here the two sides are closest, and the machine's moods are not.
func runAlone(ctx context.Context, b *bench) error {
	cs := b.apart()
	for _, kind := range b.plan.on(b.plan.alone.clusters) {
		err := b.on(ctx, stand.Setting{Kind: kind}, func(s stand.Stand) error {
			for range b.plan.rounds {
				if err := b.alonePair(ctx, s, kind, cs); err != nil {
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
func (b *bench) alonePair(ctx context.Context, s stand.Stand, kind stand.Kind, cs []stand.Contestant) (err error) {
	var teams []*stand.Team
	defer func() { err = errors.Join(err, closeTeams(teams)) }()
	for _, c := range cs {
		err := as(ctx, c, func(ctx context.Context) error {
			t, err := s.Open(ctx, c, 1, 1)
			if err == nil {
				teams = append(teams, t)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	name := b.name("alone")
	times := make([][]time.Duration, len(cs))
	sent := make([]int64, len(cs))
	for block := range b.plan.alone.blocks {
		for i := range cs {
			i = (i + block) % len(cs) // A B, B A, A B, …
			before := teams[i].Sent()
			var ds []time.Duration
			err := as(ctx, cs[i], func(ctx context.Context) (err error) {
				ds, err = cycles(ctx, teams[i].Contenders[0], name, b.plan.alone.cycles)
				return err
			})
			if err != nil {
				return err
			}
			if block > 0 { // the first warms up
				times[i] = append(times[i], ds...)
				sent[i] += teams[i].Sent().Since(before).Requests
			}
		}
	}
	for i, c := range cs {
		k := key{Scenario: "alone", Cluster: kind, Size: 1, Contestant: c.Name, Metric: metricCycle}
		b.record.add(k, micros, median(toMicros(times[i])))
		k.Metric = metricPerLock
		b.record.add(k, count, float64(sent[i])/float64(len(times[i])))
	}
	return nil
}

func closeTeams(ts []*stand.Team) error {
	var errs []error
	for _, t := range ts {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}

// cycles locks and unlocks n times.
func cycles(ctx context.Context, c stand.Contender, name string, n int) ([]time.Duration, error) {
	ds := make([]time.Duration, n)
	for i := range ds {
		start := time.Now()
		unlock, err := c.Lock(ctx, name)
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
