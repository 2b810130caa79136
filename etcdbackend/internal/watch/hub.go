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
package watch

import (
	"context"
	"log/slog"
	"strconv"
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
	Marks driver.Marks
	Rev   int64
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
	// was true.
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
	wrote  atomic.Int64   // the newest revision that the session has written

	mu       sync.Mutex // guards everything here, and in the stream
	watches  map[Spec]*serverWatch
	stream   *stream // nil while there is none
	closed   bool
	lastID   int64 // ids are never used again, on no stream
	outage   driver.Outage
	refused  bool   // that a watch is refused has been logged
	checks   []*sub // their entries are to be read
	checking bool   // a goroutine reads them
	inbox    []delivery
	late     []delivery // see await
	draining bool       // a goroutine delivers what is in the inbox
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
	if t.First != "" {
		x.first = h.join(x, Spec{Key: t.First, Firsts: true})
	}
	if x.w = h.join(x, t.Spec); x.w.live {
		h.arm(x)
		h.check()
	}
	h.start.Do(func() { h.wg.Go(h.run) }) // ends with h.ctx
	if len(h.inbox) > 0 && !h.draining {
		h.wg.Go(h.drain) // not here: the caller may hold what f needs
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.remove(x)
		x.over = true
	}
}

// join adds a sub to a watch, which exists from now on.
func (h *Hub) join(x *sub, s Spec) *serverWatch {
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
	if delete(h.watches, w.Spec); len(h.watches) == 0 {
		h.watches = make(map[Spec]*serverWatch) // a map stays as large as it ever was
	}
	if h.stream != nil {
		h.stream.forget(w)
	}
}

// arm puts Armed or Gone for a sub of a live watch, if it is known which. It is Gone if the
// key has changed after the entry was made, and is not the entry's any more. It is Armed if
// the watch began no later than the entry is known to have been there. Also, Armed must be
// as new as anything that the caller was shown of the queue, and the member of the stream
// can be behind that. In all other cases the entry is read, see check.
//
// The newest change that is known can be of an earlier entry with the key, because what
// ended that one may not have been reported yet. It shows nothing of this entry then.
func (h *Hub) arm(x *sub) {
	last, known := x.w.last[x.Ref.Key], max(x.Ref.Place, x.Known)
	if last.place == x.Ref.Place {
		known = max(known, last.rev)
		x.Marks |= last.marks
	}
	shown := x.Shown <= max(known, h.stream.rev)
	switch {
	case x.w.whole:
		h.put(x, driver.Armed, x.w.rev)
	case last.rev > x.Ref.Place && last.place != x.Ref.Place:
		h.put(x, driver.Gone, last.rev)
	case shown && x.w.rev <= known:
		h.put(x, driver.Armed, known)
	case !x.checking:
		x.checking = true
		h.checks = append(h.checks, x)
	}
}

// maxChecks is the most entries that are read at once: a transaction takes 128
// operations.
const maxChecks = 64

// check starts reading the entries in checks, which may have changed before their watches
// began. A watch from an older revision would report such a change, but the server would
// read everything written since then. While created notices are due, check waits, so that
// many entries are read together: until one read is full, or until the next tick, because
// in a busy session a notice is always due.
func (h *Hub) check() {
	if h.stream == nil || h.stream.awaited == 0 || len(h.checks) >= maxChecks {
		h.readChecks()
	}
}

// readChecks starts reading the entries in checks now.
func (h *Hub) readChecks() {
	if len(h.checks) == 0 || h.checking {
		return
	}
	h.checking = true
	h.wg.Go(func() { // ends when there are no checks, or with h.ctx
		h.mu.Lock()
		defer h.mu.Unlock()
		for len(h.checks) > 0 && !h.closed {
			h.read()
		}
		h.checks, h.checking = nil, false // an empty slice would keep its array, and the subs in it
	})
}

