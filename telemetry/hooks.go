package telemetry

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/session"
)

// Recorder is what Hooks has values shown by. Its methods must be safe for concurrent
// use, should return soon, and must not panic. The Values of a call are those of the
// metric's attributes. ctx has the values of the request's context, a span for example;
// it is context.Background() for what belongs to no request.
type Recorder interface {
	// Add changes a Counter or an UpDownCounter. Hooks adds 0 to Sessions before it returns:
	// a process that has not opened a session yet shows that it has none. It also adds 0 to
	// SessionsLost then, and to HoldsLost and Rejoins of a lock at the lock's first request: a
	// query sees how far a counter has risen only if it has a value before.
	Add(ctx context.Context, id ID, delta int64, v Values)

	// Record adds a value, in seconds, to a Histogram.
	Record(ctx context.Context, id ID, seconds float64, v Values)

	// Observe has a Gauge read by read whenever the metrics are collected. The gauge has
	// no value while ok is false. Hooks calls Observe before it returns. read sends
	// nothing and does not block.
	Observe(id ID, read func() (value float64, ok bool))
}

// Hooks returns hooks that have all Metrics recorded. They may be used for several
// Sessions, also at once, but for those of several stores of membackend, which number
// their sessions alike: call Hooks for each store. A nil o means the defaults of Options.
//
// Each request keeps about 70 bytes in the context that Started derives, so in a chain
// of locks where each is acquired with the Context of the hold before, these stay until
// the end of the chain; see session.Hooks.
func Hooks(r Recorder, o *Options) session.Hooks {
	h := &hooks{r: r, names: newNames(o), begun: map[Values]struct{}{}}
	r.Observe(SessionSlack, h.sessions.slack)
	h.add(Sessions, 0, Values{})
	for _, reason := range []session.Reason{session.ReasonDeadline, session.ReasonExpired} {
		h.add(SessionsLost, 0, Values{Reason: word(string(reason))})
	}
	return session.Hooks{
		Started: h.started, Rejoined: h.rejoined, Ended: h.ended, Released: h.released, Lost: h.lost,
		SessionOpened: h.sessionOpened, SessionRenewed: h.sessionRenewed, SessionLost: h.sessionLost, SessionClosed: h.sessionClosed,
	}
}

// hooks are the hooks with what they know.
type hooks struct {
	r        Recorder
	names    *names
	sessions sessions
	handoffs handoffs
	waiting  atomic.Int64 // requests without an outcome

	mu    sync.RWMutex
	begun map[Values]struct{} // the names and kinds of locks whose counters have begun
}

// add adds to a metric that belongs to no request.
//
//nolint:contextcheck // no context belongs to it
func (h *hooks) add(id ID, delta int64, v Values) { h.r.Add(context.Background(), id, delta, v) }

// nameKey is the key of the name that metrics show for the lock of a request, in its
// context. Several hooks may be used together, each with its own.
type nameKey struct{ of *hooks }

// name returns what metrics show for the lock of a request. If another hook has lost the
// values of the context, the rule is applied anew, so that the gauges stay right.
func (h *hooks) name(ctx context.Context, e session.Event) string {
	if name, ok := ctx.Value(nameKey{h}).(string); ok {
		return name
	}
	return h.names.show(e.Name)
}

func (h *hooks) started(ctx context.Context, e session.Event) context.Context {
	v := Values{Name: h.names.show(e.Name), Kind: e.Kind}
	h.begin(ctx, v)
	h.waiting.Add(1)
	h.r.Add(ctx, Waiters, 1, v)
	return context.WithValue(ctx, nameKey{h}, v.Name)
}

// begin has the counters of what a lock loses begin with 0. Prometheus computes an increase from two
// values, so it would miss the first loss if the counter appeared with it.
func (h *hooks) begin(ctx context.Context, v Values) {
	h.mu.RLock()
	_, ok := h.begun[v]
	h.mu.RUnlock()
	if ok {
		return
	}
	h.mu.Lock()
	h.begun[v] = struct{}{}
	h.mu.Unlock()
	h.r.Add(ctx, Rejoins, 0, v)
	for _, reason := range []session.Reason{session.ReasonDeadline, session.ReasonExpired, session.ReasonDeleted, session.ReasonEvicted} {
		v.Reason = word(string(reason))
		h.r.Add(ctx, HoldsLost, 0, v)
	}
}

