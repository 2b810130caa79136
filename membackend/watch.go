package membackend

import (
	"slices"

	"github.com/fairlock/fairlock/fault"
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
	asks  bool   // the entry is gone; whether it held is being asked
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
	if w.over || w.asks || w.armed {
		st.mu.Unlock()
		return
	}
	w.retry.stop()
	w.retry = clock{w.s.c}.after(w.s.patience, w.request)
	st.mu.Unlock()
	w.s.c.send(&message{
		op:      fault.Watch,
		of:      w.name(),
		session: w.s.id,
		apply:   func() func() { return nil },
		carry: func(func()) bool {
			w.arm()
			return true
		},
	})
}

// arm registers the watch at the service. It is told in the same step, so that
// Armed stands before every event of a later revision.
func (w *watch) arm() {
	if w.over || w.asks || w.armed {
		return
	}
	st := w.s.c.st
	w.armed = true
	w.retry.stop()
	e := st.find(w.req.Ref)
	ofEntry := w.req.Of == driver.OfEntry
	if ofEntry && e == nil && (w.since != 0 || st.o.NoRevs) {
		w.tell(driver.Event{Kind: driver.Gone, Rev: st.rev})
		return
	}
	st.watches[w.key()] = append(st.watches[w.key()], w)
	from, known := st.rev, st.rev // from now on: of an entry that is gone already nothing is told
	switch {
	case !ofEntry || e == nil:
	case w.since != 0:
		from, known = w.since, w.since
	case st.o.NoRevs:
		known = e.made // who gets no numbers cannot tell what a look has shown
	}
	if !w.req.Own || !st.o.OwnUnarmed {
		w.tell(driver.Event{Kind: driver.Armed, Rev: from})
	}
	if ofEntry && w.req.Changes && e != nil && e.changed > known {
		w.tell(driver.Event{Kind: driver.Changed, Rev: e.changed})
	}
}

// key is under what the service keeps the watch: an entry, or, with nothing but
// its Line, something of a line.
func (w *watch) key() driver.Ref {
	if w.req.Of == driver.OfEntry {
		return w.req.Ref
	}
	return driver.Ref{Line: w.req.Ref.Line}
}

// tellGone tells those who watch an entry that it is no more.
func (st *Store) tellGone(ref driver.Ref) {
	watches := st.watches[ref]
	delete(st.watches, ref)
	for _, w := range watches {
		w.armed = false
		w.tell(driver.Event{Kind: driver.Gone, Rev: st.rev})
	}
}

// tellChanged tells that an entry was changed at the revision st.rev.
func (st *Store) tellChanged(e *entry) {
	e.changed = st.rev
	for _, w := range st.watches[e.Ref] {
		if w.req.Changes {
			w.tell(driver.Event{Kind: driver.Changed, Rev: st.rev})
		}
	}
	st.tellLine(e.Line, driver.OfLine, 0)
}

// tellLine tells what happened to a line at the revision st.rev, to an entry at
// place if not 0.
func (st *Store) tellLine(name string, of driver.Aspect, place int64) {
	if st.sched != nil {
		st.sched.Changed(name)
	}
	for _, w := range st.watches[driver.Ref{Line: name}] {
		end := w.req.Ref.Place
		if w.req.Of == of && (place == 0 || end == 0 || place < end) {
			w.tell(driver.Event{Kind: driver.Changed, Rev: st.rev})
		}
	}
}

// tell puts an event on its way to f. It needs the mutex.
func (w *watch) tell(ev driver.Event) { w.s.push(delivery{w: w, ev: ev}) }

// drop ends a watch that the caller or its session gave up.
func (w *watch) drop() {
	if w.over {
		return
	}
	w.disarm()
	w.end()
}

// disarm takes the watch from the service.
func (w *watch) disarm() {
	w.armed = false
	st := w.s.c.st
	left := slices.DeleteFunc(st.watches[w.key()], func(o *watch) bool { return o == w })
	if len(left) == 0 {
		delete(st.watches, w.key())
		return
	}
	st.watches[w.key()] = left
}

// note keeps what an event means for the watch, and returns what is to be
// called for it without the mutex; nil if nothing is.
func (w *watch) note(ev driver.Event) (call func()) {
	if w.over || w.asks {
		return nil
	}
	switch ev.Kind {
	case driver.Armed:
		w.told = true
	case driver.Broken:
		w.told = false
	case driver.Gone:
		if w.req.Tell && w.s.c.st.o.Tells {
			w.asks, w.told = true, false
			return func() { w.ask(ev) }
		}
		w.end()
	case driver.Changed:
	}
	if w.since != 0 {
		w.since = max(w.since, ev.Rev)
	}
	return func() { w.show(ev) }
}

// show calls f.
func (w *watch) show(ev driver.Event) {
	ev.Rev = w.s.c.st.dated(ev.Rev)
	w.f(ev)
}

// dated is what is told of when something was: nothing by a service without
// numbers for that.
func (st *Store) dated(rev int64) int64 {
	if st.o.NoRevs {
		return 0
	}
	return rev
}

// ask asks whether the entry that is gone held, again until there is an
// answer, and then tells f both.
func (w *watch) ask(gone driver.Event) {
	st := w.s.c.st
	st.mu.Lock()
	if w.over {
		st.mu.Unlock()
		return
	}
	w.retry.stop()
	w.retry = clock{w.s.c}.after(w.s.patience, func() { w.ask(gone) })
	st.mu.Unlock()
	w.s.c.send(&message{op: fault.Tell, of: w.name(), session: w.s.id, carry: w.s.receive, apply: func() func() {
		ev := gone
		ev.Held = st.held(w.req.Ref)
		return func() { w.answered(ev) }
	}})
}

// answered is the end of ask. An answer to an earlier copy may have come before.
func (w *watch) answered(gone driver.Event) {
	w.s.c.st.mu.Lock()
	late := w.over
	w.end()
	w.s.c.st.mu.Unlock()
	if !late {
		w.show(gone)
	}
}

// end is for a watch that has nothing more to tell.
func (w *watch) end() {
	w.over = true
	w.retry.stop()
	w.s.forget(w)
}

func (s *memSession) forget(w *watch) {
	s.watches = slices.DeleteFunc(s.watches, func(o *watch) bool { return o == w })
}
