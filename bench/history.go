package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/bench/stand"
)

const (
	metricBefore = "lock + unlock on a fresh store, p50"
	metricAfter  = "lock + unlock after the past, p50"

	// unique is a Mutex whose every acquisition in the past had a session, and
	// so a key name, of its own.
	unique = "Mutex, a session per acquisition"
)

// An aging is a lock that gets old, and who takes it.
type aging struct {
	stand.Contestant
	t    *stand.Team
	lock string
}

// runHistory measures a lock that was taken very often on a store that nobody
// has compacted. etcd keeps every key name in its index until then, and whoever
// ranges over the line visits them all; so it matters whether names come again.
func runHistory(ctx context.Context, b *bench) error {
	return b.on(ctx, stand.Setting{Kind: stand.Single}, func(s stand.Stand) (err error) {
		var teams []*stand.Team
		defer func() { err = errors.Join(err, closeTeams(teams)) }()
		var locks []aging
		for _, c := range append(b.apart(), stand.Contestant{Name: unique, Alone: true}) {
			t, err := s.Open(ctx, c, 1, 1)
			if err != nil {
				return err
			}
			teams = append(teams, t)
			locks = append(locks, aging{c, t, b.name("history")})
		}
		if err := b.aged(ctx, locks, metricBefore); err != nil {
			return err
		}
		past := b.plan.history.past
		b.say("  %d acquisitions …", past)
		g, now := errgroup.WithContext(ctx)
		for _, a := range locks {
			g.Go(func() error {
				if a.Name == unique {
					return pastNames(now, s, a.t.Line(a.lock), past)
				}
				return pastLocks(now, s, a, past, b.plan.history.workers)
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		return b.aged(ctx, locks, metricAfter)
	})
}

// pastLocks takes a lock so many times, by workers that line up for it: those of
// ours share a session. Of the peer it is one worker: its waiters need a session
// each and would be slowed down by their own watches.
func pastLocks(ctx context.Context, s stand.Stand, a aging, times, workers int) error {
	c := a.Contestant
	if c.Alone = false; !c.Ours {
		workers = 1
	}
	return with(ctx, s, c, workers, 1, func(t *stand.Team) error {
		var taken atomic.Int64
		g, now := errgroup.WithContext(ctx)
		for _, contender := range t.Contenders {
			g.Go(func() error {
				for taken.Add(1) <= int64(times) {
					if _, err := cycles(now, contender, a.lock, 1); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return g.Wait()
	})
}

// pastNames leaves in the index what so many acquisitions leave there that each
// had a session of its own, without opening one 100 000 times.
func pastNames(ctx context.Context, s stand.Stand, line string, times int) error {
	if err := s.Fill(ctx, line, times); err != nil {
		return err
	}
	return s.Clear(ctx, line)
}

// aged measures the locks with nobody else at work, in turns, block by block.
func (b *bench) aged(ctx context.Context, locks []aging, metric string) error {
	const blocks = 10
	k := key{Scenario: "history", Cluster: stand.Single, Size: b.plan.history.past, Metric: metric}
	for range b.plan.rounds {
		times := make([][]time.Duration, len(locks))
		for block := range blocks {
			for i := range locks {
				i = (i + block) % len(locks)
				a := locks[i]
				ds, err := cycles(ctx, a.t.Contenders[0], a.lock, b.plan.history.cycles/blocks)
				if err != nil {
					return fmt.Errorf("%s: %w", a.Name, err)
				}
				times[i] = append(times[i], ds...)
			}
		}
		for i, a := range locks {
			k.Contestant = a.Name
			b.record.add(k, micros, median(toMicros(times[i])))
		}
	}
	var cs []stand.Contestant
	for _, a := range locks {
		cs = append(cs, a.Contestant)
	}
	b.told(k, cs)
	return nil
}
