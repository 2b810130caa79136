package session_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

type contextKey struct{}

// inside reports whether ctx came from a live hold of that name.
func inside(ctx context.Context, s *session.Session, name string) bool {
	rs := []engine.Request{{Name: name}}
	core.Of(s).Reenter(ctx, rs)
	return errors.Is(rs[0].Err, session.ErrReentrant)
}

// chain is holds of which each was acquired with the context of the one before.
type chain struct {
	names  int // of the locks, which take turns
	opts   mutex.Options
	lock   func(*mutex.Mutex, context.Context) (*session.Hold, error)
	length int // how many are held between two steps

	n    int // how many there have been
	live []*session.Hold
}

// step acquires one more hold, and releases the oldest if there are enough.
func (c *chain) step(ctx context.Context, t *testing.T, s *session.Session) {
	t.Helper()
	if len(c.live) > 0 {
		ctx = c.live[len(c.live)-1].Context()
	}
	h, err := c.lock(mutex.NewWith(s, "n"+strconv.Itoa(c.n%c.names), c.opts), ctx)
	require.NoError(t, err)
	c.n++
	c.live = append(c.live, h)
	if len(c.live) > c.length {
		require.NoError(t, c.live[0].Unlock())
		c.live = slices.Delete(c.live, 0, 1)
	}
}

// check checks what the context of the newest hold shows. That also takes holds that are over
// out of the chain, so it is not part of a step.
func (c *chain) check(t *testing.T) {
	t.Helper()
	var names []string
	for _, h := range slices.Backward(c.live) {
		names = append(names, h.Name())
	}
	newest := c.live[len(c.live)-1].Context()
	require.Equal(t, names, engine.Held(newest))
	require.Equal(t, "value", newest.Value(contextKey{}))
}

// TestHandOverHandKeepsNothing is about holds that are acquired with the context of the
// one before, of which the oldest is then released: a step costs the same after any number
// of steps, and nothing of the steps before is kept.
func TestHandOverHandKeepsNothing(t *testing.T) {
	lock, try := (*mutex.Mutex).Lock, (*mutex.Mutex).TryLock
	for name, c := range map[string]*chain{
		"Lock":      {names: 3, lock: lock, length: 2},
		"TryLock":   {names: 2, lock: try, length: 1},
		"Reentrant": {names: 1, lock: lock, length: 2, opts: mutex.Options{Reentrant: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { handOverHandKeepsNothing(t, c) })
		})
	}
}

func handOverHandKeepsNothing(t *testing.T, c *chain) {
	var reads atomic.Int64
	s, err := core.Open(t.Context(), clocked{membackend.New().Backend(), func(at driver.Instant) driver.Instant {
		reads.Add(1)
		return at
	}}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	ctx := context.WithValue(t.Context(), contextKey{}, "value")
	steps := func(n int) {
		for range n {
			c.step(ctx, t, s)
		}
	}
	apart := func(n int) { // what the store and the test keep of as many holds
		for i := range n {
			other, err := mutex.New(s, "other"+strconv.Itoa(i%2)).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, other.Unlock())
		}
	}
	reading := func() int64 { // by a step; a timer may add to it
		least := int64(1 << 60)
		for range 20 {
			before := reads.Load()
			steps(1)
			least = min(least, reads.Load()-before)
		}
		return least
	}
	heap := func() int64 {
		time.Sleep(2 * time.Second) // what waits for holds to last is over
		synctest.Wait()
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // it fits
	}

	for range 100 {
		steps(1)
		c.check(t)
	}
	steps(100)
	first := reading()
	const more = 3000
	growth := func(f func(int)) int64 {
		before := heap()
		f(more)
		return (heap() - before) / more
	}
	alone := int64(0) // one more handle sends nothing
	if !c.opts.Reentrant {
		alone = growth(apart)
	}
	assert.Less(t, growth(steps)-alone, int64(100), "bytes that a step keeps, more than a hold that has none around it")
	assert.Equal(t, first, reading(), "reads of the clock in a step: one for each hold that it goes through")
	c.check(t)
	for _, h := range c.live {
		require.NoError(t, h.Unlock())
	}
}

// TestAnOuterHoldCountsThroughOnesThatAreOver: a context that comes from a hold that is
// over is still inside the live holds around that.
func TestAnOuterHoldCountsThroughOnesThatAreOver(t *testing.T) {
	_, _, s, outer := hold(t)
	h := outer
	for i := range 4 {
		inner, err := mutex.New(s, strconv.Itoa(i)).Lock(h.Context())
		require.NoError(t, err)
		if i > 0 {
			require.NoError(t, h.Unlock())
		}
		h = inner
	}
	assert.Equal(t, []string{"3", "n"}, engine.Held(h.Context()))
	require.NoError(t, h.Unlock())
	for range 2 {
		assert.Equal(t, []string{"n"}, engine.Held(h.Context()))
		assert.True(t, inside(h.Context(), s, "n"))
	}
	require.NoError(t, outer.Unlock())
	assert.Empty(t, engine.Held(h.Context()))
	assert.False(t, inside(h.Context(), s, "n"))
}

// TestTheContextOfAHoldCarriesWhatIsAddedOnTheWay: values that are added between two
// holds are seen in the inner one, and its end is its own.
func TestTheContextOfAHoldCarriesWhatIsAddedOnTheWay(t *testing.T) {
	_, _, s, outer := hold(t)
	type other struct{}
	ctx, cancel := context.WithCancel(context.WithValue(outer.Context(), other{}, 1))
	inner, err := mutex.New(s, "inner").Lock(ctx)
	require.NoError(t, err)
	cancel()
	require.NoError(t, inner.Context().Err(), "the work may still run; only Unlock releases")
	require.NoError(t, outer.Unlock())
	innermost, err := mutex.New(s, "innermost").Lock(inner.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Unlock())

	assert.Equal(t, 1, innermost.Context().Value(other{}))
	require.NoError(t, innermost.Context().Err())
	child, cancel := context.WithCancel(innermost.Context())
	defer cancel()
	require.NoError(t, innermost.Unlock())
	require.ErrorIs(t, context.Cause(child), session.ErrReleased)
}
