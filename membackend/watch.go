package membackend

import (
	"context"
	"fmt"
	"slices"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// watch is one watch of a session, and its registration at the service.
type watch struct {
	s      *memSession
	target driver.Target
	f      func(driver.Event)
	over   chan struct{} // closed when it was cancelled, or Gone has reached f

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
	r := request{op: fault.Watch, of: fmt.Sprint(w.target), session: w.s.id, patience: w.s.patience, over: w.over}
	_, _, _ = roundTrip(context.Background(), w.s.c, r, func(driver.Instant) struct{} {
		if !w.ended && !w.armed {
			w.arm()
		}
		return struct{}{}
	}) // an error: it is over
}

// arm registers the watch at the service, and reports that in the same step.
func (w *watch) arm() {
	st := w.s.c.st
	w.armed = true
	armed := driver.Event{Kind: driver.Armed}
	if w.target.Kind == driver.OfEntry {
		e := st.find(w.target.Ref)
		switch {
		case e != nil:
			armed.Marks = e.Marks
		case failpoint.On(failpoint.ArmedDead):
		default:
			w.report(driver.Event{Kind: driver.Gone})
			return
		}
	}
	st.watches[w.target] = append(st.watches[w.target], w)
	w.report(armed)
	if st.o.Spurious && w.target.Kind != driver.OfEntry {
		w.report(driver.Event{Kind: driver.Changed})
	}
}

// notify reports an event to the watches of a target.
func (st *Store) notify(t driver.Target, ev driver.Event) {
	for _, w := range st.watches[t] {
		w.report(ev)
	}
}

// report puts an event on its way to f. It needs the mutex.
func (w *watch) report(ev driver.Event) {
	s, rev, lane, target := w.s, w.s.c.st.rev, w.s.id, fmt.Sprint(w.target)
	if s.c.st.o.Disorder != 0 {
		lane += " " + target
	}
	kind := [...]string{driver.Armed: "armed", driver.Changed: "changed", driver.Gone: "gone", driver.Lost: "lost"}[ev.Kind]
	s.c.wire.Tell(lane, kind+" "+target, func() {
		s.inbox.put(func() { w.deliver(ev, rev) })
	})
}

// deliver calls f, unless the event is none any more.
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

// drop ends a watch that has nothing more to report, or is given up.
func (w *watch) drop() {
	if w.ended {
		return
	}
	w.ended = true
	close(w.over)
	w.disarm()
	w.s.watches = slices.DeleteFunc(w.s.watches, func(o *watch) bool { return o == w })
}

// disarm takes the watch from the service. What it has reported may be lost.
func (w *watch) disarm() {
	st := w.s.c.st
	w.armed = false
	st.watches[w.target] = slices.DeleteFunc(st.watches[w.target], func(o *watch) bool { return o == w })
	if len(st.watches[w.target]) == 0 {
		delete(st.watches, w.target)
	}
}
