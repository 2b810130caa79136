package main

import (
	"context"
	"slices"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

const (
	metricRate  = "acquisitions"
	metricShare = "least share of a contender" // of an equal share: 1 is fair

	metricTurns       = "turns of a contender, most less least" // after each has had one
	metricPassed      = "turns of one other during a wait, most"
	metricUnordered   = "grants out of the order of the joins"
	metricConnections = "connections"
	metricGap         = "unlock to the next grant, p50"
	metricCommands    = "commands of the server per acquisition"
	metricCPU         = "processor time of the server per acquisition"
)

// runChurn measures contenders that lock and unlock as often as they can.
func runChurn(ctx context.Context, b *bench) error {
	for _, kind := range b.plan.on(b.plan.churn.clusters) {
		err := b.onServers(ctx, setting{Kind: kind}, func(s *site) error {
			for _, n := range b.plan.churn.sizes {
				k := key{Scenario: "churn", Cluster: kind, Size: n}
				err := rounds(ctx, b.plan.rounds, b.Contestants, func(c stand.Contestant) error {
					k.Contestant = c.Name
					return b.churn(ctx, s, c, k)
				})
				if err != nil {
					return err
				}
				k.Metric = metricRate
				b.logMedians(k, b.Contestants)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recordRate records the rate of a loop, and returns how many turns there were.
func (b *bench) recordRate(k key, r drive.Result) (turns int) {
	for _, n := range r.Turns.All {
		turns += n
	}
	k.Metric = metricRate
	b.record.add(k, perSec, float64(turns)/r.Elapsed.Seconds())
	return turns
}

func (b *bench) churn(ctx context.Context, s *site, c stand.Contestant, k key) error {
	return withCrew(ctx, s, drive.Opening{Contestant: c, N: k.Size, Clients: maxClients}, func(crew drive.Crew) error {
		r, err := crew.Do(ctx, drive.Job{Name: b.name("churn"), Churn: b.plan.churn.time, Pause: b.plan.churn.hold})
		if err != nil {
			return err
		}
		turns := r.Turns
		sum := b.recordRate(k, r)
		k.Metric = metricShare
		b.record.add(k, count, float64(slices.Min(turns.All)*k.Size)/float64(sum))
		k.Metric = metricTurns
		b.record.add(k, count, float64(slices.Max(turns.Steady)-slices.Min(turns.Steady)))
		k.Metric = metricPassed
		b.record.add(k, count, float64(turns.Passed))
		if turns.Unordered >= 0 {
			k.Metric = metricUnordered
			b.record.add(k, count, float64(turns.Unordered))
		}
		if len(turns.Gaps) > 0 {
			k.Metric = metricGap
			b.record.add(k, micros, median(toMicros(turns.Gaps)))
		}
		if r.Connections > 0 {
			k.Metric = metricConnections
			b.record.add(k, count, float64(r.Connections))
		}
		if r.Spent.Commands > 0 {
			k.Metric = metricCommands
			b.record.add(k, count, float64(r.Spent.Commands)/float64(sum))
			k.Metric = metricCPU
			b.record.add(k, micros, inMicros(r.Spent.CPU)/float64(sum))
		}
		b.recordSent(k, r.Sent, float64(sum))
		return nil
	})
}
