package etcdbackend

import (
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// Why not the client's Watcher: it makes watches one after another, each after
// the answer to the one before; keeps two goroutines for each; and goes on
// after a reconnection from an old revision, which the server serves from a
// loop that runs every 100 ms, while nothing tells that the stream was broken.
// Nor does it keep the order between watches, on which a grant without a read
// depends.

// linger is how long a watch is kept that nobody needs. Programs that lock in a
// loop are back in a moment, and behind the same neighbours, whose keys are used
// again: then the watch is there already, and began before their entries did.
const linger = 2 * time.Second

// hub is all watches of a session. At the server they share one stream, which
// is there while there are watches; see stream.
type hub struct {
	dispatch // its lock guards everything here, and in the stream

	s       *leased
	all     map[target]*serverWatch
	st      *stream // nil while there is none
	running bool    // run is at work
	lastID  int64   // ids are never used again, on no stream
	warned  bool    // that the stream is broken
	refused bool    // that a watch is
}

func newHub(s *leased) *hub {
	return &hub{s: s, all: make(map[target]*serverWatch)}
}

// stop implements watcher. The goroutines end with the session's context.
func (h *hub) stop() { h.close() }

// watch implements watcher.
func (h *hub) watch(req driver.WatchRequest, f func(driver.Event)) (cancel func()) {
	x := &sub{req: req, f: f}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return func() {}
	}
	w := h.serverWatch(h.s.target(req))
	key := w.sub(req)
	w.subs[key] = append(w.subs[key], x)
	if w.live {
		h.arm(w, x)
	}
	if !h.running {
		h.running = true
		h.s.wg.Go(h.run) // ends with the session, or for want of watches
	}
	if len(h.queue) > 0 && !h.draining {
		h.s.wg.Go(h.drain) // not here: the caller may hold what f needs
	}
	return func() { h.cancel(w, x) }
}

// serverWatch finds or makes the watch on t.
func (h *hub) serverWatch(t target) *serverWatch {
	if w := h.all[t]; w != nil {
		return w
	}
	w := &serverWatch{target: t, subs: make(map[string][]*sub, 1)}
	h.all[t] = w
	if h.st != nil {
		h.st.create(w)
	}
	return w
}

// createIdle makes a watch for the sake of its created notice, see order. Nothing ever
// happens to its key: fences are numbered from 1. It is dropped like others that
// nobody needs.
func (h *hub) createIdle(now driver.Instant) {
	t := target{key: h.s.b.lay.fence(h.s.id, 0)}
	if h.all[t] == nil {
		h.serverWatch(t).idle = now
	}
}

// cancel takes a sub out.
func (h *hub) cancel(w *serverWatch, x *sub) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !x.dead {
		h.remove(w, x)
	}
	h.end(x)
}

// remove takes a sub off its watch. When it was the last the watch is kept for
// a while, since others may want it again.
func (h *hub) remove(w *serverWatch, x *sub) {
	key := w.sub(x.req)
	subs := w.subs[key]
	for i := range subs {
		if subs[i] == x {
			subs = append(subs[:i:i], subs[i+1:]...)
			break
		}
	}
	if len(subs) > 0 {
		w.subs[key] = subs
		return
	}
	delete(w.subs, key)
	if len(w.subs) == 0 {
		w.idle = h.s.b.clock.Now()
	}
}

// drop takes a watch off the server.
func (h *hub) drop(w *serverWatch) {
	delete(h.all, w.target)
	if h.st != nil {
		h.st.forget(w)
	}
}

// dropIdle drops the watches that nobody came back to.
func (h *hub) dropIdle(now driver.Instant) {
	for _, w := range h.all {
		if len(w.subs) == 0 && now.Sub(w.idle) > linger {
			h.drop(w)
		}
	}
}

// arm tells a sub of a live watch that it is armed, if that can be said.
func (h *hub) arm(w *serverWatch, x *sub) {
	ref := x.req.Ref
	switch end := w.ended[ref.Key]; {
	case w.ofLine():
		h.put(x, driver.Armed, w.rev)
	case end > ref.Place:
		h.gone(w, x, end)
	case x.req.Own && !h.st.order.ok:
		// As soon as the order is sure again.
	case x.req.Since != 0 && w.rev > x.req.Since && w.rev > ref.Place:
		h.check(w, x)
	default:
		at := x.armedAt(w.rev)
		h.put(x, driver.Armed, at)
		if c := w.changed[ref.Key]; c.made == ref.Place && c.rev > at {
			h.put(x, driver.Changed, c.rev)
		}
	}
}

// check reads an entry to learn what happened to it before the watch began. A
// watch from the older revision would tell, but the server reads all that was
// written since to find out, and until then nothing is known of the order of
// the whole stream.
func (h *hub) check(w *serverWatch, x *sub) {
	if x.checking || h.closed {
		return
	}
	x.checking = true
	began := w.rev
	h.s.wg.Go(func() { // ends with the answer or the session
		changed, rev, err := h.s.alive(h.s.ctx, x.req.Ref, began)
		h.mu.Lock()
		x.checking = false
		switch {
		case err != nil || x.dead:
		case changed == 0:
			h.gone(w, x, rev)
		case !w.live:
			// It is armed, and checked, when the next stream has it.
		case w.rev != began || !h.st.order.ok:
			h.arm(w, x)
		default:
			h.put(x, driver.Armed, x.armedAt(began))
			if changed > x.req.Since && changed > x.req.Ref.Place {
				h.put(x, driver.Changed, changed)
			}
		}
		h.mu.Unlock()
		h.drain()
	})
}

// gone tells a sub that its entry is no more, and takes it out.
func (h *hub) gone(w *serverWatch, x *sub, rev int64) {
	if x.dead {
		return
	}
	if x.req.Own {
		h.s.gone(x.req.Ref)
	}
	h.put(x, driver.Gone, rev)
	h.remove(w, x)
}

// event takes in one change that the server told of.
func (h *hub) event(w *serverWatch, ev *mvccpb.Event) {
	w.latch(ev)
	kv := ev.Kv
	if w.ofLine() {
		if len(w.subs) == 0 {
			// Others come and go there, and each time we would be told for
			// nothing: with many who were first in line once, so would they all.
			h.drop(w)
		}
		for _, x := range w.subs[""] {
			if concerns(x.req, ev) {
				h.put(x, driver.Changed, kv.ModRevision)
			}
		}
		return
	}
	for _, x := range w.subs[string(kv.Key)] {
		place := x.req.Ref.Place
		switch {
		case kv.ModRevision <= place:
			// It happened to an earlier entry of that name.
		case ev.Type == mvccpb.Event_DELETE, kv.CreateRevision != place:
			h.gone(w, x, kv.ModRevision)
		default:
			h.put(x, driver.Changed, kv.ModRevision)
		}
	}
}

// armOwn arms what waited for the order to be sure, or to be sure again.
func (h *hub) armOwn() {
	for _, w := range h.all {
		if w.live {
			w.each(func(x *sub) {
				if x.req.Own && x.told != armed {
					h.arm(w, x)
				}
			})
		}
	}
}

// disarmOwn tells that the order is not sure any more.
func (h *hub) disarmOwn() {
	for _, w := range h.all {
		w.each(func(x *sub) {
			if x.req.Own {
				h.put(x, driver.Broken, 0)
			}
		})
	}
}
