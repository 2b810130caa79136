package watch

import (
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// Spec is a watch as the server knows it. Targets with the same Spec share one.
type Spec struct {
	Key, End string // the keys of the range; End is "" for a single key
	Puts     bool   // writes are reported, and not only deletes
	Prev     bool   // with the key as it was before
	Firsts   bool   // writes are reported, and not deletes: see Target.First
}

// Target is what a caller watches: an entry, or all that Spec covers.
type Target struct {
	Spec  Spec
	Queue string

	// Ref is the entry; zero for all that Spec covers.
	Ref driver.Ref

	// Known is a revision at which the entry is known to have been there, with Marks, and
	// Shown the newest one as of which the caller was shown the queue.
	Known, Shown int64
	Marks        driver.Marks

	// First, unless "", is a key that is written together with the deletion of the entry if
	// no entry was ahead of it: with the entry's place as value.
	First string

	// Concerns reports whether a change of what Spec covers is to be reported; nil means
	// that every one is.
	Concerns func(*mvccpb.Event) bool
}

// sub is one call of Watch. The Hub's mutex guards all that changes.
type sub struct {
	Target
	f        func(driver.Event)
	w        *serverWatch
	first    *serverWatch // on Target.First; may be nil
	armed    bool         // Armed was put into the inbox, and no Lost after it
	changed  int64        // the revision of the newest Changed
	queued   bool         // a Changed is in the inbox
	checking bool         // the entry is in Hub.checks, or is being read
	dead     bool         // cancelled, or Gone was put into the inbox: nothing more is put there
	over     bool         // cancelled: f is not called any more
}

// change is a change of the key of an entry.
type change struct {
	rev   int64
	place int64 // of the entry that has the key since then; 0 if the key was deleted
	marks driver.Marks
}

// delivery is a call of f that is due.
type delivery struct {
	x    *sub
	kind driver.EventKind
	rev  int64

	first bool // of Gone: no entry was ahead
}

// put puts an event for x into the inbox, if the order of events allows it: Lost and Changed
// come only after Armed, and nothing comes after Gone. Several Changed are one until it is
// delivered. The caller holds the mutex, and calls drain afterwards.
func (h *Hub) put(x *sub, kind driver.EventKind, rev int64) {
	h.enqueue(delivery{x: x, kind: kind, rev: rev})
}

// enqueue is put for an event that may have first.
func (h *Hub) enqueue(d delivery) {
	x, rev := d.x, d.rev
	if x.dead || h.closed {
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

// remove removes a sub from its watches.
func (h *Hub) remove(x *sub) {
	if x.dead {
		return
	}
	x.dead = true
	h.leave(x, x.w)
	if x.first != nil {
		h.leave(x, x.first)
	}
}

// leave removes a sub from a watch. A watch without subs is kept for a while, see linger.
func (h *Hub) leave(x *sub, w *serverWatch) {
	key := x.Ref.Key
	rest := slices.Clone(w.subs[key]) // the caller may be iterating over the old slice
	if rest = slices.DeleteFunc(rest, func(o *sub) bool { return o == x }); len(rest) > 0 {
		w.subs[key] = rest
		return
	}
	if delete(w.subs, key); len(w.subs) == 0 {
		w.idle = h.Send.Clock.Now()
	}
}

// drain delivers the events in the inbox, one at a time. The goroutine that has put an event
// there calls it; if another goroutine is delivering already, that one delivers the event
// too. The mutex is not held during a callback, so a callback may watch and cancel, and
// may take a lock that callers of Watch hold.
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
		if d.x.over {
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
