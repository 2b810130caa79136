package main

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/bench/drive"
	"github.com/fairlock/fairlock/bench/stand"
)

// The uses of a lock that many hold together.
const (
	useFreeReader = "read lock"
	useFreePermit = "permit"
)

func metricRoundTrips(use string) string { return use + ": round trips before the grant" }
func metricFree(use string) string       { return use + ": requests before the grant" }

// runFree measures a read lock behind readers, and a permit of a semaphore that has more. Both are
// granted at once, and the cost of that must not depend on the number of holders.
func runFree(ctx context.Context, b *bench) error {
	p := &b.plan.free
	return b.onServers(ctx, setting{Kind: stand.Single}, func(s *site) error {
		for _, n := range p.sizes {
			for _, f := range []struct {
				use  string
				lock drive.Recipe
			}{
				{useFreeReader, drive.Recipe{Kind: drive.ReadLock}},
				{useFreePermit, drive.Recipe{Kind: drive.Permit, Limit: int64(2 * n)}},
			} {
				holders := drive.Group{N: n, In: holdersIn, Lock: f.lock}
				if err := b.free(ctx, s, f.use, drive.Free{Holders: holders, Times: p.times, Settle: quietTime}); err != nil {
					return fmt.Errorf("%s, %d holders: %w", f.use, n, err)
				}
			}
		}
		return nil
	})
}

func (b *bench) free(ctx context.Context, s *site, use string, f drive.Free) error {
	var cs []stand.Contestant
	for _, c := range b.apart() {
		if c.Ours { // the peer has no such locks
			cs = append(cs, c)
		}
	}
	k := key{Scenario: "free", Cluster: stand.Single, Size: f.Holders.N}
	err := rounds(ctx, b.plan.rounds, cs, func(c stand.Contestant) error {
		n := f.Contenders()
		return withCrew(ctx, s, drive.Opening{Contestant: c, N: n, Clients: n}, func(crew drive.Crew) error {
			r, err := crew.Do(ctx, drive.Job{Name: b.name("free"), Free: &f})
			if err != nil {
				return err
			}
			k.Contestant, k.Metric = c.Name, metricFree(use)
			b.record.add(k, count, float64(r.Free.Requests)/float64(f.Times))
			k.Metric = metricRoundTrips(use)
			b.record.add(k, count, float64(r.Free.Trips)/float64(f.Times))
			return nil
		})
	})
	k.Metric = metricRoundTrips(use)
	b.logMedians(k, cs)
	return err
}
