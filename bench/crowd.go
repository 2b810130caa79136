package main

import (
	"context"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

const (
	crowdName          = "fairlock, several sessions"
	metricJoinsPerCPU  = "joins per second of the server's processor"
	metricJoinCommands = "commands of the server per waiter"
)

// crowd is a contestant of ours with so many sessions, each of which stands for a process.
func crowd(sessions int) stand.Contestant {
	return stand.Contestant{Name: crowdName, Use: crowdName, Ours: true, Sessions: sessions}
}

// runCrowd measures what the server does for many waiters in one queue.
func runCrowd(ctx context.Context, b *bench) error {
	p := &b.plan.crowd
	c := crowd(p.sessions)
	for _, kind := range b.plan.on(p.clusters) {
		k := key{Scenario: "crowd", Cluster: kind, Size: p.waiters, Contestant: c.Name}
		err := b.onServers(ctx, setting{Kind: kind}, func(s *site) error {
			return rounds(ctx, b.plan.rounds, []stand.Contestant{c}, func(c stand.Contestant) error {
				return b.crowd(ctx, s, c, k)
			})
		})
		if err != nil {
			return err
		}
		for _, k.Metric = range []string{metricJoins, metricJoinsPerCPU, metricConnections} {
			b.logMedians(k, []stand.Contestant{c})
		}
	}
	return nil
}

// crowd measures one round. The holder has a session of its own.
func (b *bench) crowd(ctx context.Context, s *site, c stand.Contestant, k key) error {
	p := &b.plan.crowd
	n := float64(p.waiters)
	r, err := b.atRest(ctx, s, c, p.waiters, drive.Rest{Settle: b.plan.line.settle, For: p.time})
	if err != nil {
		return err
	}
	k.Metric = metricJoins
	b.record.add(k, perSec, n/r.Joins.Seconds())
	k.Metric = metricAtRest
	b.record.add(k, count, float64(r.Sent.Requests)/p.time.Seconds())
	if r.Connections > 0 {
		k.Metric = metricConnections
		b.record.add(k, count, float64(r.Connections)/float64(p.sessions+1))
	}
	if r.Spent.Commands > 0 {
		k.Metric = metricJoinCommands
		b.record.add(k, count, float64(r.Spent.Commands)/n)
		k.Metric = metricJoinsPerCPU
		b.record.add(k, perSec, n/r.Spent.CPU.Seconds())
	}
	return nil
}
