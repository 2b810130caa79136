package election_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/progtest"
	"github.com/fairlock/fairlock/internal/rollout"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/session"
)

// replicas is how many processes a roll-out replaces.
const replicas = rollout.Replicas

// ttl is that of all sessions.
const ttl = 10 * time.Second

// roundTrip is that of each request of a roll-out. An event takes half of it.
const roundTrip = 4 * time.Millisecond

// handOff is how long a leadership takes to another candidate: the release, and its event.
const handOff = roundTrip

// fleet is what runs one version of a program, and then the next one.
type fleet struct {
	*rollout.Fleet
	t        *testing.T
	st       *membackend.Store
	numbered bool            // with generations
	life     time.Duration   // of a new leader, at most, which then fails; 0: it does not
	log      progtest.Buffer // of all sessions
	older    int             // how many replicas of the old version run
	most     int             // how many steps there may be

	handed atomic.Int64 // how often the work of an old leader was ended for a newer one
}

// start starts a replica.
func (f *fleet) start(version int64) rollout.Replica {
	c := f.st.NewClient()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := c.Open(ctx, &session.Options{TTL: ttl, Logger: slog.New(slog.NewTextHandler(&f.log, nil))})
	require.NoError(f.t, err)
	c.DelayRequests(roundTrip / 2)
	c.Delay(roundTrip / 2)
	o := election.Options{}
	if f.numbered {
		o.Generation = version
	}
	if version == rollout.Old {
		f.older++
	} else {
		f.most += f.older
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := election.NewWith(s, "n", o).Run(ctx, "v", func(ctx context.Context, _ *session.Hold) (err error) {
			f.Lead(version, func() { err = f.work(ctx, version) })
			return err
		})
		assert.True(f.t, errors.Is(err, context.Canceled) || errors.Is(err, errBroken) || errors.Is(err, session.ErrClosed), "%v", err)
		_ = s.Close()
	}()
	end := func() {
		cancel()
		<-done
		if version == rollout.Old {
			f.older--
		}
	}
	return rollout.Replica{Ended: done, Stop: end, Kill: func() {
		c.Cut(fault.Both)
		time.Sleep(2 * ttl)
		end()
	}}
}

var errBroken = errors.New("broken")

// work is what a leader does.
func (f *fleet) work(ctx context.Context, version int64) error {
	if f.life > 0 && version == rollout.New {
		select {
		case <-time.After(f.Draw(f.life)):
			return errBroken
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), session.ErrLost) { // else it is late already
		time.Sleep(f.StopTime())
	}
	if errors.Is(context.Cause(ctx), election.ErrHandOver) {
		f.handed.Add(1)
	}
	return nil
}

// steps counts the steps of all candidates.
func (f *fleet) steps() int {
	return strings.Count(f.log.String(), "has stepped")
}

// crashes starts a new replica that fails again and again, and leaves the old ones as they are.
func crashes(f *fleet, old []rollout.Replica) []rollout.Replica {
	for range replicas + 3 {
		r := f.start(rollout.New)
		select {
		case <-r.Ended:
		case <-time.After(time.Minute):
			r.Stop()
		}
	}
	return old
}

// justBefore ends old replicas while candidates may step. The step that is under way then goes on: its
// answer, the release of the entry that it leaves, and the event of that.
func justBefore(f *fleet, old []rollout.Replica) []rollout.Replica {
	f.Least, f.Most = roundTrip, 15*roundTrip
	return f.Replace(old, rollout.Script{NewFirst: true, AnyOrder: true})
}

// kind is a kind of roll-out.
type kind struct {
	name string
	run  func(f *fleet, old []rollout.Replica) (young []rollout.Replica)

	// least and most are how many changes there are with generations.
	least, most int

	// gap is how long the 99th percentile of the gaps may be with generations, after a hand-off. Below
	// 0 there is no bound: if a leader is killed, its session has to expire.
	gap time.Duration

	life time.Duration // see fleet
}

func kinds() []kind {
	script := func(s rollout.Script, least, most int) kind {
		k := kind{s.String(), func(f *fleet, old []rollout.Replica) []rollout.Replica { return f.Replace(old, s) }, least, most, 10 * time.Millisecond, 0}
		if s.Kill {
			k.gap = -1
		}
		return k
	}
	return []kind{
		script(rollout.Script{NewFirst: true}, 1, 1),
		script(rollout.Script{NewFirst: true, AnyOrder: true}, 1, 1),
		script(rollout.Script{NewFirst: true, AnyOrder: true, Kill: true}, 1, 1),
		script(rollout.Script{}, 2, 2),
		script(rollout.Script{AnyOrder: true}, 1, 2),
		{"a new version that fails", crashes, 0, 2 * replicas, 10 * time.Millisecond, 3 * time.Second},
		{"new just before old, any order", justBefore, 1, 5, 3 * roundTrip, 0},
	}
}

var rollOuts = flag.Int("rollouts", 0, "how many roll-outs of each kind there are; 0: a few")

// TestRollOuts replaces all replicas of a program, many times.
func TestRollOuts(t *testing.T) {
	times := *rollOuts
	if times == 0 {
		times = 2
		if tier.All() {
			times = 100
		}
	}
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			gaps := k.many(t, times, true)
			if k.gap >= 0 {
				assert.LessOrEqual(t, percentile(gaps, 99), handOff+k.gap)
			}
			k.many(t, times, false)
		})
	}
}

// many makes many roll-outs, and returns the gaps, the least first.
func (k kind) many(t *testing.T, times int, numbered bool) (gaps []time.Duration) {
	var changes, steps, handed []int
	for seed := range times {
		synctest.Test(t, func(t *testing.T) {
			f := &fleet{t: t, st: membackend.New(), numbered: numbered, life: k.life}
			f.Fleet = rollout.NewFleet(seed, f.start)
			f.Least, f.Most = 200*time.Millisecond, 20*time.Second
			young := k.run(f, f.First())
			seen, stepped, to := f.Seen(), f.steps(), int(f.handed.Load())
			about := fmt.Sprintf("seed %d: %v, %d steps", seed, seen.Led, stepped)
			assert.Zero(t, seen.Overlaps, about)
			if numbered {
				assert.GreaterOrEqual(t, seen.Changes(), k.least, about)
				assert.LessOrEqual(t, seen.Changes(), k.most, about)
				assert.LessOrEqual(t, stepped, f.most, about)
				assert.LessOrEqual(t, to, replicas, about)
			}
			changes, steps, handed, gaps = append(changes, seen.Changes()), append(steps, stepped), append(handed, to), append(gaps, seen.Gaps...)
			rollout.Stop(young)
		})
	}
	slices.Sort(gaps)
	t.Logf("%s: numbered %v, changes %s, steps %s, handed over %s, %d gaps p50 %v, p99 %v",
		k.name, numbered, spread(changes), spread(steps), spread(handed), len(gaps), percentile(gaps, 50), percentile(gaps, 99))
	return gaps
}

// percentile returns a percentile of sorted times.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*p/100]
}

// spread is the mean and the greatest of some numbers.
func spread(all []int) string {
	sum := 0
	for _, n := range all {
		sum += n
	}
	return fmt.Sprintf("%.2f (at most %d)", float64(sum)/float64(len(all)), slices.Max(all))
}
