package drivertest

import (
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// recorder is the receiver of one watch. It checks every event against the order that
// driver.Event promises.
type recorder struct {
	o      *owner
	target driver.Target
	what   string

	mu     sync.Mutex
	events []driver.Event
	more   chan struct{}
	seen   int // events that await has gone past
}

func newRecorder(o *owner, what string, t driver.Target) *recorder {
	return &recorder{o: o, target: t, what: what, more: make(chan struct{}, 1)}
}

// watch watches a target.
func (o *owner) watch(what string, t driver.Target) (*recorder, func()) {
	r := newRecorder(o, what, t)
	return r, o.Watch(t, r.receive)
}

// armed watches an entry that lives, or a target that is none, and returns when the
// watch is armed.
func (o *owner) armed(what string, t driver.Target) (*recorder, func()) {
	o.w.t.Helper()
	if t.Kind == driver.OfEntry {
		o.meet(t.Ref)
	}
	r, stop := o.watch(what, t)
	r.await(driver.Armed)
	return r, stop
}

// armedEntry is armed for an entry that is watched until it is gone.
func (o *owner) armedEntry(what string, ref driver.Ref) *recorder {
	o.w.t.Helper()
	r, _ := o.armed(what, ref.Target())
	return r
}

// receive is the callback.
func (r *recorder) receive(ev driver.Event) {
	t := r.o.w.t
	assert.EqualValues(t, 1, r.o.inside.Add(1), "%s: callbacks of one session run one at a time", r.what)
	defer r.o.inside.Add(-1)

	r.mu.Lock()
	defer r.mu.Unlock()
	var last driver.EventKind // 0 before the first
	n := len(r.events)
	if n > 0 {
		last = r.events[n-1].Kind
	}
	allowed := []driver.EventKind{driver.Changed, driver.Gone, driver.Lost}
	switch last {
	case 0, driver.Lost:
		allowed = []driver.EventKind{driver.Armed, driver.Gone}
	case driver.Gone:
		allowed = nil
	case driver.Armed, driver.Changed:
	}
	assert.Contains(t, allowed, ev.Kind, "%s: event %v after %v", r.what, ev, r.events)
	assert.True(t, r.target.Kind == driver.OfEntry || ev.Kind != driver.Gone, "%s: only an entry is ever gone", r.what)
	assert.False(t, ev.First && ev.Kind != driver.Gone, "%s: First comes with Gone: %v", r.what, ev)
	for _, before := range r.events {
		if ev.Kind == driver.Armed || ev.Kind == driver.Changed {
			assert.True(t, ev.Marks.Has(before.Marks), "%s: marks are never removed: %v after %v", r.what, ev, before)
		}
	}
	r.events = append(r.events, ev)
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// await goes past events until one of these kinds, and returns it.
func (r *recorder) await(kinds ...driver.EventKind) driver.Event {
	t := r.o.w.t
	t.Helper()
	late := time.NewTimer(r.o.w.bound())
	defer late.Stop()
	for {
		r.mu.Lock()
		for r.seen < len(r.events) {
			ev := r.events[r.seen]
			r.seen++
			if slices.Contains(kinds, ev.Kind) {
				r.mu.Unlock()
				return ev
			}
		}
		r.mu.Unlock()
		select {
		case <-r.more:
		case <-late.C:
			require.Fail(t, "an event is missing", "%s: want one of %v, have %v", r.what, kinds, r.all())
		}
	}
}

// awaitMarks waits until the watch has reported marks of its entry: by Changed, or by
// Armed after Lost.
func (r *recorder) awaitMarks(m driver.Marks) {
	r.o.w.t.Helper()
	for {
		ev := r.await(driver.Changed, driver.Armed, driver.Gone)
		require.NotEqual(r.o.w.t, driver.Gone, ev.Kind, "%s: the entry lives", r.what)
		if ev.Marks.Has(m) {
			return
		}
	}
}

// awaitChange waits until the watch has reported a change of its entry, with marks m, that a
// Read shows: by Changed, or by Armed after Lost on a machine that stands still.
func (r *recorder) awaitChange(m driver.Marks, shows func() bool) {
	r.o.w.t.Helper()
	for {
		ev := r.await(driver.Changed, driver.Armed, driver.Gone)
		if ev.Kind != driver.Armed || r.o.w.h.Virtual {
			require.Equal(r.o.w.t, driver.Event{Kind: driver.Changed, Marks: m}, ev, "%s", r.what)
			require.True(r.o.w.t, shows(), "%s: a Read is not older than the event", r.what)
			return
		}
		if ev.Marks == m && shows() {
			return
		}
	}
}

// awaitNews waits until the watch has reported something that a Read shows: that is all
// that Armed and Changed of a target other than an entry promise.
func (r *recorder) awaitNews(shows func() bool) {
	r.o.w.t.Helper()
	for {
		r.await(driver.Changed, driver.Armed)
		if shows() {
			return
		}
	}
}

// awaitGone waits for the end of the entry, and requires that a Read that begins then
// does not show it.
func (r *recorder) awaitGone() driver.Event {
	r.o.w.t.Helper()
	ev := r.await(driver.Gone)
	require.False(r.o.w.t, r.o.sees(r.target.Ref), "%s: a Read is not older than an event", r.what)
	return ev
}

// all returns the events so far.
func (r *recorder) all() []driver.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// lost reports whether the watch was lost in between, on a machine that stands still.
func (r *recorder) lost() bool {
	return !r.o.w.h.Virtual && slices.ContainsFunc(r.all(), func(ev driver.Event) bool { return ev.Kind == driver.Lost })
}

// silent requires that the watch has reported nothing but that it is armed. A watch that
// was lost, on a machine that stands still, is armed again.
func (r *recorder) silent(why string) {
	r.o.w.t.Helper()
	if r.o.w.h.Spurious && r.target.Kind != driver.OfEntry {
		return
	}
	for _, ev := range r.all() {
		assert.Contains(r.o.w.t, []driver.EventKind{driver.Armed, driver.Lost}, ev.Kind, "%s: %s", r.what, why)
	}
}
