package trial

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/robustness/history"
)

// Test tries one lock on one service.
type Test struct {
	// First is the number of the first round of each kind, for one that is to be
	// played again. 0 is 1.
	First int64

	svc  Service
	lock string
	seed uint64

	mu     sync.Mutex
	played map[string]int64 // rounds, by kind
}

// New returns a robustness test whose scripts are drawn from a seed. The seed, the
// kind and the number of a round draw the same scripts again; what the servers and
// clients make of them is another matter.
func New(svc Service, lock string, seed uint64) *Test {
	return &Test{svc: svc, lock: lock, seed: seed, played: map[string]int64{}}
}

// number counts the rounds of a kind.
func (r *Test) number(kind string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := max(r.First, 1) + r.played[kind]
	r.played[kind]++
	return n
}

// Kinds are the names of all kinds of faults: those aimed at clients, of which
// rounds may be played at the same time, and those aimed at servers, of which one
// round must be alone. Not every service knows all of them, see Round.
func (r *Test) Kinds(ctx context.Context) (clients, servers []string, err error) {
	clients, servers = Aimed()
	c, err := r.svc.Client(ctx, r.lock)
	if err != nil {
		return nil, nil, fmt.Errorf("trial: %w", err)
	}
	for _, request := range c.Kinds() {
		clients = append(clients, losing+request)
	}
	return clients, servers, c.Close()
}

// Round makes n trials of a kind, at the same time: each with its own line and its
// own clients, and faults aimed at servers once for all. It returns an error that
// is errors.ErrUnsupported if the service knows no such fault, and another one if
// the service is of no use any more. What else goes wrong is in the results.
func (r *Test) Round(ctx context.Context, name string, n int) ([]*Result, error) {
	k := find(name)
	if k == nil {
		return nil, fmt.Errorf("trial: there is no kind %q", name)
	}
	number := r.number(name)
	hash := fnv.New64a()
	_, _ = fmt.Fprint(hash, r.seed, name, number) // it cannot fail
	seed := hash.Sum64()
	a := &aim{svc: r.svc, rng: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // scripts, not secrets
	beat := beat{metronome.Start()}
	all := make([]*stage, n)
	for i := range all {
		all[i] = r.stage(k, a, seed, number, i)
		all[i].beat = beat
	}
	var err error
	if k.server() {
		err = playTogether(ctx, k, a, all)
	} else {
		var wg sync.WaitGroup
		for _, st := range all {
			wg.Go(func() { playAlone(ctx, k, st) })
		}
		wg.Wait()
	}
	beat.Stop()
	results := make([]*Result, n)
	for i, st := range all {
		st.judge()
		results[i] = &st.Result
	}
	if err != nil {
		err = fmt.Errorf("trial: %s: %w", name, err)
	}
	return results, err
}

// recipes are what the trials of a round take in turn.
func (r *Test) recipe(k *kind, i int) history.Recipe {
	all := []history.Recipe{history.Mutex, history.Semaphore, history.ReadWrite, history.Reentrant}
	if r.lock != Ours || k.process {
		return history.Mutex
	}
	return all[i%len(all)]
}

func (r *Test) stage(k *kind, a *aim, seed uint64, round int64, i int) *stage {
	line := history.Queue{Name: fmt.Sprintf("%s-%d-%d", k.name, round, i), Recipe: r.recipe(k, int(round)+i)}
	if line.Recipe == history.Semaphore {
		line.Limit = 3
	}
	return &stage{
		svc: r.svc, lock: r.lock, kind: k, aim: a, n: i, line: line,
		rng: rand.New(rand.NewPCG(seed, uint64(i)+1)), //nolint:gosec // scripts, not secrets
		Result: Result{
			Service: r.svc.Name(), Lock: r.lock, Kind: k.name, Recipe: line.Recipe, Line: line.Name, Seed: r.seed, Round: round,
		},
	}
}

// playAlone plays a trial whose fault is aimed at a client.
func playAlone(ctx context.Context, k *kind, st *stage) {
	if err := st.cast(ctx); err != nil {
		st.miss("before the fault: %v", err)
	} else {
		k.play(ctx, st)
	}
	st.finish(ctx)
}

// playTogether plays a round whose fault is aimed at servers.
func playTogether(ctx context.Context, k *kind, a *aim, all []*stage) error {
	if k.choose != nil {
		if err := k.choose(ctx, a); err != nil {
			return err
		}
	}
	up := castTogether(ctx, all)
	led := watchLeader(ctx, a.svc.Leader)
	defer led.end()
	for _, st := range all {
		st.reign = led
	}
	struck := k.strike(ctx, a, up)
	if struck == nil {
		each(up, func(st *stage) { k.after(ctx, st) })
	} else {
		for _, st := range up {
			st.miss("%v", struck)
		}
	}
	var err error
	if k.heal != nil {
		err = k.heal(ctx, a, up)
	}
	well, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	err = errors.Join(err, a.svc.Healthy(well))
	each(all, func(st *stage) { st.finish(ctx) })
	if errors.Is(struck, errors.ErrUnsupported) {
		return struck
	}
	return err
}

// castTogether casts all stages, and those again that are not as they should be
// when the last one is. It returns those that the fault can strike.
func castTogether(ctx context.Context, all []*stage) (up []*stage) {
	todo := all
	for len(todo) > 0 {
		each(todo, func(st *stage) {
			if st.casts > 0 {
				st.anew()
			}
			if err := st.cast(ctx); err != nil {
				st.miss("before the fault: %v", err)
				st.down = true
			}
		})
		up, todo = nil, nil
		for _, st := range all {
			switch {
			case st.down:
			case st.ready() != nil && st.casts < casts:
				todo = append(todo, st)
			default:
				up = append(up, st)
			}
		}
	}
	for _, st := range up {
		if err := errors.Join(st.ready(), st.there(ctx)); err != nil {
			st.miss("before the fault: %v", err)
		}
	}
	return up
}

// each calls f for all stages at the same time.
func each(all []*stage, f func(*stage)) {
	var g errgroup.Group
	for _, st := range all {
		g.Go(func() error {
			f(st)
			return nil
		})
	}
	_ = g.Wait() // f notes what goes wrong
}

// Wait bounds one round, whatever happens in it.
const Wait = 5 * time.Minute
