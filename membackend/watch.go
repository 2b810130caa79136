package membackend

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// watch is one watch of a session, and its registration at the service.
//
//	requested --arm--> armed --Gone, or cancel--> ended
//	    ^                |
//	    +---- Heal ------+   after a cut of the replies: Lost, and the request is sent anew
//
// Its events are late: armed is what the service knows, shown what the caller of Watch knows.
type watch struct {
	s      *memSession
	target driver.Target // without what its kind does not use, so that equal targets are one
	f      func(driver.Event)
	over   chan struct{} // closed when the watch is cancelled, or Gone has reached f

	// Guarded by the Store's mutex.

	// armed: the service has acted on the request, so another copy does nothing. The watch is among
	// state.watches then, but for one on an entry that is gone.
	armed bool

	// since is the service's time from which on the watch shows its client what happens: that of
	// its arming, or of the end of a fault of the network after it.
	since time.Duration

	shown bool // Armed has reached f, and no Lost after it
	ended bool // over is closed. Never reset; no event reaches f any more
}

// Watch sends the request in the background, again until the watch is armed. The request
// has a goroutine of its own, because it waits for its answer and Watch must not block. The goroutine
// ends when the watch is armed or over. Nothing waits for it.
func (s *memSession) Watch(t driver.Target, f func(driver.Event)) func() {
	switch t.Kind {
	case driver.OfEntry:
		t = t.Ref.Target()
	case driver.OfHolders, driver.OfQueue, driver.OfRecord:
		t.Ref = driver.Ref{}
	}
	st, w := s.c.st, &watch{s: s, target: t, f: f, over: make(chan struct{})}
	st.mu.Lock()
	defer st.mu.Unlock()
	s.watches = append(s.watches, w)
	e := st.find(t.Ref)
	switch {
	case s.ended:
		w.drop() // the session has ended: f is never called
	case e != nil && e.lease == s.lease && st.o.LateArmed > 0:
		s.c.wire.AfterFunc(st.o.LateArmed, w.request)
	default:
		go w.request() // ends when the watch is armed or over
	}
	return func() {
		st.mu.Lock()
		defer st.mu.Unlock()
		w.drop()
	}
}

// request asks the service to arm the watch until there is an answer. Only the first copy that
// arrives arms it: a second registration would report each event twice.
func (w *watch) request() {
	r := request{op: fault.Watch, of: fmt.Sprint(w.target), session: w.s.id, timeout: w.s.timeout, over: w.over}
	_, _, _ = roundTrip(context.Background(), w.s.c, r, func(driver.Instant) struct{} {
		if !w.ended && !w.armed {
			w.arm()
		}
		return struct{}{}
	}) // an error: it is over
}

// arm registers the watch at the service, and reports Armed or Gone in the same step: no change can
// come between what Armed shows and the first change that is reported. The Store's mutex is held.
func (w *watch) arm() {
	st := w.s.c.st
	w.armed = true
	armed := driver.Event{Kind: driver.Armed}
	if w.target.Kind == driver.OfEntry {
		e := st.find(w.target.Ref)
		if e == nil {
			w.report(driver.Event{Kind: driver.Gone})
			return
		}
		armed.Marks = e.Marks
	}
	st.watches[w.target] = append(st.watches[w.target], w)
	w.since = st.sched.Now()
	st.observe()
	w.report(armed)
	if st.o.Spurious && w.target.Kind != driver.OfEntry {
		w.report(driver.Event{Kind: driver.Changed})
	}
}

// report sends an event to f. It is called with the Store's mutex. The event takes the revision of
// this moment with it: when f is called, the session has learned the queue as of then.
func (w *watch) report(ev driver.Event) {
	s, rev, lane, target := w.s, w.s.c.st.rev, w.s.id, fmt.Sprint(w.target)
	if s.c.st.o.Disorder != 0 {
		lane += " " + target
	}
	kind := [...]string{driver.Armed: "armed", driver.Changed: "changed", driver.Gone: "gone", driver.Lost: "lost"}[ev.Kind]
	s.c.wire.Deliver(lane, kind+" "+target, func() {
		s.inbox.put(func() { w.deliver(ev, rev) })
	})
}

// deliver calls f, unless the watch has ended, or f knows of the loss already.
//
//	the event  f is called                       then
//	Armed      unless the watch has ended        a Lost would be news to f
//	Changed    unless the watch has ended        the same as before
//	Gone       unless the watch has ended        the watch has ended
//	Lost       if Armed was, and no Lost since   f waits for Armed or Gone
//
// The session learns the revision before f is called, so a read that f causes is not older than the
// event. The inbox calls deliver, one event after the other, and no mutex is held during f.
func (w *watch) deliver(ev driver.Event, rev int64) {
	st := w.s.c.st
	st.mu.Lock()
	skip := w.ended || ev.Kind == driver.Lost && !w.shown
	switch {
	case skip:
	case ev.Kind == driver.Gone:
		w.drop()
	case ev.Kind != driver.Changed:
		w.shown = ev.Kind == driver.Armed
	}
	st.mu.Unlock()
	if !skip {
		w.s.learned(rev, w.target.Queue)
		w.f(ev)
	}
}

// drop ends a watch that is cancelled, or whose last event was reported. A call of f that has begun
// goes on. The Store's mutex is held.
func (w *watch) drop() {
	if w.ended {
		return
	}
	w.ended = true
	close(w.over)
	w.disarm()
	w.s.watches = slices.DeleteFunc(w.s.watches, func(o *watch) bool { return o == w })
}

// disarm removes the watch from the service. It recalls no event that is on its way. The Store's
// mutex is held.
func (w *watch) disarm() {
	st := w.s.c.st
	w.armed = false
	st.watches[w.target] = slices.DeleteFunc(st.watches[w.target], func(o *watch) bool { return o == w })
	if len(st.watches[w.target]) == 0 {
		delete(st.watches, w.target)
	}
}
