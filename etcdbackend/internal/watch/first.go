package watch

import (
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// This file is the half of the first keys that watches them: etcdbackend/first.go describes what
// they are for, and has the half that writes them.
//
// A sub of an entry has a second watch if Target.First is set: on the first key. When the entry
// leaves after it was first, one transaction deletes its key and writes the first key. So both
// watches report a change, of one revision. A server sends what happened in a revision without
// anything in between, but in any order of the watches. So:
//
//	comes first    what the sub gets
//	the first key  Gone with First, at once. The sub is done, so the deletion is nothing to it
//	the deletion   Gone is withheld. If the first key follows, Gone with First takes its place,
//	               and the withheld one is dropped by put, because the sub is done. If an event
//	               of a later revision follows, or nothing for grace, Gone without First
//
//	the second watch is        the deletion is reported
//	live                       as above
//	not made yet, or denied    at once, without First: the waiter reads
//
// The value of the first key is the place of the entry that has left. It can be that of an
// earlier entry with the same key: that is compared, and is nothing to the sub.

// grace is how long the end of an entry is withheld until it is reported whether it was first.
const grace = time.Millisecond

// watchFirst adds the second watch of a sub.
func (h *Hub) watchFirst(x *sub) {
	if x.First != "" {
		x.first = h.attach(x, Spec{Key: x.First, Firsts: true})
	}
}

// firstWritten handles a write of a first key: the entry whose place it shows was first, and
// has left.
func (h *Hub) firstWritten(w *serverWatch, ev *mvccpb.Event) {
	place, _ := strconv.ParseInt(string(ev.Kv.Value), 10, 64) // another program's text is no place
	for _, subs := range w.subs {
		for _, x := range subs {
			if x.Ref.Place == place {
				h.putDelivery(delivery{x: x, kind: driver.Gone, rev: ev.Kv.ModRevision, first: true})
			}
		}
	}
}

// ended handles the end of an entry at a revision: it reports it, or withholds it until it is
// clear whether the entry was first.
func (h *Hub) ended(x *sub, rev int64) {
	if x.first == nil || !x.first.live {
		h.put(x, driver.Gone, rev)
		return
	}
	h.withheld = append(h.withheld, delivery{x: x, kind: driver.Gone, rev: rev})
	if len(h.withheld) > 1 {
		return // they are of one revision, so one timer is enough
	}
	h.Send.Clock.AfterFunc(grace, func() {
		h.mu.Lock()
		h.reportWithheld()
		h.mu.Unlock()
		h.drain()
	})
}

// reportBefore is called before an event of a revision is handled. Ends of an earlier revision
// are reported now: nothing of that revision can follow.
func (h *Hub) reportBefore(rev int64) {
	if len(h.withheld) > 0 && h.withheld[0].rev < rev {
		h.reportWithheld()
	}
}

// reportWithheld reports the ends that are withheld. A timer that comes too late, when others
// are withheld by then, reports those too early: that costs a read.
func (h *Hub) reportWithheld() {
	for _, d := range h.withheld {
		h.putDelivery(d)
	}
	h.withheld = nil
}
