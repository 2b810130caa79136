// Package watch reports what happens to keys of etcd.
//
// Why not the client's Watcher: it makes watches one after another, each after the
// answer to the one before; keeps two goroutines for each; and goes on after a
// reconnection from an old revision, which the server serves from a loop that runs every
// 100 ms, while nothing shows that the stream was broken. All watches here begin now, on
// one stream of their own. What happened to an entry before that is read.
package watch

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// linger is how long a watch is kept that has no callers. Programs that lock in a loop
// are back in a moment, and behind the same neighbours, whose keys are used again: then
// the watch is there already, and began before their entries did.
const linger = 2 * time.Second

// Host is the session that a Hub belongs to.
type Host interface {
	// Marks reads the marks of an entry from its key.
	Marks(kv *mvccpb.KeyValue) driver.Marks

	// Check reads entries, not as they were before a revision. It returns with an error
	// only if waiting does not help now.
	Check(ctx context.Context, refs []driver.Ref, rev int64) ([]State, error)

	// Report takes in that an event of a target is about to reach its caller, which was
	// true at a revision.
	Report(t *Target, k driver.EventKind, rev int64)
}

// State is an entry as Check has found it.
type State struct {
	There bool
	Marks driver.Marks
	Rev   int64
}

// Config is what a Hub needs.
type Config struct {
	Host    Host
	Send    *rpc.Sender
	Session string        // names the session in logs
	Quiet   time.Duration // after which a silent stream is asked whether it lives
	Logger  *slog.Logger
}

