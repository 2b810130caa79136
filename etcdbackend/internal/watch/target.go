package watch

import (
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// Spec is a watch as the server knows it. Targets with the same Spec share one.
//
//	Puts   Firsts   reports
//	no     no       deletes
//	yes    no       deletes and writes
//	no     yes      writes
type Spec struct {
	Key, End string // the keys of the range; End is "" for a single key
	Puts     bool
	Prev     bool // with each key as it was before
	Firsts   bool // it is on a first key, see first.go
}

// Target is what a caller watches: an entry, or all that Spec covers.
type Target struct {
	Spec  Spec
	Queue string

	// Ref is the entry; zero for all that Spec covers.
	Ref driver.Ref

	// Known is a revision at which the entry is known to have been there, with Marks; 0 if
	// nothing but its place is known. Shown is the newest one as of which the caller was shown
	// the queue: Armed is never older.
	Known, Shown int64
	Marks        driver.Marks

	// First, unless "", is the first key of the entry, see first.go.
	First string

	// Concerns reports whether a change of what Spec covers is to be reported; nil means
	// that every one is.
	Concerns func(*mvccpb.Event) bool
}

// sub is one call of Watch. The Hub's mutex guards all that changes. Of Target, only Known,
// Shown and Marks change, and only to something newer.
type sub struct {
	Target
	f func(driver.Event)

	w     *serverWatch // on Spec; never changes
	first *serverWatch // on Target.First; nil: there is none

	// armed: Armed was put into the inbox, and no Lost after it. Lost and Changed are put only
	// while it is so.
	armed bool

	// changed is the revision of the newest Changed that was put. One that is not newer is
	// nothing new.
	changed int64
	queued  bool // a Changed is in the inbox, and will report all that changed until then

	unread bool // the entry is in Hub.unread, or is being read

	// Invariant: cancelled implies done.
	done      bool // cancelled, or Gone was put into the inbox: nothing more is put there
	cancelled bool // f is not called any more, also with what is in the inbox
}

// change is a change of the key of an entry.
type change struct {
	rev   int64
	place int64        // of the entry that has the key since then; 0 if the key was deleted
	marks driver.Marks // of that entry
}

// delivery is a call of f that is due.
type delivery struct {
	x    *sub
	kind driver.EventKind
	rev  int64 // at which it was true

	first bool // of Gone: no entry was ahead
}

// put puts an event for x into the inbox, if the order of events allows it. The caller holds the
// mutex, and calls drain afterwards.
//
//	         is put if                              and then
//	Armed    not armed                              the sub is armed
//	Lost     armed                                  the sub is not armed
//	Changed  armed, newer than any before, and no   nothing but the newest marks is reported
//	         Changed is in the inbox
//	Gone     always                                 the sub is done, and leaves its watches
//
// Nothing is put when the sub is done. So Armed or Gone come first, and Gone comes last.
func (h *Hub) put(x *sub, kind driver.EventKind, rev int64) {
	h.putDelivery(delivery{x: x, kind: kind, rev: rev})
}

// putDelivery is put for an event that may have first.
func (h *Hub) putDelivery(d delivery) {
	x, rev := d.x, d.rev
	if x.done || h.closed {
		return
	}
	switch d.kind {
	case driver.Armed:
		if x.armed {
			return
		}
		x.armed = true
	case driver.Lost:
		if !x.armed {
			return
		}
		x.armed = false
	case driver.Changed:
		if !x.armed || rev <= x.changed {
			return
		}
		x.changed = rev
		if x.queued {
			return // it reports this one as well
		}
		x.queued = true
	case driver.Gone:
		h.remove(x)
	}
	h.inbox = append(h.inbox, d)
}

// remove removes a sub from its watches. It is done then.
func (h *Hub) remove(x *sub) {
	if x.done {
		return
	}
	x.done = true
	h.detach(x, x.w)
	if x.first != nil {
		h.detach(x, x.first)
	}
}

// detach removes a sub from a watch. A watch without subs is kept for a while, see linger.
func (h *Hub) detach(x *sub, w *serverWatch) {
	key := x.Ref.Key
	rest := slices.Clone(w.subs[key]) // the caller may be iterating over the old slice
	rest = slices.DeleteFunc(rest, func(o *sub) bool { return o == x })
	if len(rest) > 0 {
		w.subs[key] = rest
		return
	}
	delete(w.subs, key)
	if len(w.subs) == 0 {
		w.idle = h.Send.Clock.Now()
	}
}

// drain delivers the events in the inbox, one at a time. The goroutine that has put an event
// there calls it; if another goroutine is delivering already, that one delivers the event
// too. The mutex is not held during a callback, so a callback may watch and cancel, and
// may take a lock that callers of Watch hold.
//
// The inbox is read anew for each event: a callback can put more events there, cancel a sub
// whose event is in there, or stop the Hub.
func (h *Hub) drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return
	}
	h.draining = true
	for len(h.inbox) > 0 && !h.closed {
		d := h.inbox[0]
		h.inbox = h.inbox[1:]
		if d.x.cancelled {
			continue
		}
		ev := driver.Event{Kind: d.kind}
		switch d.kind {
		case driver.Changed:
			d.x.queued, d.rev, ev.Marks = false, d.x.changed, d.x.Marks
		case driver.Armed:
			ev.Marks = d.x.Marks
		case driver.Gone:
			ev.First = d.first
		case driver.Lost:
		}
		h.mu.Unlock()
		h.Reported(&d.x.Target, d.kind, d.rev)
		d.x.f(ev)
		h.mu.Lock()
	}
	h.inbox = nil
	h.draining = false
}
