package etcdbackend

import (
	"context"
	"fmt"
	"sync"

	"github.com/fairlock/fairlock/session/driver"
)

// watcher tells what happens to entries.
type watcher interface {
	watch(req driver.WatchRequest, f func(driver.Event)) (cancel func())
	stop() // does not block; the goroutines end with the session's context
}

// newWatcher picks the way to watch that the client allows.
func newWatcher(s *leased) watcher {
	if s.b.plain {
		return newHub(s)
	}
	return &wrapped{s: s}
}

// Watch implements driver.Session.
func (s *leased) Watch(req driver.WatchRequest, f func(driver.Event)) (cancel func()) {
	return s.watches.watch(req, f)
}

// told is how far a watch has been told.
type told int

const (
	nothing told = iota // not yet, or not since it broke
	armed
	broken
)

// sub is one watch as its caller sees it. All fields but the first two are
// guarded by the dispatch's lock.
type sub struct {
	req      driver.WatchRequest
	f        func(driver.Event)
	told     told
	changed  int64 // the revision that Changed was last told of
	checking bool  // the entry is being read, see hub.check
	dead     bool  // cancelled, or Gone is queued: nothing more is put in
	over     bool  // cancelled, or Gone was delivered: nothing more comes out
}

// armedAt is after which revision a watch tells everything that began at rev,
// with what was read for it.
func (x *sub) armedAt(rev int64) int64 {
	if x.req.Since != 0 {
		return x.req.Since
	}
	return rev
}

// dispatch calls the callbacks of a session, one at a time, in the order in
// which events were put in. Nobody who puts one in waits for a callback, and no
// lock is held during one: so callbacks may watch and cancel, and callers may
// hold a lock that their callback takes as well.
//
// There is no goroutine for it. Whoever has put something in drains the queue,
// unless somebody is at it already.
type dispatch struct {
	mu       sync.Mutex
	queue    []delivery
	draining bool
	closed   bool
}

type delivery struct {
	s  *sub
	ev driver.Event
}

// put queues an event for s, if it makes sense after what s was told: a watch
// begins with Armed or Gone, and Broken comes only after Armed. The caller
// holds d.mu, and drains afterwards.
func (d *dispatch) put(s *sub, kind driver.EventKind, rev int64) {
	if s.dead || d.closed {
		return
	}
	switch kind {
	case driver.Armed:
		if s.told == armed {
			return
		}
		s.told = armed
	case driver.Broken:
		if s.told != armed {
			return
		}
		s.told = broken
	case driver.Changed:
		if s.told != armed || !s.req.Changes && s.req.Of == driver.OfEntry || rev == s.changed {
			return
		}
		s.changed = rev
	case driver.Gone:
		s.dead = true
	}
	d.queue = append(d.queue, delivery{s, driver.Event{Kind: kind, Rev: rev}})
}

// end takes a sub out: nothing more is put in, nor delivered. The caller holds
// d.mu.
func (d *dispatch) end(s *sub) { s.dead, s.over = true, true }

// close takes all of them out.
func (d *dispatch) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed, d.queue = true, nil
}

// drain calls the callbacks that are due.
func (d *dispatch) drain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.draining {
		return
	}
	d.draining = true
	for len(d.queue) > 0 && !d.closed {
		next := d.queue[0]
		d.queue = d.queue[1:]
		if next.s.over {
			continue
		}
		next.s.over = next.ev.Kind == driver.Gone
		d.mu.Unlock()
		next.s.f(next.ev)
		d.mu.Lock()
	}
	d.queue = nil
	d.draining = false
}

// alive reads an entry, as it was at a revision or later. It says when the
// entry was last changed, 0 if it is gone, and as of which revision.
func (s *leased) alive(ctx context.Context, ref driver.Ref, notBefore int64) (changed, rev int64, err error) {
	resp, err := s.freshGet(ctx, keyOnly(ref.Key), notBefore)
	if err != nil {
		return 0, 0, fmt.Errorf("etcd: read %q: %w", ref.Key, err)
	}
	kv := first(resp.Kvs)
	if kv == nil || kv.CreateRevision != ref.Place {
		return 0, resp.Header.Revision, nil
	}
	return kv.ModRevision, resp.Header.Revision, nil
}
