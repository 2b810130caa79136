// Package hub reports what happens to watched entries, records and queues, and observes the sessions of
// other processes.
//
// # Who does what
//
//	run      owns the connection for notices: subscribes, looks at what is watched, ends sessions
//	renewal  asks for the sessions that are observed, with each renewal (Ask, Saw); run does it for an observer
//	inbox    calls the watchers, one at a time
//
// # The states of a watch
//
//	new --look, or a Join before it--> armed --notice or a later look--> Changed …, Gone
//	 ^                                   |
//	 +---------- connection lost --------+  Lost
//
// A look begins after the subscription was confirmed. It notes the session with each entry that it shows, so
// what it does not show comes as a notice. So does a Join with the entry that it makes and the one nearest
// ahead: a watch of these needs no look, see Join. A notice is lost only with its connection; as a second
// line, armed watches are looked at again now and then.
package hub

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/inbox"
	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

// Feed is a connection on which notices arrive.
type Feed interface {
	// Subscribe returns when the server has confirmed, or ctx ends.
	Subscribe(ctx context.Context, channels []string) error

	// Unsubscribe returns when the server has confirmed, or ctx ends.
	Unsubscribe(ctx context.Context, channels []string) error

	// Lost receives a value, or is closed, when the connection broke.
	Lost() <-chan error

	// End closes the connection. It does not block.
	End()
}

// Config is what a Hub works with. All fields are required.
type Config struct {
	// Dial makes the hub's own connection. notice is called for each message, one at a time.
	Dial func(ctx context.Context, notice func(channel, payload string)) (Feed, error)

	// Session is the ID of the session. "" is an observer, of which no entry knows: it watches them through
	// the channels of their queues.
	Session string

	// Look returns the sessions and the state of targets, as the script watch does, or the script see for an
	// observer. Its error is one of package driver.
	Look func(ctx context.Context, args script.Args) (script.Reply, error)

	// End ends a session if it still has the version of a sight.
	End func(ctx context.Context, due observed.Sight) error

	// Owns reports whether a session is of this process and was not abandoned: it is not
	// observed, because its own renewals show when it is over.
	Owns func(session string) bool

	Clock  driver.Clock
	Logger *slog.Logger

	// Channels begins the names of the channels, see script.Channels.
	Channels string

	// Tick is the time between two looks at sessions that the hub takes by itself; 0 where renewals do.
	Tick time.Duration

	// Waits is called when Waiting becomes true: renewals are to look more often now.
	Waits func()
}

// Hub is the watches of one session. It is safe for concurrent use.
type Hub struct {
	Config

	ctx  context.Context //nolint:containedctx // the hub's own end
	stop context.CancelFunc
	done sync.WaitGroup // run
	news inbox.Inbox
	kick chan struct{} // has a value when run is to look at its work again

	mu       sync.Mutex
	began    bool                              // run was started
	watches  map[spot]map[*watch]struct{}      // by their targets
	fresh    map[*watch]struct{}               // those that are not armed
	channels map[string]int                    // of queues: how many watches need each, at least one
	queues   int                               // the watches of anything but entries
	joins                                      // what is known without a look
	owners   map[string]int                    // the sessions of other processes whose entries are watched, with the number of watches
	leases   observed.Leases                   // of the sessions in the newest answer
	sights   map[string]int64                  // their versions
	tried    map[observed.Sight]driver.Instant // those of them that were ended, and when
	ask      int64                             // how many of the stalest sessions to ask for
	told     bool                              // a warning was logged that a session cannot be ended
}

// spot is an entry, or a queue as a whole if the place is 0.
type spot struct {
	queue string
	place int64
}

func spotOf(ref driver.Ref) spot { return spot{ref.Queue, ref.Place} }

// watch is one watch. Its fields from ended on are guarded by the hub's mutex.
type watch struct {
	target  driver.Target
	report  func(driver.Event)
	at      spot
	channel string // of the queue, "" if the channel of the session has its notices
	owner   string // of an entry; "" if no entry here has this Ref

	ended bool         // canceled, or Gone was reported
	armed bool         // Armed was reported, and no Lost after it
	marks driver.Marks // all that were reported
	stamp int64        // of the newest state that is known: changes of an entry, version of a record
}

// New returns a hub that does nothing until it is used.
func New(c Config) *Hub {
	ctx, stop := context.WithCancel(context.Background())
	return &Hub{
		Config: c, ctx: ctx, stop: stop, kick: make(chan struct{}, 1),
		watches: map[spot]map[*watch]struct{}{}, fresh: map[*watch]struct{}{}, channels: map[string]int{}, joins: noJoins(),
		owners: map[string]int{}, tried: map[observed.Sight]driver.Instant{}, ask: fewest,
	}
}

// Stop ends all watches. No watcher is called any more, but for one call that may be running.
func (h *Hub) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop() // with mu: run must not find its connection lost before the watches have ended
	for _, all := range h.watches {
		for w := range all {
			w.ended = true
		}
	}
	clear(h.watches)
	clear(h.fresh)
}

// Wait waits for the goroutines of a hub that was stopped.
func (h *Hub) Wait() { h.done.Wait() }

// Start connects, so that a Join shows what its entry and the one ahead are from then on. A hub that was not
// started connects when it is first used.
func (h *Hub) Start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.start()
}

