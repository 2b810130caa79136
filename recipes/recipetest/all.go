package recipetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// several are the cases of locks that are acquired together.
func several() []testCase {
	return []testCase{
		{"OppositeOrdersNeverDeadlock", allOrders},
		{"AllHaveOneTokenThatRisesWithThoseOfOthers", allTokens},
		{"AllCostTwoRequestsInEmptyQueues", allCost},
		{"AllAreFairToSinglesAndTheyToAll", allFair},
		{"TryAllWritesNothingWhenOneIsTaken", allTry},
		{"InsideAllIsInsideEach", allInside},
		{"WhatCannotBeTakenTogetherIsRefused", allRefused},
	}
}

// locks are the locks of those names.
func locks(s *session.Session, names ...string) []*mutex.Mutex {
	all := make([]*mutex.Mutex, len(names))
	for i, n := range names {
		all[i] = mutex.New(s, n)
	}
	return all
}

// wantAll is a request for the locks of those names.
func wantAll(names ...string) locking {
	return func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		return mutex.LockAll(ctx, locks(s, names...)...)
	}
}

// wantOne is a request for the lock of that name.
func wantOne(name string) locking {
	return func(ctx context.Context, s *session.Session) (*session.Hold, error) {
		return mutex.New(s, name).Lock(ctx)
	}
}

// queueAll starts a LockAll and returns when it has a place in all queues.
func (p *Client) queueAll(ctx context.Context, names ...string) *Request {
	p.w.t.Helper()
	return p.queueFor(ctx, wantAll(names...))
}

// joins waits until a request has joined again.
func (p *Client) joins() {
	p.w.t.Helper()
	within(p.w.t, p.w.timeout(), p.joined, "a place in the queue")
}

// holdAll acquires locks that are free.
func (p *Client) holdAll(names ...string) *session.Hold {
	p.w.t.Helper()
	return p.queueAll(p.w.soon(), names...).granted()
}

// holdOne acquires a lock that is free.
func (p *Client) holdOne(name string) *session.Hold {
	p.w.t.Helper()
	return p.queueFor(p.w.soon(), wantOne(name)).granted()
}

// queueHas waits until a queue has that many entries.
func (w *Fixture) queueHas(n int, queue, why string) {
	w.t.Helper()
	deadline := time.Now().Add(w.timeout())
	for w.svc.Count(w.t, queue) != n {
		if time.Now().After(deadline) {
			require.Equal(w.t, n, w.svc.Count(w.t, queue), "%s: %s", queue, why)
		}
		time.Sleep(w.short / 200) // no event shows the count
	}
}

// empty waits until nothing is left in the queues.
func (w *Fixture) empty(queues ...string) {
	w.t.Helper()
	for _, q := range queues {
		w.queueHas(0, q, "nothing is left")
	}
}

// allOrders has many goroutines acquire some of several locks in any order, or one alone.
// Nothing else synchronises what they do while they hold: the race detector checks
// exclusion, and goroutines that wait for each other in a circle never return.
func allOrders(w *Fixture) {
	ps := w.clients(4)
	names := []string{"a", "b", "c", "d"}
	tokens := make([][]session.Token, len(names))
	var wg sync.WaitGroup
	for i := range 8 {
		s := ps[i%len(ps)].Session
		random := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for range 12 {
				some := random.Perm(len(names))[:1+random.IntN(len(names))]
				want := wantOne(names[some[0]])
				if len(some) > 1 {
					var mine []string
					for _, n := range some {
						mine = append(mine, names[n])
					}
					want = wantAll(mine...)
				}
				h, err := want(w.soon(), s)
				if !assert.NoError(w.t, err) {
					return
				}
				for _, n := range some {
					tokens[n] = append(tokens[n], h.Token())
				}
				w.unlock(h)
			}
		})
	}
	wg.Wait()
	for n := range names {
		assert.IsIncreasing(w.t, tokens[n], names[n])
	}
	w.empty(names...)
}

func allTokens(w *Fixture) {
	p := w.Client("p")
	var last session.Token
	for range 3 {
		for _, n := range []string{"a", "b", "c"} {
			h := p.holdOne(n)
			assert.Greater(w.t, h.Token(), last)
			last = h.Token()
			w.unlock(h)
		}
		h := p.holdAll("c", "a", "b")
		assert.Greater(w.t, h.Token(), last)
		last = h.Token()
		assert.Equal(w.t, []string{"c", "a", "b"}, h.Names())
		assert.Len(w.t, Refs(h), 3)
		for _, n := range h.Names() {
			entries := p.entriesOf(n)
			require.Len(w.t, entries, 1)
			assert.EqualValues(w.t, h.Token(), entries[0].Token, "one token in all queues")
		}
		w.unlock(h)
		require.ErrorIs(w.t, h.Unlock(), session.ErrUnlocked)
	}
	w.empty("a", "b", "c")
}

func allCost(w *Fixture) {
	p := w.Client("alone")
	w.unlock(p.holdAll("a", "b", "c")) // the first time queues may have to be made
	p.costsTwo(func() *session.Hold { return p.holdAll("a", "b", "c") })
}

