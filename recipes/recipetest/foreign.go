package recipetest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// foreigns are the cases of entries that other programs make, where a service has such programs.
func foreigns() []testCase {
	return []testCase{
		{"ForeignEntriesAreWaitedFor", foreignAhead},
		{"EntryWithoutASessionIsNamed", func(w *Fixture) { unleasedAhead(w, lock) }},
		{"EntryWithoutASessionIsNamedWhenItComesNext", unleasedNext},
		{"EntryWithoutASessionAheadInOneQueueIsNamed", allUnleased},
		{"AForeignEntryCountsAsAllPermits", permitsForeign},
		{"AnEntryWithoutASessionInFrontOfPermitsIsNamed", func(w *Fixture) { unleasedAhead(w, wanting(1, 3)) }},
		{"ObserveYieldsForeignLeaders", observeForeign},
		{"ForeignHolderBeforeIsUnknown", robustForeign},
		{"AForeignEntryAmongYieldRequestsIsIgnored", yieldForeign},
		{"AnEvictedForeignEntryBlocksNoLonger", evictForeign},
	}
}

func foreignAhead(w *Fixture) {
	p := w.Client("p")
	ref := w.svc.PutForeign(w.t, name, true)
	r := p.queue(w.soon())
	w.eventually(2, "both have joined")
	require.True(w.t, r.waiting())
	_, err := w.try(mutex.New(p.Session, name).TryLock)
	require.ErrorIs(w.t, err, session.ErrNotAcquired)
	w.svc.Delete(w.t, ref)
	w.unlock(r.granted())
}

func unleasedAhead(w *Fixture, want locking) {
	p := w.Client("p")
	ref := w.svc.PutForeign(w.t, name, false)
	_, err := want(w.soon(), p.Session)
	require.ErrorIs(w.t, err, session.ErrForeignKey)
	require.ErrorContains(w.t, err, ref.Key)
	w.eventually(1, "only the foreign entry is left")
	w.svc.Delete(w.t, ref)
	w.unlock(p.startFor(w.soon(), want).granted())
}

// unleasedNext: an entry without a session becomes the next one only during the wait.
func unleasedNext(w *Fixture) {
	p := w.Client("p")
	ref := w.svc.PutForeign(w.t, name, false)
	other := w.svc.PutForeign(w.t, name, true)
	r := p.queue(w.soon())
	w.eventually(3, "all have joined")
	w.svc.Delete(w.t, other)
	r.returned()

	require.ErrorIs(w.t, r.Err, session.ErrForeignKey)
	require.ErrorContains(w.t, r.Err, ref.Key)
	w.eventually(1, "only the foreign entry is left")
	w.svc.Delete(w.t, ref)
}

// allUnleased has a request wait in one queue, while it can never be granted in another.
func allUnleased(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	held := a.holdOne("x")
	ref := w.svc.PutForeign(w.t, "y", false)
	r := b.startFor(w.soon(), wantAll("x", "y"))
	r.returned()

	require.ErrorIs(w.t, r.Err, session.ErrForeignKey)
	require.ErrorContains(w.t, r.Err, ref.Key)
	w.queueHas(1, "x", "only the holder")
	w.queueHas(1, "y", "only the foreign one")
	w.unlock(held)
}

func permitsForeign(w *Fixture) {
	const limit = 3
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	h := a.take(1, limit)
	ref := w.svc.PutForeign(w.t, name, true)
	next, last := b.wait(1, limit), c.wait(1, limit)
	w.still("two permits are free, but a foreign program waits for all", next, last)
	w.unlock(h)
	w.still("a foreign program has all", next, last)
	w.svc.Delete(w.t, ref)
	w.unlock(next.woken())
	w.unlock(last.woken())
}

func observeForeign(w *Fixture) {
	a, c := w.Client("a"), w.Client("c")
	o := c.observe()
	o.vacancy()
	ref := w.svc.PutForeign(w.t, name, true)
	l := o.until(func(l election.Leader) bool { return !l.Vacant() })
	assert.True(w.t, l.Entry.Foreign)
	assert.Equal(w.t, ref, Detail(l.Entry).Ref)
	second := w.svc.PutForeign(w.t, name, true)
	r := a.campaign(w.soon(), "ours")
	w.svc.Delete(w.t, second)
	w.svc.Delete(w.t, ref)
	assert.Equal(w.t, r.granted().Token(), o.sees("ours").Token)
	w.unlock(r.Hold)
	o.vacancy()
}

func robustForeign(w *Fixture) {
	p := w.Client("p")
	w.unlock(p.robust())
	ref := w.svc.PutForeign(w.t, name, true)
	r := p.queueRobust(w.soon())
	w.wait("a foreign program holds, and the waiter has read that", r)
	w.svc.Delete(w.t, ref)
	assert.Equal(w.t, engine.PastUnknown, Previous(r.granted()))
	assert.False(w.t, r.Hold.PreviousDied())
	w.unlock(r.Hold)
	w.past(engine.PastClean, "released")

	w.died() // a death before the foreign hold is not forgotten
	ref = w.svc.PutForeign(w.t, name, true)
	r = p.queueRobust(w.soon())
	w.svc.Delete(w.t, ref)
	assert.True(w.t, r.granted().PreviousDied())
	w.unlock(r.Hold)
}

func yieldForeign(w *Fixture) {
	a, b := w.Client("a"), w.Client("b")
	h := a.hold()
	f := w.svc.PutForeign(w.t, driver.AskQueue(name), true)
	w.svc.PutForeign(w.t, driver.AskQueue(name), false)
	for _, v := range []string{`{"v":1,"kind":"ask"}`, "\xff", ""} {
		w.svc.Overwrite(w.t, f, []byte(v))
		w.noYield(h)
	}
	require.Empty(w.t, w.yieldReasons(b.Session))
	b.requestYield(name, "a real one")
	require.Equal(w.t, "a real one", w.nextYield(h))
	require.Equal(w.t, []string{"a real one"}, w.yieldReasons(b.Session))
	w.unlock(h)
}

func evictForeign(w *Fixture) {
	a, operator := w.Client("a"), w.Client("operator")
	w.svc.PutForeign(w.t, name, true)
	r := a.queue(w.soon())
	e := operator.nth(0)
	require.True(w.t, e.Foreign)
	require.True(w.t, r.waiting())
	operator.evicts(e)
	w.unlock(r.granted())
	w.svc.PutForeign(w.t, name, false) // only an operator ends this one
	_, err := mutex.New(a.Session, name).Lock(w.soon())
	require.ErrorIs(w.t, err, session.ErrForeignKey)
	operator.evicts(operator.nth(0))
	<-a.joined
	w.unlock(a.hold())
}
