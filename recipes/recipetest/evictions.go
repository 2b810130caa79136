package recipetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// evictions are the cases of entries that an operator deletes.
func evictions() []testCase {
	return []testCase{
		{"AnEvictedHolderIsNotifiedAndTheNextHolds", evictHolder},
		{"AnEvictedReaderThatWasAWriterIsNotified", evictDowngraded},
		{"EvictOfAGoneEntryEvictsNoLaterOne", evictStale},
	}
}

// evicts deletes an entry as an operator, and ends the case if it cannot.
func (p *Client) evicts(e driver.Entry) {
	p.w.t.Helper()
	require.NoError(p.w.t, p.Evict(p.w.soon(), Shown(e)), "evict")
}

// evicted requires that a hold reports that its entry was deleted.
func (w *Fixture) evicted(h *session.Hold, x *ending) {
	w.t.Helper()
	w.when(x)
	w.lostFor(session.ReasonDeleted, cause(h))
	assert.Zero(w.t, h.Remaining())
	w.unlockLost(session.ReasonEvicted, h)
}

func evictHolder(w *Fixture) {
	a, b, operator := w.Client("a"), w.Client("b"), w.Client("operator")
	h := a.hold()
	x := endOf(h)
	r := b.queue(w.soon())
	operator.evicts(operator.nth(0))
	next := r.granted()
	require.Greater(w.t, next.Token(), h.Token(), "a resource can distinguish them")
	w.evicted(h, x)
	again := a.queue(w.soon())
	w.unlock(next)
	w.unlock(again.granted())
}

func evictDowngraded(w *Fixture) {
	a, b, operator := w.Client("a"), w.Client("b"), w.Client("operator")
	h := a.holds(writing)
	before := operator.nth(0)
	writer := b.queueFor(w.soon(), writing)
	w.wait("a writer holds", writer) // the entry is watched by then, under its old key
	a.downgrade(h)
	after := operator.nth(0)
	if before.Ref != after.Ref {
		require.ErrorIs(w.t, operator.Evict(w.soon(), Shown(before)), session.ErrGone)
	}
	w.wait("the downgraded one holds", writer)
	x := endOf(h)
	operator.evicts(after)
	w.unlock(writer.granted())
	w.evicted(h, x)
}

func evictStale(w *Fixture) {
	a, b, operator := w.Client("a"), w.Client("b"), w.Client("operator")
	h := a.hold()
	seen := operator.nth(0)
	w.unlock(h)
	require.ErrorIs(w.t, operator.Evict(w.soon(), Shown(seen)), session.ErrGone, "released")
	h = a.hold() // often with the same key
	r := b.queue(w.soon())
	err := operator.Evict(w.soon(), Shown(seen))
	require.ErrorIs(w.t, err, session.ErrGone)
	require.ErrorContains(w.t, err, `"`+name+`"`)
	moved := operator.nth(1)
	moved.Place = seen.Place
	require.ErrorIs(w.t, operator.Evict(w.soon(), Shown(moved)), session.ErrGone, "another place")
	require.NoError(w.t, h.Context().Err())
	w.eventually(2, "both stay")
	w.unlock(h)
	w.unlock(r.granted())
}
