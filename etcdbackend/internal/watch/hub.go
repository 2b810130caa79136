// Package watch reports what happens to keys of etcd.
//
// The client's Watcher is not used. It makes watches one after another, each after the
// answer to the one before, and keeps two goroutines for each. After a reconnection it goes
// on from an old revision, which the server serves from a loop that runs every 100 ms, and
// its user does not learn that the stream was broken.
//
// Here all watches of a session are on one stream, and each begins now. What may have
// happened to an entry before that is read.
//
// A Target is what a caller watches. Targets with the same Spec share a watch at the server.
// When that is live, each of its targets becomes armed: from what is known of the entry, or
// from a read. When the stream breaks, all of them get Lost, and become armed again on the
// next stream, which asks for all watches anew.
//
// What can happen to one target, and which event that puts into the inbox:
//
//	state    what happens                                        event    next state
//	waiting  the watch is live, and the entry is known to be     Armed    armed
//	         there, or the target is no entry
//	waiting  the entry is known to be gone                       Gone     done
//	armed    a change of the entry, or of what the watch covers  Changed  armed
//	armed    the end of the entry                                Gone     done
//	armed    the server ends the watch, or the stream ends       Lost     waiting
//	any      its caller cancels                                  none     done
//
// # Files
//
//	hub.go     the watches of a session, and what follows from what the server reports
//	read.go    entries that must be read, because no event shows whether they are there
//	first.go   whether an entry was first, see etcdbackend/first.go
//	target.go  what a caller watches, and the delivery of events
//	stream.go  one gRPC stream, and when it is given up
//	server.go  one watch on it
package watch

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// linger is how long a watch without subs is kept. A program that locks in a loop soon
// waits behind the same sessions again, and their keys are used again. Then the watch is
// there already, and is older than their entries, so nothing has to be read.
const linger = 2 * time.Second

// maxUnused is how many ends of entries a watch without subs may report. Sessions that lock in a
// loop change their order now and then, and each would soon watch all others. After so many
// turns of another session behind which this one did not wait, the watch has cost more than
// a new one.
const maxUnused = 3

// pair is how many watches a session has that takes turns with one other: on its own entries and
// on those of the other. They stay until linger has passed, because it soon waits there again.
const pair = 2

// State is an entry as a read has found it.
type State struct {
	There bool
	Marks driver.Marks // of an entry that is there
	Rev   int64        // as of when
}

// Config is what a Hub needs.
type Config struct {
	Send    *rpc.Sender
	Session string        // names the session in logs
	Quiet   time.Duration // after so much silence, the server is asked for a message
	Logger  *slog.Logger

	// Marks returns the marks that the value of an entry's key shows.
	Marks func(kv *mvccpb.KeyValue) driver.Marks

	// States reads entries as they are at a revision or later. It waits for an answer: an
	// error means that waiting does not help now.
	States func(ctx context.Context, refs []driver.Ref, rev int64) ([]State, error)

	// Floor returns the newest revision as of which the caller was shown a queue. The Hub
	// calls it with its mutex held.
	Floor func(queue string) int64

	// Reported is called before each event is delivered, with the revision at which it
	// was true. No mutex is held.
	Reported func(t *Target, k driver.EventKind, rev int64)
}

// Hub has all watches of a session. At the server they share one stream, from the first
// watch on.
type Hub struct {
	Config
	ctx    context.Context // ends with Stop
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines that end with ctx
	start  sync.Once      // of run, which keeps the stream

	// wrote is the newest revision that the session has written. It only rises, see Wrote. The
	// stream must reach it soon, or its member lags behind.
	wrote atomic.Int64

	mu sync.Mutex // guards everything here, and in the stream, the watches and the subs

	watches map[Spec]*serverWatch // those with subs, and those that linger
	stream  *stream               // nil while there is none
	closed  bool                  // Stop was called: nothing is delivered any more
	lastID  int64                 // of the newest watch at the server; no id is used again, on no stream

	outage  driver.Outage // of streams
	refused bool          // that a watch is refused has been logged

	// unread are the entries that are to be read, see read.go. None is in there twice. reading:
	// a goroutine reads them; it ends when there are none.
	unread  []*sub
	reading bool

	// inbox are the events that are due, in the order in which they are delivered. draining: a
	// goroutine delivers them, and will deliver those that are added meanwhile.
	inbox    []delivery
	draining bool

	// withheld are the ends of entries that are kept back for a moment, all of one revision, see
	// first.go.
	withheld []delivery
}

// New returns a Hub.
func New(c Config) *Hub {
	h := &Hub{Config: c, watches: make(map[Spec]*serverWatch)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Stop ends all watches. It does not block.
func (h *Hub) Stop() {
	h.mu.Lock()
	h.closed, h.inbox = true, nil
	h.mu.Unlock()
	h.cancel()
}

// Wait waits, after Stop, for the goroutines.
func (h *Hub) Wait() { h.wg.Wait() }

// Wrote records that the session has written at a revision. A stream that does not reach
// this revision in time is replaced. If two calls race, the lower revision may stay: then
// the stream is checked against the next one.
func (h *Hub) Wrote(rev int64) {
	if rev > h.wrote.Load() {
		h.wrote.Store(rev)
	}
}

// Watch calls f with what happens to a target until cancel is called, or its entry is
// gone. The calls of f run one at a time.
func (h *Hub) Watch(t Target, f func(driver.Event)) (cancel func()) {
	x := &sub{Target: t, f: f}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return func() {}
	}
	h.watchFirst(x)
	x.w = h.attach(x, t.Spec)
	if x.w.live {
		h.arm(x)
		h.readSoon()
	}
	h.start.Do(func() { h.wg.Go(h.run) }) // ends with h.ctx
	if len(h.inbox) > 0 && !h.draining {
		h.wg.Go(h.drain) // not here: the caller may hold what f needs
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.remove(x)
		x.cancelled = true
	}
}

// attach adds a sub to a watch, which exists from now on.
func (h *Hub) attach(x *sub, s Spec) *serverWatch {
	w := h.watches[s]
	if w == nil {
		w = &serverWatch{Spec: s, whole: x.Ref.Zero(), subs: make(map[string][]*sub, 1)}
		h.watches[s] = w
		if h.stream != nil {
			h.stream.create(w)
		}
	}
	w.unused = 0
	w.subs[x.Ref.Key] = append(w.subs[x.Ref.Key], x)
	return w
}

// Go runs f, with a context that ends with Stop. It reports whether it does.
func (h *Hub) Go(f func(ctx context.Context)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.wg.Go(func() { f(h.ctx) })
	}
	return !h.closed
}