func (h *hooks) rejoined(ctx context.Context, e session.Event) {
	h.r.Add(ctx, Rejoins, 1, Values{Name: h.name(ctx, e), Kind: e.Kind})
}

func (h *hooks) ended(ctx context.Context, e session.Event) {
	v := Values{Name: h.name(ctx, e), Kind: e.Kind}
	if e.Outcome == session.OutcomeGranted {
		h.r.Add(ctx, Holds, 1, v)
		h.sessions.renewed(e)
		h.granted(ctx, v.Name, e)
	}
	h.waiting.Add(-1) // after granted: a release that comes later finds the grant
	h.r.Add(ctx, Waiters, -1, v)
	v.Mode, v.Outcome = string(e.Mode), word(string(e.Outcome))
	h.r.Record(ctx, AcquireDuration, e.Waited.Seconds(), v)
}

// granted takes in a grant. A semaphore's request is not granted by the end of one entry.
func (h *hooks) granted(ctx context.Context, name string, e session.Event) {
	if e.WaitedFor == nil || e.Mode == session.Weighted {
		return
	}
	id := entryID{e.WaitedFor.Session, e.WaitedFor.Token}
	g := grant{at: e.At, locks: locksOf(e), name: name}
	took, ok := h.handoffs.granted(id, g, h.sessions.has(id.session))
	if ok {
		h.r.Record(ctx, HandoffDuration, took.Seconds(), Values{Name: name})
	}
}

func (h *hooks) released(ctx context.Context, e session.Event) {
	if e.Err != nil {
		h.over(ctx, e, EndPending)
		return
	}
	h.over(ctx, e, EndReleased)
	someWait := func() bool { return h.waiting.Load() > 0 }
	h.handoffs.release(entryID{e.Session, e.Token}, e.At, locksOf(e), someWait, func(g grant, took time.Duration) {
		h.r.Record(ctx, HandoffDuration, took.Seconds(), Values{Name: g.name})
	})
}

func (h *hooks) lost(ctx context.Context, e session.Event) {
	name := h.over(ctx, e, EndLost)
	h.r.Add(ctx, HoldsLost, 1, Values{Name: name, Kind: e.Kind, Reason: reasonOf(e.Err)})
}

// over takes in the end of a hold, and returns the name of its lock.
func (h *hooks) over(ctx context.Context, e session.Event, end string) (name string) {
	v := Values{Name: h.name(ctx, e), Kind: e.Kind}
	h.r.Add(ctx, Holds, -1, v)
	v.Mode, v.End = string(e.Mode), end
	h.r.Record(ctx, HoldDuration, e.Held.Seconds(), v)
	return v.Name
}

func (h *hooks) sessionOpened(e session.Event) {
	h.sessions.opened(e)
	h.add(Sessions, 1, Values{})
}

func (h *hooks) sessionRenewed(e session.Event) {
	left, ok := h.sessions.renewed(e)
	if ok {
		h.r.Record(context.Background(), RenewalSlack, left.Seconds(), Values{})
	}
}

func (h *hooks) sessionLost(e session.Event) {
	h.sessionClosed(e)
	h.add(SessionsLost, 1, Values{Reason: reasonOf(e.Err)})
}

func (h *hooks) sessionClosed(e session.Event) {
	h.sessions.ended(e.Session)
	h.add(Sessions, -1, Values{})
}

// locksOf returns the names of the locks of a request.
func locksOf(e session.Event) []string {
	if len(e.Names) > 0 {
		return e.Names
	}
	return []string{e.Name}
}

// reasonOf returns the reason of a loss as a value of Reason.
func reasonOf(err error) string {
	var reason session.Reason
	if lost, ok := errors.AsType[*session.LostError](err); ok {
		reason = lost.Reason
	}
	return word(cmp.Or(string(reason), "unknown"))
}

// word returns a text of package session as the value of an attribute.
func word(text string) string { return strings.ReplaceAll(text, " ", "_") }
