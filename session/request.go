package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session/driver"
)

// request is what hooks are called with on the way of one request, from its start to
// the end of its hold; it implements door.Request. A nil request is that of a Session
// without such hooks, and does nothing.
//
// Its methods only add reports, so they may be called while other mutexes are held.
type request struct {
	s *Session

	mu        sync.Mutex
	ctx       context.Context //nolint:containedctx // what the hooks are called with
	event     Event           // the fields that do not change from one hook to the next
	start     time.Time
	granted   time.Duration // Event.Waited of the grant
	turn      int           // how often it has joined
	ahead     []int         // by queue, if it needs several
	waitedFor *driver.Entry
	ended     bool
}

// start begins a request, see door.Engine.
func start(ctx context.Context, s *Session, r door.Start) (context.Context, *request) {
	if !s.opened() || !s.hooked {
		return ctx, nil
	}
	q := &request{s: s, ctx: ctx, start: s.clock.Wall()}
	q.event = Event{
		ID: s.requests.Add(1), Name: r.Name, Names: r.Names, Kind: r.Kind, Mode: modeOf(r.Mode), Weight: r.Weight,
	}
	if hook := s.opts.Hooks.Started; hook != nil {
		e := q.event
		e.At = q.start
		if derived := hook(ctx, e); derived != nil {
			q.ctx = derived
		}
	}
	return q.ctx, q
}

// report has a hook called, which may be dropped. The caller holds q.mu.
func (q *request) report(hook func(context.Context, Event), err error) {
	if hook == nil {
		return
	}
	e := q.happened()
	e.Err = err
	q.s.reports.add(&report{hook: hook, ctx: q.ctx, event: e})
}

// happened returns the event of something that happens now. The caller holds q.mu.
func (q *request) happened() Event {
	e := q.event
	if q.s.clock == driver.SystemClock() {
		e.Waited = time.Since(q.start) //nolint:forbidigo // it is that clock's, at half the cost of Wall
	} else {
		e.Waited = q.s.clock.Wall().Sub(q.start)
	}
	e.At = q.start.Add(e.Waited)
	return e
}

// Joined implements door.Request.
func (q *request) Joined(t door.Term, token int64, ahead int, further ...int) (turn int) {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turn++
	q.event.Session, q.event.Token = t.(*term).id, Token(token)
	q.event.Ahead, q.ahead = ahead, nil
	if len(further) > 0 {
		q.ahead = append([]int{ahead}, further...)
		q.event.Ahead = slices.Max(q.ahead)
	}
	q.report(q.s.opts.Hooks.Joined, nil)
	return q.turn
}

// Position implements door.Request.
func (q *request) Position(turn, queue, ahead int) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended || turn != q.turn {
		return
	}
	if q.ahead != nil {
		q.ahead[queue] = ahead
		ahead = slices.Max(q.ahead)
	}
	if ahead == q.event.Ahead {
		return
	}
	q.event.Ahead = ahead
	q.report(q.s.opts.Hooks.Position, nil)
}

// WaitsFor implements door.Request.
func (q *request) WaitsFor(turn int, e *driver.Entry) {
	if q == nil || e == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended && turn == q.turn {
		q.waitedFor = e
	}
}

// Rejoined implements door.Request.
func (q *request) Rejoined(err error) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turn++ // what the places before learn now is of no interest
	q.report(q.s.opts.Hooks.Rejoined, err)
}

// Ended implements door.Request.
func (q *request) Ended(err error) {
	if q == nil {
		return
	}
	q.mu.Lock()
	if q.ended { // it was granted
		q.mu.Unlock()
		return
	}
	q.ended = true
	e := q.happened()
	e.WaitedFor = q.holder()
	q.mu.Unlock()
	if err == nil {
		err = errUnfinished
	}
	if n, ok := errors.AsType[*NotAcquiredError](err); ok {
		if n.Holder.Key != "" {
			e.WaitedFor = &n.Holder
		}
		e.Ahead = max(e.Ahead, n.Ahead)
	}
	e.Outcome, e.Err = outcomeOf(err), err
	q.s.reports.must(&report{hook: q.s.opts.Hooks.Ended, ctx: q.ctx, event: e})
}

// errUnfinished is why a request ended that has neither a hold nor an error: the
// caller's context panicked.
var errUnfinished = errors.New("the request panicked")

// outcomeOf returns the outcome of a request that failed.
func outcomeOf(err error) Outcome {
	e, ok := errors.AsType[*NotAcquiredError](err)
	switch {
	case ok && e.Err == nil:
		return OutcomeTaken
	case ok, errors.Is(err, ErrUnavailable):
		return OutcomeGaveUp
	}
	return OutcomeRefused
}

// holder returns the entry that was waited for as users see it, nil if there is none.
// The caller holds q.mu.
func (q *request) holder() *Entry {
	if q.waitedFor == nil || q.s.opts.Hooks.Ended == nil {
		return nil
	}
	e := entryOf(1, true, *q.waitedFor)
	return &e
}

// grantedTo reports the grant of a hold. values has the values of the request's
// context, see handle: the context itself may keep a chain of holds.
func (q *request) grantedTo(values context.Context, g *grant, left time.Duration) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended, q.ctx = true, values
	q.event.Session, q.event.Token, q.event.Ahead, q.event.Outcome = g.t.id, Token(g.Token), 0, OutcomeGranted
	e := q.happened()
	q.granted = e.Waited
	e.Left, e.WaitedFor, q.waitedFor = left, q.holder(), nil
	q.s.reports.must(&report{hook: q.s.opts.Hooks.Ended, ctx: values, event: e})
}

// over reports the end of the hold: err is the *LostError of a loss, and otherwise
// what Unlock returns.
func (q *request) over(err error) {
	if q == nil {
		return
	}
	hook := q.s.opts.Hooks.Released
	if errors.Is(err, ErrLost) {
		hook = q.s.opts.Hooks.Lost
	}
	if hook == nil {
		return
	}
	q.mu.Lock()
	e := q.happened()
	q.mu.Unlock()
	e.Waited, e.Held, e.Err = q.granted, e.Waited-q.granted, err
	q.s.reports.must(&report{hook: hook, ctx: q.ctx, event: e})
}
