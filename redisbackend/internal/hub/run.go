package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

// recheck is how often armed watches are looked at again.
const recheck = 10 * time.Second

// patience bounds each request of the hub: one that is not answered costs the connection for notices.
const patience = 5 * time.Second

// chunk is how many targets one look has, at most.
const chunk = 256

// run does what is due until the hub is stopped. Between two connections no notice arrives, so each
// watch reports Lost, and the next connection arms all again.
func (h *Hub) run(ctx context.Context) {
	pause := driver.Backoff{Least: 20 * time.Millisecond, Most: time.Second, Spread: true}
	var outage driver.Outage
	for ctx.Err() == nil {
		l := &link{h: h, heard: map[string]bool{}}
		err := l.serve(ctx, func() {
			pause.Reset()
			log, lasted := outage.Over(h.Clock.Now())
			if log {
				h.Logger.InfoContext(ctx, "redis: changes of queues are reported again", "after", lasted)
			}
		})
		if l.feed != nil {
			l.feed.End()
		}
		h.lose()
		if ctx.Err() != nil {
			return
		}
		log, since := outage.Failed(h.Clock.Now())
		if log && err != nil {
			h.Logger.WarnContext(ctx, "redis: changes of queues are not reported for now", "error", err.Error(), "since", since)
		}
		pause.Sleep(ctx, h.Clock)
	}
}

// link is one connection of a hub. It belongs to run.
type link struct {
	h       *Hub
	feed    Feed            // nil before anything is subscribed to
	heard   map[string]bool // the channels that are subscribed to
	checked driver.Instant  // when all armed watches were looked at
	looked  driver.Instant  // when the sessions were looked at, by a hub with a Tick
}

// serve does what is due until the connection breaks or the hub is stopped. well is called when
// something was done.
func (l *link) serve(ctx context.Context, well func()) error {
	l.checked = l.h.Clock.Now()
	for ctx.Err() == nil {
		if err := l.step(ctx); err != nil {
			return err
		}
		well()
		if err := l.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// step does all that is due.
func (l *link) step(ctx context.Context) error {
	h := l.h
	for _, s := range h.due() {
		if err := l.bounded(ctx, func(ctx context.Context) error { return h.End(ctx, s) }); err != nil {
			h.cannotEnd(ctx, err)
		}
	}
	fresh := h.unarmed()
	if err := l.bounded(ctx, l.subscribe); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	if h.Clock.Now() >= l.checked.Add(recheck) {
		l.checked = h.Clock.Now()
		fresh = append(fresh, h.armed()...)
	}
	looks := h.Tick > 0 && h.Waiting() && h.Clock.Now() >= l.looked.Add(h.Tick)
	for len(fresh) > 0 || looks {
		some := fresh[:min(len(fresh), chunk)]
		fresh = fresh[len(some):]
		if err := l.bounded(ctx, func(ctx context.Context) error { return l.look(ctx, some, looks) }); err != nil {
			return fmt.Errorf("look: %w", err)
		}
		looks = false
	}
	if err := l.bounded(ctx, l.unsubscribe); err != nil {
		return fmt.Errorf("unsubscribe: %w", err)
	}
	return nil
}

// bounded runs one request.
func (l *link) bounded(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, stop := driver.WithTimeout(ctx, l.h.Clock, patience)
	defer stop()
	return f(ctx)
}

// unarmed returns the watches to be armed.
func (h *Hub) unarmed() []*watch {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.fresh))
}

// needed returns the channels that are needed.
func (h *Hub) needed() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string]bool{}
	for c := range h.channels {
		all[c] = true
	}
	if h.Session != "" {
		all[h.own()] = true
	}
	return all
}

// own is the channel of the session.
func (h *Hub) own() string { return script.SessionChannel(h.Channels, h.Session) }

// armed returns the watches whose state a look can show to have changed.
func (h *Hub) armed() []*watch {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*watch
	for _, some := range h.watches {
		for w := range some {
			if w.armed && (w.target.Kind == driver.OfEntry || w.target.Kind == driver.OfRecord) {
				all = append(all, w)
			}
		}
	}
	return all
}

// subscribe subscribes to the channels that are needed and were not. It makes the connection if there is none.
func (l *link) subscribe(ctx context.Context) error {
	h := l.h
	var join []string
	for c := range h.needed() {
		if !l.heard[c] {
			join = append(join, c)
		}
	}
	if len(join) == 0 {
		return nil
	}
	if l.feed == nil {
		feed, err := h.Dial(ctx, h.notice)
		if err != nil {
			return err
		}
		l.feed = feed
	}
	for _, c := range join {
		l.heard[c] = true
	}
	err := l.feed.Subscribe(ctx, join)
	if err == nil && h.Session != "" && slices.Contains(join, h.own()) {
		h.connected()
	}
	return err //nolint:wrapcheck // step does
}

