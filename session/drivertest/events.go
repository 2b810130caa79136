package drivertest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// events: how they come, in which order, and that callbacks may act.
func events() []testCase {
	return []testCase{
		{"EventsComeInTheOrderOfTheStore", eventsInOrder},
		{"AnAnswerToALeaveIsDatedOrComesBehindEarlierEvents", eventsBeforeAnswer},
		{"CallbacksRunOneAtATime", eventsOneAtATime},
		{"ACallbackMayWatchAndCancel", eventsFromCallback},
		{"AnAbandonedSessionIsSilent", eventsAbandoned},
	}
}

// chronicle is the common record of several watches of one session.
type chronicle struct {
	mu   sync.Mutex
	gone []driver.Ref
	revs []int64
	more chan struct{}
}

func (c *chronicle) watch(o *owner, ref driver.Ref, own bool) {
	if !own {
		o.meet(ref)
	}
	r := &recorder{o: o, what: ref.Key, ends: true, more: make(chan struct{}, 1)}
	o.Watch(driver.WatchRequest{Ref: ref, Own: own}, func(ev driver.Event) {
		r.tell(ev)
		if ev.Kind != driver.Gone {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.gone = append(c.gone, ref)
		c.revs = append(c.revs, ev.Rev)
		c.more <- struct{}{} // has room for all
	})
	r.await(driver.Armed)
}

// ordered skips the case on a service that does not order events.
func (o *owner) ordered() {
	if !o.c.Backend().Profile().Ordered {
		o.w.t.Skip("the service does not order events: Profile.Ordered")
	}
}

func eventsInOrder(w *fixture) {
	by, o := w.open(), w.open()
	by.ordered()
	const n = 24
	c := &chronicle{more: make(chan struct{}, n)}
	var all []driver.Ref
	for i := range n {
		from := o
		if i%3 == 0 {
			from = by
		}
		all = append(all, from.join(line).Entry.Ref)
	}
	for i, ref := range all {
		c.watch(by, ref, i%3 == 0)
	}
	// Neither the order of places nor the order of watching.
	slices.SortFunc(all, func(a, b driver.Ref) int { return int(a.Place*7%11) - int(b.Place*7%11) })
	for _, ref := range all {
		w.svc.Delete(w.t, ref)
	}
	for range n {
		w.receive(c.more, "Gone for each entry")
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	assert.Equal(w.t, all, c.gone, "one session's events, in the order of the deletions")
	assert.True(w.t, slices.IsSorted(c.revs), "revisions rise: %v", c.revs)
}

// eventsBeforeAnswer: a callback that takes a moment holds up the news of the
// next deletion, and the answer to one who leaves after both.
func eventsBeforeAnswer(w *fixture) {
	o := w.open()
	o.ordered()
	for _, all := range []bool{false, true} {
		leaver, slow, own := o.join(line).Entry.Ref, o.join(line).Entry.Ref, o.join(line).Entry.Ref
		first := &recorder{o: o, what: "callback that takes a moment", ends: true, more: make(chan struct{}, 1)}
		o.Watch(driver.WatchRequest{Ref: slow}, func(ev driver.Event) {
			if ev.Kind == driver.Gone {
				time.Sleep(10 * time.Millisecond) // so that an answer can overtake
			}
			first.tell(ev)
		})
		first.await(driver.Armed)
		r, _ := o.armed("own entry", driver.WatchRequest{Ref: own, Own: true})
		w.svc.Delete(w.t, slow)
		w.svc.Delete(w.t, own)
		left := o.leaveBy(all, leaver)
		if left.Told {
			for _, told := range []*recorder{first, r} {
				evs := told.all()
				assert.NotEqual(w.t, driver.Armed, evs[len(evs)-1].Kind, "%s: told before the answer", told.what)
			}
		}
		gone := r.await(driver.Gone)
		if left.Rev != 0 {
			assert.Less(w.t, gone.Rev, left.Rev)
		} else {
			assert.True(w.t, left.Told, "a healthy service gives every answer its place")
		}
	}
}

// leaveBy leaves by LeaveAll, or by Leave.
func (o *owner) leaveBy(all bool, ref driver.Ref) driver.Left {
	o.w.t.Helper()
	if !all {
		return o.leave(ref)
	}
	left, err := o.LeaveAll(o.w.ctx, []driver.LeaveRequest{{Ref: ref}})
	require.NoError(o.w.t, err, "LeaveAll")
	require.Len(o.w.t, left, 1)
	return left[0]
}

// eventsOneAtATime: a callback that takes a moment is not met by another.
func eventsOneAtATime(w *fixture) {
	by, o := w.open(), w.open()
	const n = 12
	var inside, together atomic.Int32
	told := make(chan struct{}, n)
	for i := range n {
		name := []string{line, "orders/ship", "gpu"}[i%3]
		ref := o.join(name).Entry.Ref
		by.meet(ref)
		r := &recorder{o: by, what: name, ends: true, more: make(chan struct{}, 1)}
		by.Watch(driver.WatchRequest{Ref: ref}, func(ev driver.Event) {
			r.tell(ev)
			if ev.Kind == driver.Gone {
				if inside.Add(1) > 1 {
					together.Add(1)
				}
				time.Sleep(time.Millisecond) // so that another would meet it
				inside.Add(-1)
				told <- struct{}{}
			}
		})
		r.await(driver.Armed)
	}
	require.NoError(w.t, o.end())
	for range n {
		w.receive(told, "Gone for each entry")
	}
	assert.Zero(w.t, together.Load(), "callbacks of one session run one at a time")
}

func eventsFromCallback(w *fixture) {
	o, by := w.open(), w.open()
	a, b := o.join(line).Entry, o.join(line).Entry
	next := &recorder{o: by, what: "watch from a callback", ends: true, more: make(chan struct{}, 1)}
	silent, cancel := by.armed("canceled from a callback", driver.WatchRequest{Ref: b.Ref})
	by.meet(a.Ref)
	// next is told by the same goroutine as this callback, never inside it.
	by.Watch(driver.WatchRequest{Ref: a.Ref}, func(ev driver.Event) {
		if ev.Kind == driver.Gone {
			cancel()
			by.Watch(driver.WatchRequest{Ref: b.Ref}, next.tell)
		}
	})
	barrier, _ := by.armed("barrier", driver.WatchRequest{Ref: a.Ref})
	o.leave(a.Ref)
	barrier.awaitGone(a.Ref)
	next.await(driver.Armed)
	o.leave(b.Ref)
	next.await(driver.Gone)
	assert.Len(w.t, silent.all(), 1, "nothing after cancel")
}

func eventsAbandoned(w *fixture) {
	_, e, r := watched(w)
	other, _ := w.open().armed("of another session", driver.WatchRequest{Ref: e.Ref})
	r.o.Abandon()
	w.svc.Delete(w.t, e.Ref)
	other.await(driver.Gone)
	assert.Len(w.t, r.all(), 1, "nothing after Abandon")
}