// forget ends a watch, here and at the server.
func (h *Hub) forget(w *serverWatch) {
	delete(h.watches, w.Spec)
	if len(h.watches) == 0 {
		h.watches = make(map[Spec]*serverWatch) // a map stays as large as it ever was
	}
	if h.stream != nil {
		h.stream.forget(w)
	}
}

// arm puts Armed or Gone for a sub of a live watch, if it is known which; else the entry is to
// be read. Three revisions decide:
//
//	begin  of the watch: every later change of the key is reported
//	known  the newest one at which the entry is known to have been there
//	shown  the newest one as of which the caller was shown the queue: Armed must be as new as
//	       that, and the member of the stream can be behind the one that has shown it
//
// The first line that fits counts:
//
//	no entry, but all that the watch covers     Armed, since every change since begin is reported
//	the key changed after the entry was made,   Gone
//	and is not the entry's any more
//	known >= begin, and what is known, or the   Armed: nothing can have happened between known
//	stream, is as new as shown                  and begin, and all since then is reported
//	any other                                   the entry is to be read
//
// The newest change that is known can be of an earlier entry with the key, because what
// ended that one may not have been reported yet. It shows nothing of this entry then.
func (h *Hub) arm(x *sub) {
	last, known := x.w.last[x.Ref.Key], max(x.Ref.Place, x.Known)
	if last.place == x.Ref.Place {
		known = max(known, last.rev)
		x.Marks |= last.marks
	}
	upToDate := x.Shown <= max(known, h.stream.rev)
	switch {
	case x.w.whole:
		h.put(x, driver.Armed, x.w.rev)
	case last.rev > x.Ref.Place && last.place != x.Ref.Place:
		h.put(x, driver.Gone, last.rev)
	case upToDate && x.w.rev <= known:
		h.put(x, driver.Armed, known)
	case !x.unread:
		x.unread = true
		h.unread = append(h.unread, x)
	}
}

// Changed reports a write of an own entry: the watch of own entries reports only deletions.
func (h *Hub) Changed(t Target, rev int64) {
	h.mu.Lock()
	w := h.watches[t.Spec]
	if w != nil {
		h.changed(w, t.Ref.Key, change{rev: rev, place: t.Ref.Place, marks: t.Marks})
	}
	h.mu.Unlock()
	h.drain()
}

// event handles one change that the server has reported.
func (h *Hub) event(w *serverWatch, ev *mvccpb.Event) {
	c := change{rev: ev.Kv.ModRevision}
	if len(w.subs) == 0 && h.spare(w, ev) {
		h.forget(w)
		return
	}
	h.reportBefore(c.rev)
	switch {
	case w.Firsts:
		h.firstWritten(w, ev)
	case w.whole:
		w.rev = max(w.rev, c.rev) // a later sub is armed as of this revision
		for _, x := range w.subs[""] {
			if x.Concerns == nil || x.Concerns(ev) {
				h.put(x, driver.Changed, c.rev)
			}
		}
	default:
		if ev.Type == mvccpb.Event_PUT {
			c.place, c.marks = ev.Kv.CreateRevision, h.Marks(ev.Kv)
		}
		h.changed(w, string(ev.Kv.Key), c)
	}
}

// spare counts an event of a watch without subs, and reports whether the watch costs more than
// it is worth. That of a range always does: in a long queue, every session that has once been
// first would be notified of each entry that comes and goes.
func (h *Hub) spare(w *serverWatch, ev *mvccpb.Event) bool {
	if w.Firsts || ev.Type == mvccpb.Event_DELETE {
		w.unused++
	}
	return w.whole || w.unused > maxUnused && len(h.watches) > pair
}

// changed handles a change of an entry's key. It is kept for later subs, because the server
// reports it only once. An answer to a write can come after the event of what happened next.
//
// What it is to a sub, in this order:
//
//	not after the entry was made    nothing: it happened to an earlier entry with the key
//	the key is not the entry's now  the end of the entry
//	the key is still the entry's    a change of the entry; marks are only ever added
func (h *Hub) changed(w *serverWatch, key string, c change) {
	if c.rev < w.last[key].rev {
		return
	}
	if w.last == nil {
		w.last = make(map[string]change, 1)
	}
	w.last[key] = c
	for _, x := range w.subs[key] {
		switch {
		case c.rev <= x.Ref.Place:
		case c.place != x.Ref.Place:
			h.ended(x, c.rev)
		default:
			x.Marks |= c.marks
			h.put(x, driver.Changed, c.rev)
		}
	}
}
