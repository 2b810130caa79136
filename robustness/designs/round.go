package designs

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// Round runs n trials of a design under a fault at the same time, and returns their results. It returns an error if
// the servers cannot be used any more.
func Round(ctx context.Context, s Stand, d *Design, f *Fault, seed uint64, round int64, n int) ([]*Result, error) {
	hash := fnv.New64a()
	_, _ = fmt.Fprint(hash, seed, d.Name, f.Name, round)      // never fails
	rng := rand.New(rand.NewPCG(hash.Sum64(), uint64(round))) //nolint:gosec // scripts, not secrets
	all := make([]*try, n)
	for i := range all {
		queue := history.Queue{Name: fmt.Sprintf("%s-%x-%d-%d", f.Name, hash.Sum64()>>32, round, i), Recipe: history.Mutex}
		t := &try{
			stand: s, d: d, f: f, timeout: trial.TTL, queue: queue, resource: trial.NewResource(queue),
			Result: Result{Stand: s.Name(), Setup: s.Setup(), Design: d.Name, Fault: f.Name, Seed: seed, Round: round},
		}
		if f.patient && !d.renews {
			t.timeout = patience
		}
		all[i] = t
	}
	pulse := metronome.Start()
	defer pulse.Stop()
	began := time.Now()
	var err error
	if f.server {
		err = together(ctx, s, f, rng, all)
	} else {
		each(all, func(t *try) {
			t.open(ctx)
			t.hold(ctx)
			if t.hit() {
				t.f.run(ctx, t)
			}
			t.finish(ctx)
		})
	}
	results := make([]*Result, n)
	_, longest := pulse.Between(began, time.Now())
	for i, t := range all {
		if longest > longestStall {
			t.miss("%s for %s", stalled, longest.Round(10*time.Millisecond))
		}
		results[i] = &t.Result
	}
	if err != nil {
		err = fmt.Errorf("designs: %s: %w", f.Name, err)
	}
	return results, err
}

// stalled begins the reason why the trials of a round do not count if the machine was too busy.
const stalled = "the machine ran nothing"

// together runs a round whose fault is aimed at the servers.
func together(ctx context.Context, s Stand, f *Fault, rng *rand.Rand, all []*try) error {
	b := s.Break(f.Name)
	if b == nil {
		return fmt.Errorf("%s has no such fault", s.Setup())
	}
	err := serverFault(ctx, b, rng, func() {
		each(all, func(t *try) { t.open(ctx) })
	}, func() {
		each(all, func(t *try) { t.hold(ctx) })
		for _, t := range all {
			t.faultAt = trial.Now()
		}
	})
	for _, t := range all {
		if err != nil {
			t.miss("%v", err)
		}
	}
	well, cancel := context.WithTimeout(ctx, longStart*2)
	defer cancel()
	err = errors.Join(err, s.Healthy(well))
	each(all, func(t *try) {
		if t.hit() {
			t.f.run(ctx, t)
		}
		t.finish(ctx)
	})
	return err
}

// each calls f for all trials at the same time.
func each(all []*try, f func(*try)) {
	var wg sync.WaitGroup
	for _, t := range all {
		wg.Go(func() { f(t) })
	}
	wg.Wait()
}
