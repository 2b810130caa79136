package membackend

import (
	"context"
	"fmt"
	"slices"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session/driver"
)

// watch is one watch of a session, and its registration at the service.
type watch struct {
	s      *memSession
	target driver.Target
	f      func(driver.Event)
	over   chan struct{} // closed when the watch is cancelled, or Gone has reached f

	// Guarded by the Store's mutex.
	armed bool // the service has it
	shown bool // Armed has reached f, and no Lost after it
	ended bool // over is closed
}

// Watch sends the request in the background, again until the watch is armed.
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
		w.drop()
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

// request asks the service to arm the watch until there is an answer.
func (w *watch) request() {
	r := request{op: fault.Watch, of: fmt.Sprint(w.target), session: w.s.id, timeout: w.s.timeout, over: w.over}
	_, _, _ = roundTrip(context.Background(), w.s.c, r, func(driver.Instant) struct{} {
		if !w.ended && !w.armed {
			w.arm()
		}
		return struct{}{}
	}) // an error: it is over
}

// arm registers the watch at the service, and reports Armed or Gone in the same step.
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
	w.report(armed)
	if st.o.Spurious && w.target.Kind != driver.OfEntry {
		w.report(driver.Event{Kind: driver.Changed})
	}
}

// report sends an event to f. It is called with the Store's mutex.
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

// drop ends a watch that is cancelled, or whose last event was reported.
func (w *watch) drop() {
	if w.ended {
		return
	}
	w.ended = true
	close(w.over)
	w.disarm()
	w.s.watches = slices.DeleteFunc(w.s.watches, func(o *watch) bool { return o == w })
}

// disarm removes the watch from the service. The events on their way may be lost.
func (w *watch) disarm() {
	st := w.s.c.st
	w.armed = false
	st.watches[w.target] = slices.DeleteFunc(st.watches[w.target], func(o *watch) bool { return o == w })
	if len(st.watches[w.target]) == 0 {
		delete(st.watches, w.target)
	}
}