// Watch implements driver.Session.
func (h *Hub) Watch(t driver.Target, report func(driver.Event)) (cancel func()) {
	w := &watch{target: t, report: report, at: spot{queue: t.Queue}}
	if t.Kind == driver.OfEntry {
		w.target, w.at = t.Ref.Target(), spotOf(t.Ref)
		w.owner = script.SessionOf(t.Ref)
	}
	if t.Kind != driver.OfEntry || h.Session == "" {
		w.channel = script.QueueChannel(h.Channels, w.at.queue)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return func() {}
	}
	waited := h.waiting()
	h.add(w)
	if !waited && h.waiting() {
		h.Waits()
	}
	s := h.state(w.at)
	switch {
	case s == nil || t.Kind != driver.OfEntry || script.SessionOf(t.Ref) == "":
		h.fresh[w] = struct{}{}
		h.start()
		h.wake()
	case s.gone:
		h.post(w, driver.Event{Kind: driver.Gone, First: s.first})
	default:
		w.armed, w.stamp = true, s.stamp
		h.post(w, driver.Event{Kind: driver.Armed, Marks: s.marks})
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		w.ended = true
		h.forget(w)
	}
}

// add takes a watch in. With mu.
func (h *Hub) add(w *watch) {
	if h.watches[w.at] == nil {
		h.watches[w.at] = map[*watch]struct{}{}
	}
	h.watches[w.at][w] = struct{}{}
	if w.channel != "" {
		h.channels[w.channel]++
	}
	switch {
	case w.target.Kind != driver.OfEntry:
		h.queues++
	case w.owner != "" && !h.Owns(w.owner):
		h.owners[w.owner]++
	default:
		w.owner = ""
	}
}

// start starts run. With mu.
func (h *Hub) start() {
	if h.began || h.ctx.Err() != nil {
		return
	}
	h.began = true
	h.done.Go(func() { h.run(h.ctx) })
}

// forget takes a watch out of the hub; a report of it may still be on its way. With mu.
func (h *Hub) forget(w *watch) {
	all := h.watches[w.at]
	if _, there := all[w]; !there {
		return
	}
	delete(all, w)
	delete(h.fresh, w)
	if len(all) == 0 {
		delete(h.watches, w.at)
	}
	less(h.channels, w.channel)
	less(h.owners, w.owner)
	if w.target.Kind != driver.OfEntry {
		h.queues--
	}
}

// less counts one less of what is there.
func less(counts map[string]int, of string) {
	if counts[of] > 1 {
		counts[of]--
	} else {
		delete(counts, of)
	}
}

// wake makes run look at its work again.
func (h *Hub) wake() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

// Waiting reports whether anything is watched that other sessions decide about.
func (h *Hub) Waiting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting()
}

// waiting is Waiting, with mu.
func (h *Hub) waiting() bool { return h.queues > 0 || len(h.owners) > 0 }

// Left takes in that an entry is gone, as the answer to an own request shows. The watches of the session learn
// of the end of an own entry by that, without a notice. The end of another one has a notice, which comes in order
// with those about other entries. An observer has no such order to keep.
func (h *Hub) Left(ref driver.Ref, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answered(ref.Queue)
	if h.Session != "" && script.SessionOf(ref) != h.Session {
		return
	}
	for w := range h.watches[spotOf(ref)] {
		h.post(w, driver.Event{Kind: driver.Gone, First: first})
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

// notice takes in a message.
func (h *Hub) notice(channel, payload string) {
	n := script.ParseNotice(payload)
	h.mu.Lock()
	defer h.mu.Unlock()
	queue, whole := script.QueueOf(h.Channels, channel)
	if whole {
		for w := range h.watches[spot{queue: queue}] {
			h.take(w, n)
		}
	}
	if n.Kind != script.Went && n.Kind != script.Wrote {
		return
	}
	at := spot{n.Queue, n.Place}
	h.noted(at, n)
	for w := range h.watches[at] {
		h.take(w, n)
	}
}

// take reports what a notice means for a watch. A watch that is not armed yet takes only what
// stays true: the look that arms it shows the rest. With mu.
func (h *Hub) take(w *watch, n script.Notice) {
	ofEntry := n.Kind == script.Went || n.Kind == script.Wrote
	about := false
	switch w.target.Kind {
	case driver.OfEntry:
		switch {
		case n.Kind == script.Went:
			h.post(w, driver.Event{Kind: driver.Gone, First: n.First})
		case n.Kind == script.Wrote && w.armed:
			h.changed(w, n.Marks, n.Changes)
		}
		return
	case driver.OfHolders:
		about = ofEntry && n.Marks.Has(driver.MarkAdmitted)
	case driver.OfRecord:
		about = n.Kind == script.Recorded && n.Record == w.target.Record
	case driver.OfQueue:
		about = ofEntry || n.Kind == script.Entered
	}
	if about && w.armed {
		h.post(w, driver.Event{Kind: driver.Changed})
	}
}

// changed reports marks and data of an entry that were not reported before. A notice can come later
// than a look that shows what it reports. With mu.
func (h *Hub) changed(w *watch, marks driver.Marks, stamp int64) {
	if w.marks.Has(marks) && stamp <= w.stamp {
		return
	}
	w.stamp = max(w.stamp, stamp)
	h.post(w, driver.Event{Kind: driver.Changed, Marks: marks})
}

// lose reports to all watches that changes may be missing. The next connection arms them again.
func (h *Hub) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost()
	for _, all := range h.watches {
		for w := range all {
			h.fresh[w] = struct{}{}
			if w.armed {
				w.armed = false
				h.post(w, driver.Event{Kind: driver.Lost})
			}
		}
	}
}
