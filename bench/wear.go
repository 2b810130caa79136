package main

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

const (
	metricFirst  = "first thousand, p50"
	metricLast   = "last thousand, p50"
	metricOldest = "first thousand, with an open snapshot, p50"
	metricNewest = "last thousand, with an open snapshot, p50"
)

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

// wear measures one contestant once, on new servers: the first and the last of so many
// acquisitions are the same part of one run.
func (b *bench) wear(ctx context.Context, kind stand.Kind, c stand.Contestant, snapshot bool) error {
	past := b.plan.wear.past
	part := min(aThousand, past/4)
	k := key{Scenario: "wear", Cluster: kind, Size: past, Contestant: c.Name}
	first, last := metricFirst, metricLast
	if snapshot {
		first, last = metricOldest, metricNewest
	}
	return b.onServers(ctx, setting{Kind: kind}, func(s *site) error {
		return withCrew(ctx, s, drive.Opening{Contestant: c, N: 1, Clients: 1}, func(crew drive.Crew) error {
			if snapshot {
				if _, err := crew.Do(ctx, drive.Job{Old: true}); err != nil {
					return err
				}
			}
			b.log("  %s, %d acquisitions …", c.Name, past)
			name := b.name("wear")
			measure := func(metric string) error {
				r, err := crew.Do(ctx, drive.Job{Name: name, Cycles: part})
				if err != nil {
					return err
				}
				k.Metric = metric
				b.record.add(k, micros, median(toMicros(r.Took)))
				b.logMedians(k, []stand.Contestant{c})
				return nil
			}
			if _, err := crew.Do(ctx, drive.Job{Name: name, Cycles: 20}); err != nil { // warms up
				return err
			}
			if err := measure(first); err != nil {
				return err
			}
			if _, err := crew.Do(ctx, drive.Job{Name: name, Repeat: past - 2*part}); err != nil {
				return err
			}
			return measure(last)
		})
	})
}
