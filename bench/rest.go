package main

import (
	"context"
	"errors"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

// metricAtRest counts everything that the process of the waiters sends, renewals included.
const metricAtRest = "requests of the waiters' process, a second"

// runRest measures what many waiters of one process send while another process holds the lock and
// nothing happens.
func runRest(ctx context.Context, b *bench) error {
	p := &b.plan.rest
	for _, kind := range b.plan.on(p.clusters) {
		k := key{Scenario: "rest", Cluster: kind, Size: p.waiters, Metric: metricAtRest}
		cs := b.together()
		err := b.onServers(ctx, setting{Kind: kind}, func(s *site) error {
			return rounds(ctx, b.plan.rounds, cs, func(c stand.Contestant) error {
				sent, err := b.rest(ctx, s, c)
				if err != nil {
					return err
				}
				k.Contestant, k.Metric = c.Name, metricAtRest
				b.record.add(k, count, float64(sent.Requests)/p.time.Seconds())
				for i, n := range sent.Sent {
					k.Metric = "… " + sent.Kinds[i]
					b.record.add(k, count, float64(n)/p.time.Seconds())
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		k.Metric = metricAtRest
		b.logMedians(k, cs)
	}
	return nil
}

// rest measures one contestant.
func (b *bench) rest(ctx context.Context, s *site, c stand.Contestant) (sent stand.Counts, err error) {
	p := &b.plan.rest
	r, err := b.atRest(ctx, s, c, p.waiters, drive.Rest{Settle: b.plan.line.settle, For: p.time})
	return r.Sent, err
}

// atRest lets waiters wait, with a session for the holder beside those of the contestant.
func (b *bench) atRest(ctx context.Context, s *site, c stand.Contestant, waiters int, job drive.Rest) (r drive.RestResult, err error) {
	name, one := b.name("rest"), c
	one.Sessions = 0
	holder, err := s.open(ctx, drive.Opening{Contestant: one, N: 1, Clients: 1})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, holder.Close(ctx)) }()
	if _, err := holder.Do(ctx, drive.Job{Name: name, Hold: true}); err != nil {
		return r, err
	}
	err = withCrew(ctx, s, drive.Opening{Contestant: c, N: waiters, Clients: 1}, func(crew drive.Crew) error {
		result, err := crew.Do(ctx, drive.Job{Name: name, Rest: &job})
		r = result.Rest
		return err
	})
	return r, err
}
