package recipetest

import (
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

// askedKinds are the cases of holds of other kinds that are asked for.
func askedKinds() []testCase {
	return []testCase{
		{"AHolderIsAskedThroughADowngrade", askedDowngraded},
		{"AHoldOfSeveralLocksIsAskedForEach", askedAll},
		{"AllHoldersOfASemaphoreAreAsked", askedPermits},
		{"AReentrantHoldIsToldOnce", askedReentrant},
	}
}

func askedDowngraded(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.holds(writing)
	l := listen(w.soon(), h)
	a.downgrade(h)
	w.still("nobody asks")
	b.asksFor(name, "one")
	got, err := w.heard(l)
	require.NoError(w.t, err)
	assert.Equal(w.t, "one", got.Reason)
	beside := b.holds(reading)
	b.asksFor(name, "two")
	require.Equal(w.t, "two", w.asked(h), "the first was told before")
	require.Equal(w.t, "one", w.asked(beside), "every reader is asked")
	w.unlock(h)
	w.unlock(beside)
}

func askedAll(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	names := []string{"x", "y", "z"}
	b.asksFor("y", "before")
	b.asksFor("x", "after")
	h := a.holdAll(names...)
	require.ElementsMatch(w.t, []string{"before", "after"}, []string{w.asked(h), w.asked(h)})
	w.unasked(h)
	for _, n := range []string{"z", "x", "y"} {
		l := listen(w.soon(), h)
		w.still("nobody asks")
		b.asksFor(n, "because")
		got, err := w.heard(l)
		require.NoError(w.t, err)
		assert.Equal(w.t, n, got.Name)
	}
	b.asksFor(strings.Join(names, ", "), "another lock")
	w.unasked(h)
	w.unlock(h)
	_, err := h.Asked(w.soon())
	require.ErrorIs(w.t, err, session.ErrUnlocked)
}

func askedPermits(w *Fixture) {
	ps := w.clients(3)
	asker := w.Client("asker")
	var heard []*listening
	var holds []*session.Hold
	for _, p := range append(ps, ps[0]) { // one has two of them
		h := p.take(1, 4)
		holds = append(holds, h)
		heard = append(heard, listen(w.soon(), h))
	}
	waiter := asker.wait(1, 4)
	asker.asksFor(name, "one of you")
	for i, l := range heard {
		got, err := w.heard(l)
		require.NoError(w.t, err)
		assert.Equal(w.t, "one of you", got.Reason, "holder %d", i)
	}
	w.unlock(holds[1])
	h := waiter.woken()
	require.Equal(w.t, "one of you", w.asked(h))
	for _, h := range append(holds[2:], holds[0], h) {
		w.unlock(h)
	}
}

func askedReentrant(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	m := mutex.NewWith(a.Session, name, mutex.Options{Reentrant: true})
	outer, err := m.Lock(w.soon())
	require.NoError(w.t, err)
	inner, err := m.Lock(outer.Context())
	require.NoError(w.t, err)
	b.asksFor(name, "once")
	require.Equal(w.t, "once", w.asked(inner))
	w.unasked(outer)
	l, still := listen(w.soon(), inner), listen(w.soon(), outer)
	w.still("nobody asks")
	w.unlock(inner)
	_, err = w.heard(l)
	require.ErrorIs(w.t, err, session.ErrUnlocked, "this handle is over, the hold is not")
	b.asksFor(name, "twice")
	got, err := w.heard(still)
	require.NoError(w.t, err)
	assert.Equal(w.t, "twice", got.Reason)
	w.unlock(outer)
}
