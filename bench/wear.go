package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

const (
	metricFirst  = "first thousand, p50" // on a new server, in turns with the last
	metricLast   = "last thousand, p50"
	metricOldest = "first thousand, with an open snapshot, p50"
	metricNewest = "last thousand, with an open snapshot, p50"

	metricOpen = "minutes with an open snapshot"
	metricMade = "acquisitions with an open snapshot"
)

// serverTime returns the figure of processor time that belongs to a figure of time. Other programs on
// the machine disturb it less.
func serverTime(metric string) string {
	return strings.TrimSuffix(metric, "p50") + metricServer
}

// aThousand is how many acquisitions are the first and the last ones.
const aThousand = 1000

// runWear measures a lock that is acquired very often, on a server that must clean up what each
// acquisition leaves in its tables. While a snapshot is open, by a backup or a forgotten
// transaction, it can remove nothing.
//
// The peer is not measured with an open snapshot: each statement visits all versions of its row
// then, so 100 000 acquisitions would take hours.
func runWear(ctx context.Context, b *bench) error {
	for _, kind := range b.plan.on(b.plan.wear.clusters) {
		for _, c := range b.apart() {
			if c.Against != "" {
				continue // the second peer leaves nothing in tables
			}
			if err := b.wear(ctx, kind, c, false); err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			if !c.Ours {
				continue
			}
			if err := b.wear(ctx, kind, c, true); err != nil {
				return fmt.Errorf("%s, with an open snapshot: %w", c.Name, err)
			}
		}
	}
	return nil
}

// wear measures one contestant once. The last of so many acquisitions are made in turns with the first
// ones on a server of its own, so that other programs on the machine disturb both alike.
func (b *bench) wear(ctx context.Context, kind stand.Kind, c stand.Contestant, snapshot bool) error {
	return b.onServers(ctx, setting{Kind: kind}, func(worn *site) error {
		return b.onServers(ctx, setting{Kind: kind}, func(fresh *site) (err error) {
			var locks []ownLock
			defer func() { err = errors.Join(err, closeAll(ctx, locks)) }()
			for _, s := range []*site{fresh, worn} {
				one, err := b.ownLocks(ctx, s, []stand.Contestant{c}, "wear")
				locks = append(locks, one...)
				if err != nil {
					return err
				}
			}
			return b.wearOut(ctx, kind, locks[0], locks[1], snapshot)
		})
	})
}

// wearOut acquires one lock very often, and then both in turns.
func (b *bench) wearOut(ctx context.Context, kind stand.Kind, fresh, worn ownLock, snapshot bool) error {
	past := b.plan.wear.past
	part := min(aThousand, past/4)
	k := key{Scenario: "wear", Cluster: kind, Size: past, Contestant: worn.Name}
	first, last := metricFirst, metricLast
	if snapshot {
		first, last = metricOldest, metricNewest
		if _, err := worn.crew.Do(ctx, drive.Job{Old: true}); err != nil {
			return err
		}
	}
	made, elapsed, err := b.wearFor(ctx, worn, past-part, snapshot)
	if err != nil {
		return err
	}
	if snapshot {
		k.Metric = metricOpen
		b.record.add(k, count, elapsed.Minutes())
		k.Metric = metricMade
		b.record.add(k, count, float64(made))
		b.log("  %d acquisitions in %s", made, elapsed.Round(time.Second))
	}
	const cycles = 5 // short turns, as the load changes
	all, err := inTurns(ctx, []ownLock{fresh, worn}, 1+part/cycles, cycles)
	if err != nil {
		return err
	}
	for i, metric := range []string{first, last} {
		k.Metric = metric
		b.record.add(k, micros, median(toMicros(all[i].Took)))
		b.logMedians(k, []stand.Contestant{worn.Contestant})
		b.recordServer(k, serverTime(metric), all[i])
		if all[i].Server > 0 {
			k.Metric = serverTime(metric)
			b.logMedians(k, []stand.Contestant{worn.Contestant})
		}
	}
	return nil
}

// wearFor acquires a lock n times; with a snapshot for as long as the plan keeps that open, if it has a
// time. It returns how many acquisitions that were, and how long they took.
func (b *bench) wearFor(ctx context.Context, worn ownLock, n int, snapshot bool) (made int, elapsed time.Duration, err error) {
	least := time.Duration(0)
	if snapshot && b.plan.wear.open > 0 {
		n, least = aThousand, b.plan.wear.open
		b.log("  %s, acquisitions for %s …", worn.Name, least)
	} else {
		b.log("  %s, %d acquisitions …", worn.Name, n)
	}
	for made == 0 || elapsed < least {
		r, err := worn.crew.Do(ctx, drive.Job{Name: worn.name, Repeat: n})
		if err != nil {
			return made, elapsed, err
		}
		made += n
		elapsed += r.Elapsed
	}
	return made, elapsed, nil
}
