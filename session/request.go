package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// request is one request as the hooks see it, from its start to the end of its hold. It
// implements door.Request. A nil request is that of a Session without hooks for requests,
// and does nothing.
//
// Its methods only add reports, so they may be called while other mutexes are held.
type request struct {
	s     *Session
	start time.Time

	mu        sync.Mutex
	ctx       context.Context //nolint:containedctx // what the hooks are called with
	event     Event           // the fields that do not change from one hook to the next
	granted   time.Duration   // Event.Waited of the grant
	turn      int             // how often the request has joined, or lost its places
	ahead     []int           // by queue, if it needs several
	waitedFor *driver.Entry
	ended     bool
}

// start implements door.Engine's Start.
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

// now returns the event of what happens now: At is later than the start by Waited, also if
// the wall clock of the machine was set. The caller holds q.mu.
func (q *request) now() Event {
	e := q.event
	if q.s.clock == driver.SystemClock() {
		e.Waited = time.Since(q.start) //nolint:forbidigo // it is that clock's, at half the cost of Wall
	} else {
		e.Waited = q.s.clock.Wall().Sub(q.start)
	}
	e.At = q.start.Add(e.Waited)
	return e
}

// Joined implements door.Request. The turn that it returns goes up with each join and each
// loss of the places, so that a report with an older turn is ignored: a read that was under
// way when the place was lost may still report that place.
func (q *request) Joined(t *term.Term, token int64, ahead int, further ...int) (turn int) {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turn++
	q.event.Session, q.event.Token = t.ID(), Token(token)
	q.event.Ahead, q.ahead = ahead, nil
	if len(further) > 0 {
		q.ahead = append([]int{ahead}, further...)
		q.event.Ahead = slices.Max(q.ahead)
	}
	q.s.reports.Add(q.ctx, q.s.opts.Hooks.Joined, q.now())
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
	q.s.reports.Add(q.ctx, q.s.opts.Hooks.Position, q.now())
}

// WaitsFor implements door.Request.
func (q *request) WaitsFor(turn int, e *driver.Entry) {
	if q == nil {
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
	q.turn++
	e := q.now()
	e.Err = err
	q.s.reports.Add(q.ctx, q.s.opts.Hooks.Rejoined, e)
}

// Ended implements door.Request. The caller's own goroutine calls it last of all, whatever
// has become of the request, so exactly one Ended follows each Started.
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
	e := q.now()
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
	q.s.reports.Must(q.ctx, q.s.opts.Hooks.Ended, e)
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

// grantedTo reports the grant of a hold. From now on the hooks get values, which has the
// values of the request's context: the context itself may keep a chain of holds in memory,
// see handle. The caller holds the term's mutex, so the loss of the hold is reported later.
func (q *request) grantedTo(values context.Context, g *grant, left time.Duration) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended, q.ctx = true, values
	q.event.Session, q.event.Token, q.event.Ahead, q.event.Outcome = g.t.ID(), Token(g.Token), 0, OutcomeGranted
	e := q.now()
	q.granted = e.Waited
	e.Left, e.WaitedFor, q.waitedFor = left, q.holder(), nil
	q.s.reports.Must(values, q.s.opts.Hooks.Ended, e)
}

// over reports the end of the hold. It is called once: by the loss of the hold with its
// *LostError, or by the last Unlock with what that returns.
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
	e := q.now()
	q.mu.Unlock()
	e.Waited, e.Held, e.Err = q.granted, e.Waited-q.granted, err
	q.s.reports.Must(q.ctx, hook, e)
}
