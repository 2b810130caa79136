package membackend

import (
	"slices"

	"github.com/fairlock/fairlock/session/driver"
)

// watch is one watch of a session, and its registration at the service.
type watch struct {
	s   *memSession
	req driver.WatchRequest
	f   func(driver.Event)

	// Guarded by the Store's mutex.
	armed bool   // the service has told, or tells, what happens
	told  bool   // Armed has reached f, and no Broken after it
	over  bool   // cancelled, or Gone has reached f
	since int64  // what f knows, if it wants all that happens; else 0
	retry *timer // sends the request again
}

// Watch sends the request in the background, again until the watch is armed.
func (s *memSession) Watch(req driver.WatchRequest, f func(driver.Event)) func() {
	st := s.c.st
	w := &watch{s: s, req: req, f: f, since: req.Since}
	st.mu.Lock()
	w.over = s.abandoned
	if !w.over {
		s.watches = append(s.watches, w)
	}
	st.mu.Unlock()
	w.request()
	return func() {
		st.mu.Lock()
		defer st.mu.Unlock()
		w.drop()
	}
}

// request asks the service to arm the watch, and sees to it that it is asked
// again if no answer comes.
func (w *watch) request() {
	st := w.s.c.st
	st.mu.Lock()
	if w.over || w.armed {
		st.mu.Unlock()
		return
	}
	w.retry.stop()
	w.retry = clock{w.s.c}.after(w.s.patience, w.request)
	st.mu.Unlock()
	w.s.c.send(&message{
		op:    OpWatch,
		apply: func() func() { return nil },
		carry: func(func()) { w.arm() },
	})
}

// arm registers the watch at the service. It is told in the same step, so that
// Armed stands before every event of a later revision.
func (w *watch) arm() {
	if w.over || w.armed {
		return
	}
	st := w.s.c.st
	w.armed = true
	w.retry.stop()
	e := st.find(w.req.Ref)
	if w.since == 0 {
		// From now on: of an entry that is gone already nothing is told.
		st.watches[w.req.Ref] = append(st.watches[w.req.Ref], w)
		w.tell(driver.Event{Kind: driver.Armed, Rev: st.rev})
		return
	}
	if e == nil {
		w.tell(driver.Event{Kind: driver.Gone, Rev: st.rev})
		return
	}
	st.watches[w.req.Ref] = append(st.watches[w.req.Ref], w)
	w.tell(driver.Event{Kind: driver.Armed, Rev: w.since})
	if w.req.Changes && e.changed > w.since {
		w.tell(driver.Event{Kind: driver.Changed, Rev: e.changed})
	}
}

// tell puts an event on its way to f. It needs the mutex.
func (w *watch) tell(ev driver.Event) { w.s.push(delivery{w: w, ev: ev}) }

// drop ends a watch that the caller or its session gave up.
func (w *watch) drop() {
	if w.over {
		return
	}
	w.over = true
	w.retry.stop()
	w.disarm()
	w.s.forget(w)
}

// disarm takes the watch from the service.
func (w *watch) disarm() {
	w.armed = false
	st := w.s.c.st
	left := slices.DeleteFunc(st.watches[w.req.Ref], func(o *watch) bool { return o == w })
	if len(left) == 0 {
		delete(st.watches, w.req.Ref)
		return
	}
	st.watches[w.req.Ref] = left
}

// note keeps what an event means for the watch, as f is about to get it, and
// says whether f is to get it at all.
func (w *watch) note(ev driver.Event) bool {
	if w.over {
		return false
	}
	switch ev.Kind {
	case driver.Armed:
		w.told = true
	case driver.Broken:
		w.told = false
	case driver.Gone:
		w.over = true
		w.s.forget(w)
	case driver.Changed:
	}
	if w.since != 0 {
		w.since = max(w.since, ev.Rev)
	}
	return true
}

func (s *memSession) forget(w *watch) {
	s.watches = slices.DeleteFunc(s.watches, func(o *watch) bool { return o == w })
}