func allFair(w *Fixture) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	held := a.holdOne("x")
	before := b.queueFor(w.soon(), wantOne("x"))
	all := c.queueAll(w.soon(), "y", "x")
	behindX := a.queueFor(w.soon(), wantOne("x"))
	behindY := b.queueFor(w.soon(), wantOne("y"))
	other := b.queueAll(w.soon(), "x", "y")
	w.unlock(held)
	h := before.granted()
	for _, r := range []*Request{all, behindX, behindY, other} {
		require.True(w.t, r.waiting(), "a request overtook")
	}
	w.unlock(h)
	h = all.granted()
	for _, r := range []*Request{behindX, behindY, other} {
		require.True(w.t, r.waiting(), "a request overtook")
	}
	w.unlock(h)
	x, y := behindX.granted(), behindY.granted()
	w.unlock(x)
	require.True(w.t, other.waiting(), "it has one of two")
	w.unlock(y)
	w.unlock(other.granted())
	w.empty("x", "y")
}

func allTry(w *Fixture) {
	a, b := w.Client("holder"), w.Client("b")
	all := func(ctx context.Context) (*session.Hold, error) {
		return mutex.TryLockAll(ctx, locks(b.Session, "x", "y", "z")...)
	}
	for i, n := range []string{"x", "y", "z"} {
		held := a.holdOne(n)
		_, err := w.try(all)
		require.ErrorIs(w.t, err, session.ErrNotAcquired, "%d", i)
		require.ErrorContains(w.t, err, "(holder)")
		for _, queue := range []string{"x", "y", "z"} {
			want := 0
			if queue == n {
				want = 1
			}
			assert.Equal(w.t, want, w.svc.Count(w.t, queue), "it has written nothing")
		}
		assert.Empty(w.t, b.joined)
		w.unlock(held)
	}
	h, err := w.try(all)
	require.NoError(w.t, err)
	w.unlock(h)
	w.empty("x", "y", "z")
}

func allInside(w *Fixture) {
	p := w.Client("p")
	h := p.holdAll("x", "y")
	for _, n := range []string{"x", "y"} {
		_, err := mutex.New(p.Session, n).Lock(h.Context())
		require.ErrorIs(w.t, err, session.ErrReentrant)
		_, err = mutex.LockAll(h.Context(), locks(p.Session, "other", n)...)
		require.ErrorIs(w.t, err, session.ErrReentrant)
		h2, err := mutex.NewWith(p.Session, n, mutex.Options{Reentrant: true}).Lock(h.Context())
		require.NoError(w.t, err)
		assert.Equal(w.t, h.Token(), h2.Token())
		w.unlock(h2)
		require.NoError(w.t, h.Context().Err())
	}
	other, err := mutex.New(p.Session, "other").Lock(h.Context())
	require.NoError(w.t, err)
	entries := p.entriesOf("other")
	require.Len(w.t, entries, 1)
	assert.Equal(w.t, []string{"x", "y"}, metaOf(entries[0]).Holds)
	w.unlock(other)
	w.unlock(h)
	h, err = mutex.LockAll(context.WithoutCancel(h.Context()), locks(p.Session, "x", "y")...)
	require.NoError(w.t, err, "inside nothing any more")
	w.unlock(h)
}

func allRefused(w *Fixture) {
	p, q := w.Client("p"), w.Client("q")
	sent := p.net.Requests()
	refused := func(want error, text string, ms ...*mutex.Mutex) {
		w.t.Helper()
		for _, lockAll := range []func(context.Context, ...*mutex.Mutex) (*session.Hold, error){mutex.LockAll, mutex.TryLockAll} {
			_, err := lockAll(w.soon(), ms...)
			require.ErrorIs(w.t, err, want)
			require.ErrorContains(w.t, err, text)
		}
	}
	x, y := mutex.New(p.Session, "x"), mutex.New(p.Session, "y")
	refused(session.ErrInvalidOptions, "at least two")
	refused(session.ErrInvalidOptions, "at least two", x)
	refused(session.ErrInvalidOptions, `lock "x" is named twice`, x, y, x)
	refused(session.ErrInvalidOptions, "one Session", x, mutex.New(q.Session, "y"))
	refused(session.ErrInvalidOptions, "lock 2 is nil", x, nil)
	refused(session.ErrInvalidOptions, "lock 1 is nil", nil, x)
	refused(session.ErrInvalidName, "empty", x, mutex.New(p.Session, ""))
	refused(session.ErrInvalidOptions, "LockDelay", x, mutex.NewWith(p.Session, "y", mutex.Options{LockDelay: -1}))
	refused(session.ErrClosed, "nil", mutex.New(nil, "x"), mutex.New(nil, "y"))
	most := p.Info().MaxJoin
	require.GreaterOrEqual(w.t, most, 32)
	var names []string
	for i := range most + 1 {
		names = append(names, fmt.Sprintf("many%02d", i))
	}
	refused(session.ErrInvalidOptions, fmt.Sprint("at most ", most), locks(p.Session, names...)...)
	p.silentSince(sent)
	w.unlock(p.holdAll(slices.Sorted(slices.Values(names[1:]))...))
	w.empty(names...)
	require.NoError(w.t, p.Close())
	refused(session.ErrClosed, "", x, y)
}
