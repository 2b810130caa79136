package main

import (
	"context"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

// runPass measures a lock that stays in one process, over the round trip to the servers: hand-offs
// down a line of waiters, and then a loop of the same contenders.
func runPass(ctx context.Context, b *bench) error {
	for _, kind := range b.plan.on(b.plan.pass.clusters) {
		err := b.onServers(ctx, setting{Kind: kind}, func(s *site) error {
			k := key{Scenario: "pass", Cluster: kind, Size: b.plan.pass.size}
			err := rounds(ctx, b.plan.rounds, b.together(), func(c stand.Contestant) error {
				k.Contestant = c.Name
				return b.pass(ctx, s, c, k)
			})
			for _, metric := range []string{metricHandOffP50, metricRate} {
				k.Metric = metric
				b.logMedians(k, b.together())
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) pass(ctx context.Context, s *site, c stand.Contestant, k key) error {
	return withCrew(ctx, s, drive.Opening{Contestant: c, N: k.Size, Clients: maxClients}, func(crew drive.Crew) error {
		// The first contender holds, and the others wait.
		q := drive.Line{Waiters: k.Size - 1, Settle: b.plan.line.settle}
		r, err := crew.Do(ctx, drive.Job{Name: b.name("pass"), Line: &q})
		if err != nil {
			return err
		}
		b.recordHandOffs(k, r.Line.Elapsed, r.Line.HandOffs)
		r, err = crew.Do(ctx, drive.Job{Name: b.name("pass"), Churn: b.plan.pass.time})
		if err != nil {
			return err
		}
		b.recordRate(k, r)
		return nil
	})
}
