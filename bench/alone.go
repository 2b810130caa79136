package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

const (
	metricCycle  = "lock + unlock, p50"
	metricServer = "processor time of the server"
)

// runAlone measures locks without contention. Within a round the contestants take turns block by
// block, so that each block has a counterpart directly before or after it. The two sides differ
// least here, and the speed of the machine may change.
func runAlone(ctx context.Context, b *bench) error {
	cs := append(b.apart(), b.bare()...)
	for _, kind := range b.plan.on(b.plan.alone.clusters) {
		err := b.onServers(ctx, setting{Kind: kind}, func(s *site) error {
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
		b.logMedians(key{Scenario: "alone", Cluster: kind, Size: 1, Metric: metricCycle}, cs)
	}
	return nil
}

// alonePair measures one round. Each contestant has a lock of its own, because different commits of
// ours need not agree on the records of a queue.
func (b *bench) alonePair(ctx context.Context, s *site, kind stand.Kind, cs []stand.Contestant) (err error) {
	locks, err := b.ownLocks(ctx, s, cs, "alone")
	defer func() { err = errors.Join(err, closeAll(ctx, locks)) }()
	if err != nil {
		return err
	}
	all, err := inTurns(ctx, locks, b.plan.alone.blocks, b.plan.alone.cycles)
	if err != nil {
		return err
	}
	for i, c := range cs {
		k := key{Scenario: "alone", Cluster: kind, Size: 1, Contestant: c.Name, Metric: metricCycle}
		b.record.add(k, micros, median(toMicros(all[i].Took)))
		if b.counts {
			k.Metric = metricPerLock
			b.record.add(k, count, float64(all[i].Sent.Requests)/float64(len(all[i].Took)))
		}
		b.recordServer(k, metricServer, all[i])
	}
	return nil
}

// recordServer records how long the servers were busy with a cycle, if the stand sees it.
func (b *bench) recordServer(k key, metric string, r drive.Result) {
	if r.Server > 0 {
		k.Metric = metric
		b.record.add(k, micros, inMicros(r.Server)/float64(len(r.Took)))
	}
}

// inTurns lets each lock run blocks of so many cycles, in turns. It returns how long each cycle
// took, how long the servers were busy, and how many requests were sent.
func inTurns(ctx context.Context, locks []ownLock, blocks, cycles int) ([]drive.Result, error) {
	all := make([]drive.Result, len(locks))
	for block := range blocks {
		for i := range locks {
			i = (i + block) % len(locks) // A B, B A, A B, …
			r, err := locks[i].cycles(ctx, cycles)
			if err != nil {
				return nil, err
			}
			if block > 0 { // the first block warms up
				all[i].Took = append(all[i].Took, r.Took...)
				all[i].Server += r.Server
				all[i].Sent.Requests += r.Sent.Requests
			}
		}
	}
	return all, nil
}

// ownLock is a lock of one contender.
type ownLock struct {
	stand.Contestant
	crew drive.Crew
	name string
}

// ownLocks opens a lock for each contestant. After an error it returns those that are open.
func (b *bench) ownLocks(ctx context.Context, s *site, cs []stand.Contestant, kind string) (locks []ownLock, err error) {
	for _, c := range cs {
		err := labelled(ctx, c, func(ctx context.Context) error {
			crew, err := s.open(ctx, drive.Opening{Contestant: c, N: 1, Clients: 1})
			if err == nil {
				locks = append(locks, ownLock{c, crew, b.name(kind)})
			}
			return err
		})
		if err != nil {
			return locks, err
		}
	}
	return locks, nil
}

// cycles locks and unlocks n times.
func (l ownLock) cycles(ctx context.Context, n int) (r drive.Result, err error) {
	err = labelled(ctx, l.Contestant, func(ctx context.Context) error {
		r, err = l.crew.Do(ctx, drive.Job{Name: l.name, Cycles: n})
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", l.Name, err)
	}
	return r, err
}

func closeAll(ctx context.Context, locks []ownLock) error {
	var errs []error
	for _, l := range locks {
		errs = append(errs, l.crew.Close(ctx))
	}
	return errors.Join(errs...)
}
