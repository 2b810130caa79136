// Package hub reports what happens to watched entries, records and queues, and observes the
// sessions that have entries in watched queues.
//
// # Who does what
//
//	run     owns the connection: listens, reads states, observes, waits for notices
//	inbox   calls the watchers, one at a time
//	end     ends a session that was not renewed; at most one at a time
//
// # The states of a watch
//
//	new --listen, then read--> armed --notice or a later read--> Changed …, Gone
//	 ^                           |
//	 +------ connection lost ----+  Lost
//
// The read begins after the LISTEN was answered. So what it does not show comes as a notice. A
// notice can be lost, so armed watches are read again now and then.
//
// Where notifications do not arrive (a pooler that lends the server's connections for a
// transaction at a time), the same loop reads instead of listening: often what is near the head of
// its queue, seldom the rest.
package hub

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairlock/fairlock/internal/inbox"
	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/pgbackend/internal/layout"
	"github.com/fairlock/fairlock/session/driver"
)

// Config is what a Hub works with. All fields are required, unless they say otherwise.
type Config struct {
	// Dial makes the hub's own connection, whose notifications go to noted, which may be called
	// while a request is under way.
	Dial func(ctx context.Context, noted func(*pgconn.Notification)) (*pgx.Conn, error)

	// Notify sends an empty notification from another connection.
	Notify func(ctx context.Context, channel string) error

	// Poll switches LISTEN off.
	Poll bool

	Clock  driver.Clock
	Logger *slog.Logger
	Layout layout.Layout
	Texts  layout.Texts
	Secret string

	// Tick is the longest time between two looks at the sessions that are waited for.
	Tick time.Duration

	// Session is the hub's own session, 0 for an observer.
	Session int64

	// Owns reports whether a session is of this process and was not abandoned: it is not
	// observed, because its own renewals show when it is over.
	Owns func(session string) bool

	// Floor returns a place below which a queue has no entry.
	Floor func(stored string) int64

	// End ends a session if it still has the version of a sight, and returns when this is done or
	// has failed. After an error it is called again, later and later. It bounds itself.
	End func(ctx context.Context, due observed.Sight) error

	// Over is called when an answer shows that the data has another life.
	Over func()
}

// Hub is the watches of one session. It is safe for concurrent use.
type Hub struct {
	Config

	ctx  context.Context //nolint:containedctx // the hub's own end
	stop context.CancelFunc
	done sync.WaitGroup // run and end
	news inbox.Inbox
	told bool // a warning was logged that notifications do not arrive; of run

	mu       sync.Mutex
	began    bool                           // run was started, by the first watch
	channels map[string]map[*watch]struct{} // the watches by their channels; the channels to be listened to
	own      map[string][]int64             // the places of the session's own entries, by stored queue
	leases   observed.Leases                // of the sessions in watched queues
	ending   bool                           // end is running
	endPause driver.Backoff                 // between ends that fail
	endFrom  driver.Instant                 // no session is ended before that: the last end has failed
	observed driver.Instant                 // the last look at the sessions
	kick     context.CancelFunc             // ends the wait of run; nil while it does not wait
	woken    bool                           // something may have become due since the last plan
}

// watch is one watch. Its fields from ended on are guarded by the hub's mutex.
type watch struct {
	target  driver.Target
	report  func(driver.Event)
	queue   string // the stored name
	channel string
	session int64 // of an entry; 0 if no entry here has this Ref
	place   int64 // of an entry; of the last own one when holders are read

	ended  bool           // canceled, or Gone was reported
	armed  bool           // Armed was reported, and no Lost after it
	due    driver.Instant // when the state is to be read next, at the latest
	marks  driver.Marks   // all that were reported
	stamp  int64          // of the newest state that is known, see layout.Texts.States
	remote bool           // no entry of ours is behind the entry, so changes must be notified anyway
}

// New returns a hub that does nothing until Watch is called.
func New(c Config) *Hub {
	ctx, stop := context.WithCancel(context.Background())
	h := &Hub{
		Config: c, ctx: ctx, stop: stop,
		channels: map[string]map[*watch]struct{}{}, own: map[string][]int64{},
		endPause: driver.Backoff{Least: c.Tick, Most: endMost, Spread: true},
	}
	return h
}

// Stop ends all watches. No watcher is called any more, but for one call that may be running.
func (h *Hub) Stop() {
	h.stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, all := range h.channels {
		for w := range all {
			w.ended = true
		}
	}
	clear(h.channels)
}

// Wait waits for the goroutines of a hub that was stopped.
func (h *Hub) Wait() { h.done.Wait() }

// Watch implements driver.Session.
func (h *Hub) Watch(t driver.Target, report func(driver.Event)) (cancel func()) {
	if t.Kind == driver.OfEntry {
		t = t.Ref.Target()
	}
	w := &watch{target: t, report: report, queue: h.Layout.Queue(t.Queue), place: t.Ref.Place}
	w.channel = layout.Channel(h.Secret, w.queue)
	if t.Kind == driver.OfEntry {
		w.session, _ = layout.SessionOf(t.Ref)
		w.channel = layout.EntryChannel(w.channel, w.place)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return func() {}
	}
	if h.channels[w.channel] == nil {
		h.channels[w.channel] = map[*watch]struct{}{}
	}
	h.channels[w.channel][w] = struct{}{}
	w.remote = h.isRemote(w)
	if !h.began {
		h.began = true
		h.done.Go(func() { h.run(h.ctx) })
	}
	h.wake()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.remove(w)
	}
}

