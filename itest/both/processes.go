package both

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/worker"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

func twentyProcesses(t *testing.T, s Processes) {
	monitor := s.Monitor(t)
	turns := worker.Job{
		Do: worker.Turns, Servers: s.Servers(), Root: s.Root(), Name: "x", TTL: recipetest.CalmTTL, Turns: 10,
	}.TakenByMany(t, 20)

	monitor.CheckTurns(t, turns, false)
}

// hundredGoroutines has some goroutines give up while they wait: they leave, and all others
// keep their places.
func hundredGoroutines(t *testing.T, s Processes) {
	const goroutines, each = 100, 5
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	monitor := s.Monitor(t)
	c := s.Client(t, recipetest.CalmTTL)
	m := mutex.New(c.Session, "x")
	type report struct {
		turn worker.Turn
		err  error
	}
	reports := make(chan report, goroutines*each)
	for g := range goroutines {
		random := rand.New(rand.NewPCG(seed, uint64(g)))
		go func() { // ends with its turns, or with the session
			for range each {
				ctx, cancel := context.WithCancel(context.Background())
				if random.IntN(3) == 0 {
					time.AfterFunc(time.Duration(random.Int64N(int64(100*time.Millisecond))), cancel)
				}
				var r report
				h, err := m.Lock(ctx)
				if r.err = err; err == nil {
					r.turn = worker.TurnOf(h)
					r.turn.End = recipetest.Now()
					recipetest.Unlock(t, h)
				}
				cancel()
				reports <- r
			}
		}()
	}
	var turns []worker.Turn
	for range goroutines * each {
		r := recipetest.Wait(t, reports, "a turn")
		if r.err != nil {
			require.ErrorIs(t, r.err, context.Canceled)
			continue
		}
		turns = append(turns, r.turn)
	}
	c.Kept(t)

	require.Less(t, len(turns), goroutines*each, "some gave up")
	monitor.CheckTurns(t, turns, true)
}

// processesCrash kills processes that hold and that wait.
func processesCrash(t *testing.T, s Processes) {
	t.Run("recipes", func(t *testing.T) {
		for _, recipe := range worker.Recipes() {
			t.Run(recipe, func(t *testing.T) {
				t.Parallel()
				worker.Job{Servers: s.Servers(), Root: s.Root(), Name: recipe, Recipe: recipe, TTL: 2 * time.Second}.Crashes(t, 4, 4)
			})
		}
	})
	c := s.Client(t, recipetest.CalmTTL)
	recipetest.Until(t, "no queue with an entry", func() bool {
		names, err := c.Names(recipetest.Bounded(t), "")
		require.NoError(t, err)
		return len(names) == 0
	})
}

func stoppedHolderIsRefused(t *testing.T, s Processes) {
	const ttl = 2 * time.Second
	monitor := s.Monitor(t)
	key := s.Key(t)
	resource := worker.NewResource(t)
	old := worker.Job{
		Do: worker.Hold, Servers: s.Servers(), Root: s.Root(), Name: "x", TTL: ttl, Key: key, Resource: resource.URL,
	}.Start(t)
	held := worker.Report[worker.Held](t, old)
	c := s.Client(t, recipetest.CalmTTL)
	next := c.Begin(recipetest.Bounded(t), "x")
	monitor.SeesMade(t, 2)

	stopped := recipetest.Now()
	require.NoError(t, old.Pause())
	h := next.Granted(t)
	gone := monitor.EndOf(t, worker.Turn{Token: held.Token, Key: held.Key})
	require.True(t, s.Write(t, h, key, "in time"))
	require.True(t, resource.Put(h.Token()))
	old.Send(t, "write") // the process reads that first when it goes on
	require.NoError(t, old.Resume())
	r := worker.Report[worker.Written](t, old)
	old.Ends(t)

	r.Refused(t, held.Token, h)
	assert.True(t, s.Write(t, h, key, "still in time"))
	require.True(t, resource.Put(h.Token()))
	value, times := s.Written(t, key)
	assert.Equal(t, "still in time", value)
	assert.Equal(t, 2, times, "writes that went through")
	written, refused := resource.Counts()
	assert.Equal(t, [2]int{2, 1}, [2]int{written, refused}, "writes to the resource that went through, and were refused")
	t.Logf("stopped holder's entry gone after %s, next granted %s later; the context of the holder ended %s after it went on: %s",
		gone.Sub(stopped), next.At.Sub(gone), r.LostAfter, r.Cause)
	recipetest.Unlock(t, h)
	c.Kept(t)
	monitor.SeesNothingLeft(t)
}