// Hub has all watches of a session. At the server they share one stream, from the first
// watch on.
type Hub struct {
	Config
	ctx    context.Context // ends with Stop
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines that end with ctx
	wrote  atomic.Int64   // the newest revision that the session has written

	mu       sync.Mutex // guards everything here, and in the stream
	watches  map[Spec]*serverWatch
	stream   *stream // nil while there is none
	running  bool    // run is at work
	closed   bool
	lastID   int64 // ids are never used again, on no stream
	outage   driver.Outage
	refused  bool   // that a watch is refused has been logged
	checks   []*sub // to be read
	checking bool   // runChecks is at work
	inbox    []delivery
	draining bool
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

// Wrote takes in that the session has written at a revision. A stream that does not get
// there is replaced. Of two calls at a time, the older may win: the next one makes up for
// that.
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
	x.w = h.watches[t.Spec]
	if x.w == nil {
		x.w = &serverWatch{Spec: t.Spec, whole: t.Ref.Zero(), subs: make(map[string][]*sub, 1)}
		h.watches[t.Spec] = x.w
		if h.stream != nil {
			h.stream.create(x.w)
		}
	}
	x.w.subs[t.Ref.Key] = append(x.w.subs[t.Ref.Key], x)
	if x.w.live {
		h.arm(x)
		h.check()
	}
	if !h.running {
		h.running = true
		h.wg.Go(h.run) // ends with h.ctx
	}
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

// remove takes a sub off its watch. When it was the last, the watch is kept for a while.
func (h *Hub) remove(x *sub) {
	if x.dead {
		return
	}
	x.dead = true
	key, w := x.Ref.Key, x.w
	rest := slices.Clone(w.subs[key]) // the caller may go through the old ones
	if rest = slices.DeleteFunc(rest, func(o *sub) bool { return o == x }); len(rest) > 0 {
		w.subs[key] = rest
		return
	}
	if delete(w.subs, key); len(w.subs) == 0 {
		w.idle = h.Send.Clock.Now()
	}
}

// forget takes a watch off the server.
func (h *Hub) forget(w *serverWatch) {
	delete(h.watches, w.Spec)
	if h.stream != nil {
		h.stream.forget(w)
	}
}

// arm reports to the sub of a live watch that it is armed, if that is known: if the
// watch is older than the entry, or than what is known of it, or has reported a write.
// Armed must not be older than what the caller was shown: the member can be behind. Else
// the entry is to be read, see check.
func (h *Hub) arm(x *sub) {
	last, known := x.w.last[x.Ref.Key], max(x.Ref.Place, x.Known)
	shown := x.Shown <= max(known, h.stream.rev)
	switch {
	case x.w.whole:
		h.put(x, driver.Armed, x.w.rev)
	case last.rev > x.Ref.Place && last.made != x.Ref.Place:
		h.put(x, driver.Gone, last.rev)
	case shown && (last.made == x.Ref.Place || x.w.rev <= known):
		x.Marks |= last.marks
		h.put(x, driver.Armed, max(x.Ref.Place, last.rev))
	case !x.checking:
		x.checking = true
		h.checks = append(h.checks, x)
	}
}

// maxChecks is the most entries that are read at once: a transaction takes 128
// operations.
const maxChecks = 64

// check begins to read the entries that changed, perhaps, before their watches began. A
// watch from an older revision would report that, but the server reads all that was
// written since to find out. What is asked for in a moment is read together.
func (h *Hub) check() {
	if len(h.checks) == 0 || h.checking || h.stream != nil && h.stream.awaited > 0 {
		return
	}
	h.checking = true
	h.wg.Go(func() { // ends when there are no checks, or with h.ctx
		h.mu.Lock()
		defer h.mu.Unlock()
		for len(h.checks) > 0 && !h.closed {
			h.read()
		}
		h.checks, h.checking = nil, false // what is behind an empty slice would be kept
	})
}

// read reads the next entries. It lets go of the mutex meanwhile.
func (h *Hub) read() {
	batch := h.checks[:min(len(h.checks), maxChecks)]
	h.checks = h.checks[len(batch):]
	refs, rev := make([]driver.Ref, len(batch)), int64(0)
	for i, x := range batch {
		refs[i], rev = x.Ref, max(rev, x.w.rev, x.Shown)
	}
	h.mu.Unlock()
	states, err := h.Host.Check(h.ctx, refs, rev)
	h.mu.Lock()
	for i, x := range batch {
		x.checking = false
		switch {
		case err != nil || x.armed: // the stream looks after it now and then
		case !states[i].There:
			h.put(x, driver.Gone, states[i].Rev)
		default:
			x.Known, x.Marks = states[i].Rev, x.Marks|states[i].Marks
			if x.w.live {
				h.arm(x)
			}
		}
	}
	clear(batch) // what is behind their callbacks is not to be kept
	h.mu.Unlock()
	h.drain()
	h.mu.Lock()
}

// Changed reports a change of an own entry, which its watch leaves out.
func (h *Hub) Changed(t Target, rev int64) {
	h.mu.Lock()
	if w := h.watches[t.Spec]; w != nil {
		h.changed(w, t.Ref.Key, change{rev: rev, made: t.Ref.Place, marks: t.Marks})
	}
	h.mu.Unlock()
	h.drain()
}

// event takes in one change that the server has reported.
func (h *Hub) event(w *serverWatch, ev *mvccpb.Event) {
	c := change{rev: ev.Kv.ModRevision}
	if !w.whole {
		if ev.Type == mvccpb.Event_PUT {
			c.made, c.marks = ev.Kv.CreateRevision, h.Host.Marks(ev.Kv)
		}
		h.changed(w, string(ev.Kv.Key), c)
		return
	}
	w.rev = max(w.rev, c.rev) // callers that come later read after it
	if len(w.subs) == 0 {
		// Others come and go there, and each time we would be notified for nothing: in a
		// long queue, so would all that have been first once.
		h.forget(w)
	}
	for _, x := range w.subs[""] {
		if x.Concerns == nil || x.Concerns(ev) {
			h.put(x, driver.Changed, c.rev)
		}
	}
}

// changed takes in a change of an entry's key, for those that watch it, and for those
// that come later: it will not be reported again.
func (h *Hub) changed(w *serverWatch, key string, c change) {
	if w.last == nil {
		w.last = make(map[string]change, 1)
	}
	w.last[key] = c
	for _, x := range w.subs[key] {
		switch {
		case c.rev <= x.Ref.Place: // it happened to an earlier entry with that key
		case c.made != x.Ref.Place:
			h.put(x, driver.Gone, c.rev)
		default:
			x.Marks |= c.marks
			h.put(x, driver.Changed, c.rev)
		}
	}
}