// remove ends a watch. With mu.
func (h *Hub) remove(w *watch) {
	w.ended = true
	h.forget(w)
}

// forget takes a watch out of the hub; a report of it may still be on its way. With mu.
func (h *Hub) forget(w *watch) {
	delete(h.channels[w.channel], w)
	if len(h.channels[w.channel]) == 0 {
		delete(h.channels, w.channel)
	}
}

// wake makes run look at the watches again. With mu.
func (h *Hub) wake() {
	h.woken = true
	if h.kick != nil {
		h.kick()
	}
}

// isRemote reports whether changes of the target may concern a client that has no entry behind
// it: the one that changes it must be asked to notify. With mu.
func (h *Hub) isRemote(w *watch) bool {
	if w.target.Kind != driver.OfEntry {
		return true
	}
	return !h.behind(w.queue, w.place)
}

// Behind reports whether an entry of the session is behind a place of a stored queue. One that is
// being made may be missing.
func (h *Hub) Behind(stored string, place int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.behind(stored, place)
}

func (h *Hub) behind(stored string, place int64) bool {
	own := h.own[stored]
	return len(own) > 0 && own[len(own)-1] > place
}

// Joined notes an entry that the session has made. It is called before a caller knows of it.
func (h *Hub) Joined(stored string, place int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := h.own[stored]
	i, _ := slices.BinarySearch(own, place)
	h.own[stored] = slices.Insert(own, i, place)
}

// Left notes that an entry is gone, as the answer to an own request shows. The watches of the
// session learn of it without a notice.
func (h *Hub) Left(ref driver.Ref, first bool) {
	stored := h.Layout.Queue(ref.Queue)
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.channels[layout.EntryChannel(layout.Channel(h.Secret, stored), ref.Place)] {
		h.post(w, driver.Event{Kind: driver.Gone, First: first})
	}
	own := h.own[stored]
	i, found := slices.BinarySearch(own, ref.Place)
	if !found {
		return
	}
	h.own[stored] = slices.Delete(own, i, i+1)
	if len(own) == 1 {
		delete(h.own, stored)
	}
	if i < len(own)-1 {
		return // another one is behind whatever this one was behind
	}
	for _, all := range h.channels {
		for w := range all {
			if w.queue == stored && !w.remote && h.isRemote(w) {
				w.remote = true
				w.due = 0 // after the row in table watcher was made, the state is read again
				h.wake()
			}
		}
	}
}

// post reports an event. With mu.
func (h *Hub) post(w *watch, e driver.Event) {
	if w.target.Kind == driver.OfEntry && (e.Kind == driver.Armed || e.Kind == driver.Changed) {
		w.marks |= e.Marks
		e.Marks = w.marks
	}
	if e.Kind == driver.Gone {
		h.forget(w)
	}
	h.news.Put(func() {
		h.mu.Lock()
		ended := w.ended
		if e.Kind == driver.Gone {
			w.ended = true
		}
		h.mu.Unlock()
		if !ended {
			w.report(e)
		}
	})
}

// notice takes in a notification.
func (h *Hub) notice(n *pgconn.Notification) {
	what, ok := layout.ParseNotice(n.Payload)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.channels[n.Channel] {
		h.take(w, what)
	}
}

// take reports what a notice means for a watch. A watch that is not armed yet takes only what
// stays true: the read that arms it shows the rest. With mu.
func (h *Hub) take(w *watch, n layout.Notice) {
	switch w.target.Kind {
	case driver.OfEntry:
		switch {
		case n.Kind == layout.Went:
			h.post(w, driver.Event{Kind: driver.Gone, First: n.First})
		case n.Kind == layout.Wrote && w.armed:
			h.changed(w, n.Marks, n.Changed)
		}
		return
	case driver.OfHolders:
		if n.Kind != layout.Went && n.Kind != layout.Wrote || !n.Marks.Has(driver.MarkAdmitted) {
			return
		}
	case driver.OfRecord:
		if n.Kind != layout.Recorded || n.Record != w.target.Record {
			return
		}
	case driver.OfQueue:
		if n.Kind == layout.Recorded {
			return
		}
	}
	if w.armed {
		h.post(w, driver.Event{Kind: driver.Changed})
	}
}

// changed reports marks and data of an entry that were not reported before. A notice can come later
// than a read that shows what it reports. With mu.
func (h *Hub) changed(w *watch, marks driver.Marks, stamp int64) {
	if w.marks.Has(marks) && stamp <= w.stamp {
		return
	}
	w.stamp = max(w.stamp, stamp)
	h.post(w, driver.Event{Kind: driver.Changed, Marks: marks})
}
