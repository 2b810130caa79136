package election_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/progtest"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// replicas is how many processes a roll-out replaces.
const replicas = 5

// fleet is what runs one version of a program, and then the next one.
type fleet struct {
	t        *testing.T
	st       *membackend.Store
	numbered bool // with generations
	random   *rand.Rand
	log      progtest.Buffer // of all sessions

	mu     sync.Mutex
	leads  int     // how many lead now
	leader int64   // the version that leads, or led last
	led    []int64 // the versions of all leaderships
	handed int     // how often the work of an old leader was ended for a newer one
}

// process is one replica.
type process struct {
	client *membackend.Client
	stop   context.CancelFunc
	done   chan struct{}
}

// start starts a replica. A broken one fails soon after it has begun to lead.
func (f *fleet) start(version int64, broken bool) *process {
	p := &process{client: f.st.NewClient(), done: make(chan struct{})}
	var ctx context.Context
	ctx, p.stop = context.WithCancel(context.Background())
	s, err := p.client.Open(ctx, &session.Options{Logger: slog.New(slog.NewTextHandler(&f.log, nil))})
	require.NoError(f.t, err)
	o := election.Options{}
	if f.numbered {
		o.Generation = version
	}
	go func() {
		defer close(p.done)
		err := election.NewWith(s, "n", o).Run(ctx, "v", func(ctx context.Context, _ *session.Hold) error {
			return f.work(ctx, version, broken)
		})
		assert.True(f.t, errors.Is(err, context.Canceled) || errors.Is(err, errBroken) || errors.Is(err, session.ErrClosed), "%v", err)
		_ = s.Close()
	}()
	return p
}

var errBroken = errors.New("broken")

// work is what a leader does.
func (f *fleet) work(ctx context.Context, version int64, broken bool) error {
	f.mu.Lock()
	f.leads++
	assert.Equal(f.t, 1, f.leads, "two lead")
	f.leader = version
	f.led = append(f.led, version)
	long, stops := time.Duration(f.random.IntN(3000))*time.Millisecond, time.Duration(f.random.IntN(30))*time.Millisecond
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.leads--
		if errors.Is(context.Cause(ctx), election.ErrHandOver) {
			f.handed++
		}
	}()
	if broken {
		select {
		case <-time.After(long):
			return errBroken
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), session.ErrLost) { // else it is late already
		time.Sleep(stops)
	}
	return nil
}

// ends stops a process as SIGTERM does.
func (p *process) ends() {
	p.stop()
	<-p.done
}

// killed leaves the session of a process to expire.
func (p *process) killed() {
	p.client.Cut(fault.Both)
	time.Sleep(time.Minute)
	p.ends()
}

// draw draws a number below n, and order an order of the replicas.
func (f *fleet) draw(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

func (f *fleet) order() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.Perm(replicas)
}

// steps counts the steps of all candidates.
func (f *fleet) steps() int {
	return strings.Count(f.log.String(), "has stepped")
}

// changes is how often the leadership has moved.
func (f *fleet) changes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.led) - 1
}

// kind is a kind of roll-out.
type kind struct {
	name string
	run  func(f *fleet, old []*process) (young []*process)

	// want is how many changes there are at least and at most with generations.
	least, most int
}

func kinds() []kind {
	// replace replaces the processes in an order; pause is how long a new one is ready before an old one
	// ends, below 0 for the other way round.
	replace := func(f *fleet, old []*process, order []int, newFirst bool, end func(*process)) (young []*process) {
		for _, i := range order {
			if newFirst {
				young = append(young, f.start(2, false))
				time.Sleep(time.Duration(200+f.draw(30000)) * time.Millisecond)
			}
			end(old[i])
			if !newFirst {
				time.Sleep(time.Duration(f.draw(30000)) * time.Millisecond)
				young = append(young, f.start(2, false))
				time.Sleep(200 * time.Millisecond)
			}
		}
		return young
	}
	worst := []int{0, 1, 2, 3, 4}
	return []kind{
		{"new before old, the oldest first", func(f *fleet, old []*process) []*process {
			return replace(f, old, worst, true, (*process).ends)
		}, 1, 1},
		{"new before old, any order", func(f *fleet, old []*process) []*process {
			return replace(f, old, f.order(), true, (*process).ends)
		}, 1, 1},
		{"new before old, killed", func(f *fleet, old []*process) []*process {
			return replace(f, old, f.order(), true, (*process).killed)
		}, 1, 1},
		{"old before new, the oldest first", func(f *fleet, old []*process) []*process {
			return replace(f, old, worst, false, (*process).ends)
		}, 2, 2},
		{"old before new, any order", func(f *fleet, old []*process) []*process {
			return replace(f, old, f.order(), false, (*process).ends)
		}, 1, 2},
		{"a new version that fails", func(f *fleet, old []*process) []*process {
			for range 20 {
				p := f.start(2, true)
				select {
				case <-p.done:
				case <-time.After(time.Minute):
					p.ends()
				}
			}
			return old
		}, 0, 2 * replicas},
	}
}

// TestRollOuts replaces all replicas of a program, many times.
func TestRollOuts(t *testing.T) {
	times := 2
	if tier.All() {
		times = 1000
	}
	for _, k := range kinds() {
		for _, numbered := range []bool{true, false} {
			var changes, steps, handed []int
			for seed := range times {
				synctest.Test(t, func(t *testing.T) {
					f := &fleet{t: t, st: membackend.New(), numbered: numbered, random: rand.New(rand.NewPCG(uint64(seed), 0))}
					var old []*process
					for range replicas {
						old = append(old, f.start(1, false))
						synctest.Wait()
					}
					young := k.run(f, old)
					if numbered {
						assert.GreaterOrEqual(t, f.changes(), k.least, "%s, seed %d: %v", k.name, seed, f.led)
						assert.LessOrEqual(t, f.changes(), k.most, "%s, seed %d: %v", k.name, seed, f.led)
					}
					changes, steps, handed = append(changes, f.changes()), append(steps, f.steps()), append(handed, f.handed)
					for _, p := range slices.Backward(young) {
						p.ends()
					}
				})
			}
			t.Logf("%-34s numbered %-5v changes %s, steps %s, handed over %s", k.name, numbered, spread(changes), spread(steps), spread(handed))
		}
	}
}

// spread is the mean and the greatest of some numbers.
func spread(all []int) string {
	sum := 0
	for _, n := range all {
		sum += n
	}
	return fmt.Sprintf("%.2f (at most %d)", float64(sum)/float64(len(all)), slices.Max(all))
}
