package trial

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/history"
)

// Test tests one lock on one service.
type Test struct {
	// First is the number of the first round of each kind, to repeat a round. 0 means 1.
	First int64

	// Recipes are those of Fairlock's trials, in turns; all if empty.
	Recipes []history.Recipe

	svc  Service
	lock string
	seed uint64

	mu     sync.Mutex
	rounds map[string]int64 // rounds, by kind
}

// New returns a robustness test whose scripts are drawn from a seed. The same seed, kind and
// round number give the same scripts, except of a Soak, whose clients draw as they run. The
// servers and clients may still behave differently.
func New(svc Service, lock string, seed uint64) *Test {
	return &Test{svc: svc, lock: lock, seed: seed, rounds: map[string]int64{}}
}

// number returns the number of the next round of a kind.
func (r *Test) number(kind string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := max(r.First, 1) + r.rounds[kind]
	r.rounds[kind]++
	return n
}

// Kinds returns the names of all kinds of faults. Rounds of those aimed at clients may run
// at the same time; a round of those aimed at servers must run alone. Not every service
// supports all of them, see Round.
func (r *Test) Kinds(ctx context.Context) (clients, servers []string, err error) {
	clients, servers = Aimed()
	if r.lock != Ours {
		clients = slices.DeleteFunc(clients, func(kind string) bool { return find(kind).rollout })
	}
	if breaker(r.svc) != nil {
		servers = nil
		for _, k := range processKinds() {
			clients = append(clients, k.name)
		}
		for _, k := range breaks(r.svc) {
			if (r.lock == Ours || !k.breaks.Own) && !k.breaks.Beyond {
				servers = append(servers, k.name)
			}
		}
	}
	c, err := r.svc.Client(ctx, r.lock)
	if err != nil {
		return nil, nil, fmt.Errorf("trial: %w", err)
	}
	for _, request := range c.Kinds() {
		clients = append(clients, lostPrefix+request)
	}
	return clients, servers, c.Close()
}