// read reads the next entries. It unlocks the mutex meanwhile.
func (h *Hub) read() {
	batch := h.checks[:min(len(h.checks), maxChecks)]
	h.checks = h.checks[len(batch):]
	refs, rev := make([]driver.Ref, len(batch)), int64(0)
	for i, x := range batch {
		refs[i], rev = x.Ref, max(rev, x.w.rev, x.Shown)
	}
	h.mu.Unlock()
	states, err := h.States(h.ctx, refs, rev)
	h.mu.Lock()
	for i, x := range batch {
		x.checking = false
		switch {
		case err != nil || x.armed || x.dead: // after an error, stream.repair tries again
		case !states[i].There:
			h.put(x, driver.Gone, states[i].Rev)
		default:
			x.Known, x.Marks = states[i].Rev, x.Marks|states[i].Marks
			if x.w.live {
				h.arm(x)
			}
		}
	}
	clear(batch) // the array would keep the subs, and what their callbacks refer to
	h.mu.Unlock()
	h.drain()
	h.mu.Lock()
}

// Changed reports a write of an own entry: the watch of own entries reports only deletions.
func (h *Hub) Changed(t Target, rev int64) {
	h.mu.Lock()
	if w := h.watches[t.Spec]; w != nil {
		h.changed(w, t.Ref.Key, change{rev: rev, place: t.Ref.Place, marks: t.Marks})
	}
	h.mu.Unlock()
	h.drain()
}

// event handles one change that the server has reported.
func (h *Hub) event(w *serverWatch, ev *mvccpb.Event) {
	c := change{rev: ev.Kv.ModRevision}
	if len(w.subs) == 0 {
		// That of a range ends at once. In a long queue, every session that has once been
		// first would be notified of each entry that comes and goes.
		if w.Firsts || ev.Type == mvccpb.Event_DELETE {
			w.unused++
		}
		if w.whole || w.unused > maxUnused && len(h.watches) > pair {
			h.forget(w)
			return
		}
	}
	if len(h.late) > 0 && h.late[0].rev < c.rev {
		h.settle()
	}
	switch {
	case w.Firsts:
		place, _ := strconv.ParseInt(string(ev.Kv.Value), 10, 64)
		for _, subs := range w.subs {
			for _, x := range subs {
				if x.Ref.Place == place {
					h.enqueue(delivery{x: x, kind: driver.Gone, rev: c.rev, first: true})
				}
			}
		}
		return
	case !w.whole:
		if ev.Type == mvccpb.Event_PUT {
			c.place, c.marks = ev.Kv.CreateRevision, h.Marks(ev.Kv)
		}
		h.changed(w, string(ev.Kv.Key), c)
		return
	}
	w.rev = max(w.rev, c.rev) // a later sub is armed as of this revision
	for _, x := range w.subs[""] {
		if x.Concerns == nil || x.Concerns(ev) {
			h.put(x, driver.Changed, c.rev)
		}
	}
}

// changed handles a change of an entry's key. It is kept for later subs, because the server
// reports it only once. An answer to a write can come after the event of what happened next.
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
		case c.rev <= x.Ref.Place: // it happened to an earlier entry with that key
		case c.place != x.Ref.Place && x.first != nil && x.first.live:
			h.await(delivery{x: x, kind: driver.Gone, rev: c.rev})
		case c.place != x.Ref.Place:
			h.put(x, driver.Gone, c.rev)
		default:
			x.Marks |= c.marks
			h.put(x, driver.Changed, c.rev)
		}
	}
}

// grace is how long the end of an entry is kept back until it is reported whether it was first.
// Both are of one revision. A server sends what happened in a revision without anything in
// between, but in any order.
const grace = time.Millisecond

// await keeps the end of an entry back until it is reported that it was first, or something
// later, or for grace. All that are kept back are of one revision.
func (h *Hub) await(d delivery) {
	if h.late = append(h.late, d); len(h.late) > 1 {
		return
	}
	h.Send.Clock.AfterFunc(grace, func() {
		h.mu.Lock()
		h.settle()
		h.mu.Unlock()
		h.drain()
	})
}

// settle reports the ends that were kept back.
func (h *Hub) settle() {
	for _, d := range h.late {
		h.enqueue(d)
	}
	h.late = nil
}
