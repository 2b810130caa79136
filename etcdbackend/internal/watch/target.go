package watch

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// Spec is a watch as the server knows it. Targets with the same Spec share one.
type Spec struct {
	Key, End string // the keys of the range; End is "" for a single key
	Puts     bool   // writes are reported, and not only deletes
	Prev     bool   // with the key as it was before
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

	// Concerns reports whether a change of what Spec covers is to be reported; nil means
	// that every one is.
	Concerns func(*mvccpb.Event) bool
}

// sub is a target as its caller watches it. The Hub's mutex guards all that changes.
type sub struct {
	Target
	f        func(driver.Event)
	w        *serverWatch
	armed    bool  // Armed is in the inbox or delivered, and no Lost after it
	changed  int64 // the revision of the newest Changed
	queued   bool  // a Changed is in the inbox
	checking bool  // the entry is being read
	dead     bool  // cancelled, or Gone is in the inbox: nothing more comes in
	over     bool  // cancelled, or Gone was delivered: nothing more comes out
}

// serverWatch is a watch at the server: on the one entry of another session, on all own
// entries of a queue, or on something whole.
type serverWatch struct {
	Spec
	whole bool              // its subs have no entry
	subs  map[string][]*sub // by key of the entry
	id    int64             // on the present stream
	asked driver.Instant    // when it was asked for there
	live  bool              // the server has it
	rev   int64             // it reports everything after that
	idle  driver.Instant    // since when it has no subs
	last  map[string]change // the newest change of each key since it began
}

// change is a change of an entry's key.
type change struct {
	rev   int64
	made  int64 // the place of the entry that it left there; 0 if it deleted the key
	marks driver.Marks
}

// each calls f for all subs.
func (w *serverWatch) each(f func(*sub)) {
	for _, subs := range w.subs {
		for _, x := range subs {
			f(x)
		}
	}
}

// request asks for the watch. It begins now: one from an older revision would be served
// from a loop that runs every 100 ms.
func (w *serverWatch) request() *pb.WatchRequest {
	r := &pb.WatchCreateRequest{Key: []byte(w.Key), RangeEnd: []byte(w.End), WatchId: w.id, PrevKv: w.Prev}
	if !w.Puts {
		r.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}
	}
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}}
}

// delivery is a call of f that is due.
type delivery struct {
	x    *sub
	kind driver.EventKind
	rev  int64
}

// put puts an event for x into the inbox, if it makes sense after those before: Lost and
// Changed come only after Armed. The caller holds the mutex, and drains afterwards.
func (h *Hub) put(x *sub, kind driver.EventKind, rev int64) {
	if x.dead || h.closed {
		return
	}
	switch kind {
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
	h.inbox = append(h.inbox, delivery{x, kind, rev})
}

// drain calls the callbacks that are due. No caller of put waits for a callback, and no
// lock is held during one: so callbacks may watch and cancel, and callers may hold a
// lock that their callback takes as well. The goroutine that has put something in drains
// the inbox, unless another one is at it already.
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
			d.x.over = true
		case driver.Lost:
		}
		h.mu.Unlock()
		h.Host.Report(&d.x.Target, d.kind, d.rev)
		d.x.f(ev)
		h.mu.Lock()
	}
	h.inbox = nil
	h.draining = false
}
