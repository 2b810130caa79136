package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

const (
	metricBefore = "lock + unlock on a fresh store, p50"
	metricAfter  = "lock + unlock after the past, p50"

	// unique is a Mutex. Each past acquisition had a session of its own, and so a key name
	// of its own.
	unique = "Mutex, a session per acquisition"
)

// runHistory measures a lock that was acquired very often, without compaction. Until a compaction
// etcd keeps every key name in its index, and every range over the queue visits them all. So it
// matters whether names are used again.
func runHistory(ctx context.Context, b *bench) error {
	return b.onServers(ctx, setting{Kind: stand.Single}, func(s *site) (err error) {
		locks, err := b.ownLocks(ctx, s, append(b.apart(), stand.Contestant{Name: unique, Alone: true}), "history")
		defer func() { err = errors.Join(err, closeAll(ctx, locks)) }()
		if err != nil {
			return err
		}
		if err := b.aged(ctx, locks, metricBefore); err != nil {
			return err
		}
		b.log("  %d acquisitions …", b.plan.history.past)
		g, now := errgroup.WithContext(ctx)
		for _, l := range locks {
			g.Go(func() error { return b.past(now, s, l) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
		return b.aged(ctx, locks, metricAfter)
	})
}

// past acquires a lock very often, by workers that wait for it. Those of ours share a session. The
// peer has one worker: its waiters need a session each, and their own watches would slow them down.
// For unique only keys are created and deleted, which leaves the same names in the index as that
// many acquisitions with a session each.
func (b *bench) past(ctx context.Context, s *site, l ownLock) error {
	p := &b.plan.history
	if l.Name == unique {
		_, err := l.crew.Do(ctx, drive.Job{Name: l.name, Names: p.past})
		return err
	}
	o := drive.Opening{Contestant: l.Contestant, N: 1, Clients: 1}
	o.Contestant.Alone = false
	if l.Ours {
		o.N = p.workers
	}
	return withCrew(ctx, s, o, func(crew drive.Crew) error {
		_, err := crew.Do(ctx, drive.Job{Name: l.name, Repeat: p.past})
		return err
	})
}

// aged measures the locks without contention, in turns, block by block.
func (b *bench) aged(ctx context.Context, locks []ownLock, metric string) error {
	const blocks = 10
	k := key{Scenario: "history", Cluster: stand.Single, Size: b.plan.history.past, Metric: metric}
	for range b.plan.rounds {
		times := make([][]time.Duration, len(locks))
		for block := range blocks {
			for i := range locks {
				i = (i + block) % len(locks)
				r, err := locks[i].cycles(ctx, b.plan.history.cycles/blocks)
				if err != nil {
					return err
				}
				times[i] = append(times[i], r.Took...)
			}
		}
		for i, l := range locks {
			k.Contestant = l.Name
			b.record.add(k, micros, median(toMicros(times[i])))
		}
	}
	var cs []stand.Contestant
	for _, l := range locks {
		cs = append(cs, l.Contestant)
	}
	b.logMedians(k, cs)
	return nil
}
