package drivertest

import (
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// recorder is the receiver of one watch. It holds every event against the
// order that driver.Event promises.
type recorder struct {
	o     *owner
	what  string
	asked bool // for Event.Held
	ends  bool // Gone may come: it is an entry that is watched

	mu     sync.Mutex
	events []driver.Event
	more   chan struct{}
	seen   int // events that await has gone past
}

// watch watches an entry, or something of a line.
func (o *owner) watch(what string, req driver.WatchRequest) (*recorder, func()) {
	r := &recorder{o: o, what: what, asked: req.Tell, ends: req.Of == driver.OfEntry, more: make(chan struct{}, 1)}
	return r, o.Watch(req, r.tell)
}

// meet waits until the session has been shown an entry of somebody else. Only
// then may it watch it: its server may lag behind the one that made the entry.
func (o *owner) meet(ref driver.Ref) {
	o.w.t.Helper()
	late := time.Now().Add(o.w.patience())
	for !o.sees(ref, 0) {
		if time.Now().After(late) {
			require.Fail(o.w.t, "a look does not show an entry", "%v", ref)
		}
		time.Sleep(o.w.short / 100) // asking again is all one can do
	}
}

// armed watches an entry that lives, or something of a line, and returns when
// the watch is armed.
func (o *owner) armed(what string, req driver.WatchRequest) (*recorder, func()) {
	o.w.t.Helper()
	if !req.Own && req.Of == driver.OfEntry {
		o.meet(req.Ref)
	}
	r, stop := o.watch(what, req)
	r.await(driver.Armed)
	return r, stop
}

// tell is the callback.
func (r *recorder) tell(ev driver.Event) {
	t := r.o.w.t
	assert.EqualValues(t, 1, r.o.inside.Add(1), "%s: callbacks of one session run one at a time", r.what)
	defer r.o.inside.Add(-1)

	r.mu.Lock()
	defer r.mu.Unlock()
	var last driver.EventKind // 0 before the first
	if n := len(r.events); n > 0 {
		last = r.events[n-1].Kind
	}
	allowed := []driver.EventKind{driver.Changed, driver.Gone, driver.Broken}
	switch last {
	case 0, driver.Broken:
		allowed = []driver.EventKind{driver.Armed, driver.Gone}
	case driver.Gone:
		allowed = nil
	case driver.Armed, driver.Changed:
	}
	assert.Contains(t, allowed, ev.Kind, "%s: event %v after %v", r.what, ev, r.events)
	assert.True(t, r.ends || ev.Kind != driver.Gone, "%s: a line is never gone", r.what)
	if !r.asked || ev.Kind != driver.Gone {
		assert.False(t, ev.Held, "%s: event %v", r.what, ev)
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
	late := time.NewTimer(r.o.w.patience())
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

// awaitNews waits until a watch of a line has told that something happened which
// a read shows that is not older: by Changed, or by Armed after it was Broken.
func (r *recorder) awaitNews(shows func(rev int64) bool) {
	r.o.w.t.Helper()
	for {
		if ev := r.await(driver.Changed, driver.Armed); shows(ev.Rev) {
			return
		}
	}
}

// all returns the events so far.
func (r *recorder) all() []driver.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// unchanged requires that no change was told, because nobody asked for it.
func (r *recorder) unchanged() {
	r.o.w.t.Helper()
	for _, ev := range r.all() {
		assert.NotEqual(r.o.w.t, driver.Changed, ev.Kind, "nobody asked for it")
	}
}

// awaitGone waits until the watch has told that the entry is gone: by Gone, or
// by Armed and a look that is not older. An Armed without a revision leaves
// nothing untold, so Gone must follow it.
func (r *recorder) awaitGone(ref driver.Ref) {
	r.o.w.t.Helper()
	for {
		ev := r.await(driver.Gone, driver.Armed)
		if ev.Kind == driver.Gone || ev.Rev != 0 && !r.o.sees(ref, ev.Rev) {
			return
		}
	}
}

// sees says whether a look not older than rev shows the entry.
func (o *owner) sees(ref driver.Ref, rev int64) bool {
	o.w.t.Helper()
	v := o.look(driver.LookRequest{Line: ref.Line, Upto: ref.Place, NotBefore: rev})
	return slices.Contains(refs(v.Entries), ref)
}