// unsubscribe unsubscribes from the channels that are not needed. A watch that begins later subscribes anew.
func (l *link) unsubscribe(ctx context.Context) error {
	needed := l.h.needed()
	var leave []string
	for c := range l.heard {
		if !needed[c] {
			delete(l.heard, c)
			leave = append(leave, c)
		}
	}
	if len(leave) == 0 {
		return nil
	}
	return l.feed.Unsubscribe(ctx, leave) //nolint:wrapcheck // step does
}

// look reads the state of watches, and the sessions if wanted.
func (l *link) look(ctx context.Context, all []*watch, sessions bool) error {
	h := l.h
	var a script.Args
	if sessions {
		a = h.Ask()
	} else {
		a.Int(0)
		a.Texts(nil)
	}
	a.Int(int64(len(all)))
	for _, w := range all {
		switch w.target.Kind {
		case driver.OfEntry:
			a.Text("e", w.target.Queue)
			a.Int(w.target.Ref.Place)
		case driver.OfRecord:
			a.Text("r", w.target.Queue, w.target.Record)
		case driver.OfHolders, driver.OfQueue:
			a.Text("q", w.target.Queue, "")
		}
	}
	reply, err := h.Look(ctx, a)
	if err != nil {
		return err
	}
	received := h.Clock.Now()
	if sessions {
		l.looked = received
		h.Saw(received, reply.List(1))
	}
	states := reply.List(2)
	if h.Session != "" && anyGone(all, states) {
		// Another entry that was gone before has a notice, which is not to be reported later.
		if err := l.feed.Subscribe(ctx, []string{h.own()}); err != nil {
			return err //nolint:wrapcheck // step does
		}
	}
	h.apply(all, states)
	return nil
}

// anyGone reports whether the states show that an entry is gone.
func anyGone(all []*watch, states script.Reply) bool {
	for i, w := range all {
		if w.target.Kind == driver.OfEntry && states.Text(i) == "" {
			return true
		}
	}
	return false
}

// apply reports what the states of watches show.
//
//	target   there   armed   stamp or marks are new   reported
//	entry    false   -       -                        Gone, the last event
//	any      -       false   -                        Armed
//	any      -       true    true                     Changed, unless a notice was first
//	any      -       true    false                    nothing
//
// A state is older than each notice that is taken in after it, and may be older than one that was
// taken in before: a deletion stays, marks only grow, and numbers only rise.
func (h *Hub) apply(all []*watch, states script.Reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, w := range all {
		h.answered(w.at.queue)
		if _, there := h.watches[w.at][w]; !there {
			continue
		}
		state := states.Text(i)
		marks, stamp, there := script.Header(state)
		if w.target.Kind != driver.OfEntry {
			marks, stamp, there = 0, script.Record(state+"::").Version, true
		}
		if w.target.Kind == driver.OfEntry && script.SessionOf(w.target.Ref) == "" {
			there = false // no entry here has such a key
		}
		switch {
		case !there:
			h.post(w, driver.Event{Kind: driver.Gone})
		case !w.armed:
			w.armed, w.stamp = true, stamp
			delete(h.fresh, w)
			h.post(w, driver.Event{Kind: driver.Armed, Marks: marks})
		case w.target.Kind == driver.OfEntry:
			h.changed(w, marks, stamp)
		case stamp != w.stamp:
			w.stamp = stamp
			h.post(w, driver.Event{Kind: driver.Changed})
		}
	}
}

// cannotEnd logs once that a session that is over cannot be ended: all that wait behind it wait on.
func (h *Hub) cannotEnd(ctx context.Context, err error) {
	if ctx.Err() != nil || h.told || errors.Is(err, driver.ErrSessionOver) || !driver.Incurable(err) {
		return
	}
	h.told = true
	h.Logger.ErrorContext(ctx, "redis: a session that is over cannot be ended, so its entries stay", "error", err.Error())
}

// wait returns when there is something to do, or the connection has broken.
func (l *link) wait(ctx context.Context) error {
	h := l.h
	d := max(l.checked.Add(recheck).Sub(h.Clock.Now()), time.Millisecond)
	if h.Tick > 0 && h.Waiting() {
		d = min(d, max(l.looked.Add(h.Tick).Sub(h.Clock.Now()), time.Millisecond))
	}
	left, some := h.next()
	if some {
		d = min(d, max(left, time.Millisecond))
	}
	due := make(chan struct{})
	stop := h.Clock.AfterFunc(d, func() { close(due) })
	defer stop()
	var lost <-chan error
	if l.feed != nil {
		lost = l.feed.Lost()
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-h.kick:
	case err := <-lost:
		if err == nil {
			err = errors.New("the connection broke")
		}
		return err
	}
	return nil
}