// Round runs n trials of a kind at the same time. Each has its own queue and clients; a
// fault that is aimed at servers is injected once for all. Round returns an error that wraps
// errors.ErrUnsupported if the service does not support the fault, and another error if the
// service cannot be used any more. Everything else that goes wrong is in the results.
func (r *Test) Round(ctx context.Context, name string, n int) ([]*Result, error) {
	k := find(name, breaks(r.svc)...)
	if k == nil {
		return nil, fmt.Errorf("trial: there is no kind %q", name)
	}
	number := r.number(name)
	hash := fnv.New64a()
	_, _ = fmt.Fprint(hash, r.seed, name, number) // never fails
	seed := hash.Sum64()
	a := &aim{svc: r.svc, rng: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // scripts, not secrets
	meter := stallMeter{metronome.Start()}
	all := make([]*trial, n)
	for i := range all {
		all[i] = r.newTrial(k, a, seed, number, i)
		all[i].meter = meter
	}
	var err error
	if k.server() {
		err = runTogether(ctx, k, a, all)
	} else {
		var wg sync.WaitGroup
		for _, tr := range all {
			wg.Go(func() { runAlone(ctx, k, tr) })
		}
		wg.Wait()
	}
	meter.Stop()
	results := make([]*Result, n)
	for i, tr := range all {
		tr.judge()
		results[i] = &tr.Result
	}
	if err != nil {
		err = fmt.Errorf("trial: %s: %w", name, err)
	}
	return results, err
}

// recipe returns the recipe of trial i: Fairlock's trials take turns, the peers have mutexes
// only.
func (r *Test) recipe(k *kind, i int) history.Recipe {
	all := r.Recipes
	if len(all) == 0 {
		all = []history.Recipe{history.Mutex, history.Semaphore, history.ReadWrite, history.Reentrant}
	}
	if r.lock != Ours || k.process || k.shared || k.rollout {
		return history.Mutex
	}
	return all[i%len(all)]
}

// quiet reports whether the holds of trial i are asked nothing until their contexts have
// ended: of Fairlock, in every second trial of each recipe.
func (r *Test) quiet(i int) bool { return r.lock == Ours && (i+i/4)%2 == 1 }

func (r *Test) newTrial(k *kind, a *aim, seed uint64, round int64, i int) *trial {
	queue := history.Queue{Name: fmt.Sprintf("%s-%d-%d", k.name, round, i), Recipe: r.recipe(k, int(round)+i)}
	if queue.Recipe == history.Semaphore {
		queue.Limit = 3
	}
	return &trial{
		svc: r.svc, lock: r.lock, kind: k, aim: a, n: i, queue: queue, quiet: r.quiet(int(round) + i),
		rng: rand.New(rand.NewPCG(seed, uint64(i)+1)), //nolint:gosec // scripts, not secrets
		Result: Result{
			Service: r.svc.Name(), Lock: r.lock, Kind: k.name, Recipe: queue.Recipe, Queue: queue.Name, Seed: r.seed, Round: round,
			Transport: r.svc.Transport(),
		},
	}
}

// runAlone runs a trial whose fault is aimed at a client.
func runAlone(ctx context.Context, k *kind, tr *trial) {
	if err := tr.setUp(ctx); err != nil {
		tr.miss("before the fault: %v", err)
	} else {
		k.run(ctx, tr)
	}
	tr.finish(ctx)
}

// runTogether runs a round whose fault is aimed at servers.
func runTogether(ctx context.Context, k *kind, a *aim, all []*trial) error {
	if k.choose != nil {
		if err := k.choose(ctx, a); err != nil {
			return err
		}
	}
	up := setUpTogether(ctx, all)
	poll := pollLeader(ctx, a.svc.Leader)
	defer poll.end()
	for _, tr := range all {
		tr.leaderPoll = poll
	}
	faultErr := k.inject(ctx, a, up)
	up = slices.DeleteFunc(up, func(tr *trial) bool { return tr.notSetUp }) // a set-up may be repeated late
	if faultErr == nil {
		each(up, func(tr *trial) { k.after(ctx, tr) })
	} else {
		for _, tr := range up {
			tr.miss("%v", faultErr)
		}
	}
	var err error
	if k.heal != nil {
		err = k.heal(ctx, a, up)
	}
	well, cancel := context.WithTimeout(ctx, 2*timeout)
	defer cancel()
	err = errors.Join(err, a.svc.Healthy(well))
	each(all, func(tr *trial) { tr.finish(ctx) })
	if errors.Is(faultErr, errors.ErrUnsupported) {
		return faultErr
	}
	return err
}

// setUpTogether sets up all trials. When the last one is set up, it sets up those again that
// are no longer ready. It returns those that could be set up.
func setUpTogether(ctx context.Context, all []*trial) (up []*trial) {
	todo := all
	for len(todo) > 0 {
		each(todo, func(tr *trial) {
			if tr.setups > 0 {
				tr.startOver(ctx)
			}
			if err := tr.setUp(ctx); err != nil {
				tr.miss("before the fault: %v", err)
				tr.notSetUp = true
			}
		})
		up, todo = nil, nil
		for _, tr := range all {
			switch {
			case tr.notSetUp:
			case tr.checkReady() != nil && tr.setups < maxSetups:
				todo = append(todo, tr)
			default:
				up = append(up, tr)
			}
		}
	}
	for _, tr := range up {
		if err := errors.Join(tr.checkReady(), tr.checkConnected(ctx)); err != nil {
			tr.miss("before the fault: %v", err)
		}
	}
	return up
}

// setUpAgain opens all clients again, and returns the trials that could be set up.
func setUpAgain(ctx context.Context, all []*trial) []*trial {
	each(all, func(tr *trial) {
		tr.startOver(ctx)
		if err := tr.setUp(ctx); err != nil {
			tr.miss("before the fault: %v", err)
			tr.notSetUp = true
		}
	})
	return slices.DeleteFunc(slices.Clone(all), func(tr *trial) bool { return tr.notSetUp })
}

// each calls f for all trials at the same time.
func each(all []*trial, f func(*trial)) {
	var g errgroup.Group
	for _, tr := range all {
		g.Go(func() error {
			f(tr)
			return nil
		})
	}
	_ = g.Wait() // f notes what fails
}

// Wait bounds the duration of one round.
const Wait = 5 * time.Minute
