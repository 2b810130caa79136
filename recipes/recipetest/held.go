package recipetest

import (
	"context"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
)

// heldFor are the cases of the time of a grant, which the queue shows.
func heldFor() []testCase {
	return []testCase{
		{"AHolderThatWaitedHasHeldSinceItsGrantOnly", heldSinceGrant},
		{"ReadersLeadersAndPermitsAreRecorded", heldOfAnyKind},
		{"ARecordEndsWithItsHold", heldAndGone},
		{"ADowngradedHoldKeepsItsGrant", heldDowngraded},
	}
}

// recorded waits until the queue shows since when its first entry holds, and returns
// the entry.
func (p *Client) recorded() (first session.Entry) {
	p.w.t.Helper()
	p.w.until("since when the first entry holds", func() bool {
		entries := p.entries()
		if len(entries) == 0 {
			return false
		}
		first = Shown(entries[0])
		return !first.Granted.IsZero()
	})
	return first
}

// heldSinceGrant has b wait while a holds. The release lies between b's request and b's
// grant.
func heldSinceGrant(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	r := b.queue(w.soon())
	a.recorded()
	released := b.Clock().Wall().Truncate(time.Millisecond)
	w.unlock(h)
	held := r.granted()
	holds := b.Clock().Wall()
	e := a.recorded()

	assert.Equal(w.t, Refs(held)[0], Detail(e).Ref)
	assert.False(w.t, e.Granted.Before(released), "granted at %s, before the holder ahead released at %s", e.Granted, released)
	assert.False(w.t, e.Granted.After(holds), "granted at %s, after Lock had returned at %s", e.Granted, holds)
	assert.Less(w.t, e.Asked, released, "it joined long before")

	ctx, cancel := context.WithCancel(w.soon())
	c := w.Client("c")
	gone := c.queue(ctx)
	cancel()
	gone.returned()
	var na *session.NotAcquiredError
	require.ErrorAs(w.t, gone.Err, &na)
	if na.Holder.Key != "" { // the call waits at most 25 ms to read the holder
		assert.Equal(w.t, e.Granted, na.Holder.Granted)
	}
	w.unlock(held)
}

func heldOfAnyKind(w *Fixture) {
	p, reader := w.Client("p"), w.Client("reader")
	for what, hold := range map[string]func() *session.Hold{
		"read":    func() *session.Hold { return p.holds(reading) },
		"write":   func() *session.Hold { return p.holds(writing) },
		"permits": func() *session.Hold { return p.take(1, 2) },
		"leads":   func() *session.Hold { return p.lead("10.0.0.7:80") },
	} {
		before := p.Clock().Wall().Truncate(time.Millisecond)
		h := hold()
		after := p.Clock().Wall()
		e := reader.recorded()
		assert.False(w.t, e.Granted.Before(before) || e.Granted.After(after), "%s: granted at %s, between %s and %s", what, e.Granted, before, after)
		w.unlock(h)
		w.eventually(0, "nothing is left")
	}
}

// heldAndGone ends recorded holds by a release and by an eviction. The next holder, whose entry often
// has the same key, has no record of an earlier hold.
func heldAndGone(w *Fixture) {
	a, b, operator := w.Client("a"), w.Client("b"), w.Client("operator")
	for _, end := range []func(h *session.Hold){
		func(h *session.Hold) { w.unlock(h) },
		func(h *session.Hold) {
			x := endOf(h)
			operator.evicts(operator.nth(0))
			w.evicted(h, x)
		},
	} {
		h := a.hold()
		first := operator.recorded()
		r := b.queue(w.soon())
		end(h)
		next := r.granted()
		for _, e := range operator.entries() {
			assert.NotEqual(w.t, first.Granted, Shown(e).Granted)
		}
		w.unlock(next)
		h = a.hold()
		e := operator.recorded()
		assert.True(w.t, e.Granted.After(first.Granted))
		w.unlock(h)
	}
}

func heldDowngraded(w *Fixture) {
	a, reader := w.Client("a"), w.Client("reader")
	h := a.holds(writing)
	before := reader.recorded()
	a.downgrade(h)
	after := reader.recorded()
	assert.Equal(w.t, before.Granted, after.Granted)
	w.unlock(h)
}
