package recipetest

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
)

// yieldKinds are the cases of yield requests to holds of other recipes.
func yieldKinds() []testCase {
	return []testCase{
		{"AYieldRequestReachesADowngradedHold", yieldDowngraded},
		{"AHoldOfSeveralLocksGetsTheYieldRequestsOfEach", yieldAll},
		{"AYieldRequestReachesAllHoldersOfASemaphore", yieldPermits},
		{"AReentrantHoldGetsAYieldRequestOnce", yieldReentrant},
	}
}

func yieldDowngraded(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.holds(writing)
	l := subscribe(w.soon(), h)
	a.downgrade(h)
	w.still("there is no request")
	b.requestYield(name, "one")
	got, err := w.received(l)
	require.NoError(w.t, err)
	assert.Equal(w.t, "one", got.Reason)
	other := b.holds(reading)
	b.requestYield(name, "two")
	require.Equal(w.t, "two", w.nextYield(h), "the first was delivered before")
	require.Equal(w.t, "one", w.nextYield(other), "every reader gets it")
	w.unlock(h)
	w.unlock(other)
}

func yieldAll(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	names := []string{"x", "y", "z"}
	b.requestYield("y", "before")
	b.requestYield("x", "after")
	h := a.holdAll(names...)
	require.ElementsMatch(w.t, []string{"before", "after"}, []string{w.nextYield(h), w.nextYield(h)})
	w.noYield(h)
	for _, n := range []string{"z", "x", "y"} {
		l := subscribe(w.soon(), h)
		w.still("there is no request")
		b.requestYield(n, "because")
		got, err := w.received(l)
		require.NoError(w.t, err)
		assert.Equal(w.t, n, got.Name)
	}
	b.requestYield(strings.Join(names, ", "), "another lock")
	w.noYield(h)
	w.unlock(h)
	_, err := yield.Next(w.soon(), h)
	require.ErrorIs(w.t, err, session.ErrUnlocked)
}

func yieldPermits(w *Fixture) {
	ps := w.clients(3)
	sender := w.Client("sender")
	var received []*subscription
	var holds []*session.Hold
	for _, p := range append(ps, ps[0]) { // one has two of them
		h := p.take(1, 4)
		holds = append(holds, h)
		received = append(received, subscribe(w.soon(), h))
	}
	waiter := sender.wait(1, 4)
	sender.requestYield(name, "one of you")
	for i, l := range received {
		got, err := w.received(l)
		require.NoError(w.t, err)
		assert.Equal(w.t, "one of you", got.Reason, "holder %d", i)
	}
	w.unlock(holds[1])
	h := waiter.woken()
	require.Equal(w.t, "one of you", w.nextYield(h))
	for _, h := range append(holds[2:], holds[0], h) {
		w.unlock(h)
	}
}

func yieldReentrant(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	m := mutex.NewWith(a.Session, name, mutex.Options{Reentrant: true})
	outer, err := m.Lock(w.soon())
	require.NoError(w.t, err)
	inner, err := m.Lock(outer.Context())
	require.NoError(w.t, err)
	b.requestYield(name, "once")
	require.Equal(w.t, "once", w.nextYield(inner))
	w.noYield(outer)
	l, still := subscribe(w.soon(), inner), subscribe(w.soon(), outer)
	w.still("there is no request")
	w.unlock(inner)
	_, err = w.received(l)
	require.ErrorIs(w.t, err, session.ErrUnlocked, "this handle is over, the hold is not")
	b.requestYield(name, "twice")
	got, err := w.received(still)
	require.NoError(w.t, err)
	assert.Equal(w.t, "twice", got.Reason)
	w.unlock(outer)
}
