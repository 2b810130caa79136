package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/bench/stand"
	"github.com/fairlock/fairlock/internal/rollout"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// What becomes of the leadership in a roll-out. A gap is from the return of the work of a leader
// until the work of the next one begins.
const (
	metricChanges  = "changes of the leader"
	metricOverlaps = "overlaps"
	metricGapP50   = "gap, p50"
	metricGapP99   = "gap, p99"
)

// candidates returns the contestants of roll-outs: ours with and without generations, and the peer's
// election on etcd. Each replica has a client of its own.
func candidates() []stand.Contestant {
	return []stand.Contestant{
		{Name: "fairlock, generations", Use: "election, generations", Ours: true, Alone: true},
		{Name: "fairlock, no generations", Use: "election", Ours: true, Alone: true},
		{Name: "concurrency.Election", Use: "concurrency.Election", Alone: true},
	}
}

// runRoll measures roll-outs of five replicas.
func runRoll(ctx context.Context, b *bench) error {
	if b.old != nil {
		b.log("  left out: an earlier commit may have no generations")
		return nil
	}
	cs := candidates()
	if b.flag != "etcd" {
		cs = cs[:2]
	}
	for _, kind := range b.plan.on(b.plan.roll.clusters) {
		err := b.onServers(ctx, setting{Kind: kind}, func(s *site) error {
			for _, script := range []rollout.Script{{NewFirst: true}, {AnyOrder: true}} {
				k := key{Scenario: "roll", Cluster: kind, Size: rollout.Replicas}
				err := rounds(ctx, b.plan.rounds, cs, func(c stand.Contestant) error {
					k.Contestant = c.Name
					return b.rollOuts(ctx, s, c, script, k)
				})
				if err != nil {
					return err
				}
				for _, metric := range []string{metricChanges, metricGapP50, metricGapP99, metricOverlaps} {
					k.Metric = script.String() + ": " + metric
					b.logMedians(k, cs)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// rollOuts measures one round.
func (b *bench) rollOuts(ctx context.Context, s *site, c stand.Contestant, script rollout.Script, k key) error {
	p := &b.plan.roll
	var (
		mu                sync.Mutex
		gaps              []time.Duration
		changes, overlaps int
		g                 errgroup.Group
	)
	g.SetLimit(p.atOnce)
	for seed := range p.times { // the same for each contestant
		name := b.name("roll")
		g.Go(func() error {
			r := rolling{ctx: ctx, s: s, c: c, name: name, settle: p.least}
			r.Fleet = rollout.NewFleet(seed, r.start)
			r.Least, r.Most = p.least, p.most
			young := r.Replace(r.First(), script)
			seen := r.Seen()
			rollout.Stop(young)
			mu.Lock()
			defer mu.Unlock()
			gaps = append(gaps, seen.Gaps...)
			changes += seen.Changes()
			overlaps += seen.Overlaps
			return r.err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	took := toMicros(gaps)
	slices.Sort(took)
	for _, f := range []struct {
		metric string
		unit   unit
		value  float64
	}{
		{metricChanges, count, float64(changes) / float64(p.times)},
		{metricGapP50, micros, median(took)},
		{metricGapP99, micros, took[(len(took)*99-1)/100]},
		{metricOverlaps, count, float64(overlaps)},
	} {
		k.Metric = script.String() + ": " + f.metric
		b.record.add(k, f.unit, f.value)
	}
	return nil
}

// rolling is one roll-out.
type rolling struct {
	*rollout.Fleet
	ctx    context.Context //nolint:containedctx // of the round
	s      *site
	c      stand.Contestant
	name   string
	settle time.Duration

	mu   sync.Mutex
	errs []error
}

func (r *rolling) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.errs...)
}

func (r *rolling) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, err)
}

// start starts a replica. One that cannot campaign is left out, and fails the round.
func (r *rolling) start(version int64) rollout.Replica {
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan struct{})
	t, err := r.s.local.Open(ctx, r.c, 1, 1)
	go func() {
		defer close(done)
		if err == nil {
			err = r.campaign(ctx, t.Contenders[0], version)
			if ctx.Err() != nil {
				err = nil
			}
			err = errors.Join(err, t.Close())
		}
		if err != nil {
			r.failed(fmt.Errorf("a replica of version %d: %w", version, err))
		}
	}()
	return rollout.Replica{Ended: done, Stop: func() { cancel(); <-done }}
}

func (r *rolling) campaign(ctx context.Context, on stand.Contender, version int64) error {
	work := func(ctx context.Context) {
		r.Lead(version, func() {
			<-ctx.Done()
			time.Sleep(r.StopTime())
		})
	}
	if peer, ok := on.(stand.Candidate); ok {
		return peer.Lead(ctx, r.name, work)
	}
	o := election.Options{Settle: r.settle}
	if r.c.Name == candidates()[0].Name {
		o.Generation = version
	}
	return election.NewWith(stand.Session(on), r.name, o).Run(ctx, "v", func(ctx context.Context, _ *session.Hold) error {
		work(ctx)
		return nil
	})
}
