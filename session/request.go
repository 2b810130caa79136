package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/session/driver"
)

// request is one request as the hooks see it, from its start to the end of its hold. It
// implements engine.Hooks. There is none for a Session without hooks for requests.
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

// start begins a request, as the hooks see it, and returns the context that it goes on with.
// failed must follow.
func start(ctx context.Context, s *Session, rs []engine.Request) (context.Context, *request) {
	r := rs[0]
	q := &request{s: s, ctx: ctx, start: s.clock.Wall()}
	q.event = Event{
		ID: s.requests.Add(1), Name: engine.NameOf(rs), Kind: r.Kind, Mode: modeOf(r.Mode), Weight: r.Weight,
	}
	if len(rs) > 1 {
		q.event.Names = engine.Names(rs)
	}
	hook := s.opts.Hooks.Started
	if hook != nil {
		e := q.event
		e.At = q.start
		derived := hook(ctx, e)
		if derived != nil {
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

// Joined implements engine.Hooks. The turn that it returns goes up with each join and each
// loss of the places, so that a report with an older turn is ignored: a read that was under
// way when the place was lost may still report that place.
func (q *request) Joined(session string, token int64, ahead int, further ...int) (turn int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turn++
	q.event.Session, q.event.Token = session, Token(token)
	q.event.Ahead, q.ahead = ahead, nil
	if len(further) > 0 {
		q.ahead = append([]int{ahead}, further...)
		q.event.Ahead = slices.Max(q.ahead)
	}
	q.s.reports.Add(q.ctx, q.s.opts.Hooks.Joined, q.now())
	return q.turn
}

// Moved implements engine.Hooks.
func (q *request) Moved(turn, queue, ahead int) {
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

// WaitsFor implements engine.Hooks.
func (q *request) WaitsFor(e *driver.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waitedFor = e
}

// Rejoins implements engine.Hooks.
func (q *request) Rejoins(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turn++
	e := q.now()
	e.Err = err
	q.s.reports.Add(q.ctx, q.s.opts.Hooks.Rejoined, e)
}

// failed reports the end of a request without a hold. The caller's own goroutine calls it last of
// all, whatever has become of the request, so exactly one Ended follows each Started. It does
// nothing if there was a grant.
func (q *request) failed(err error) {
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

// Granted implements engine.Hooks. From now on the hooks get values, which has the values of the
// request's context: the context itself may keep a chain of holds in memory, see
// engine.Hold.handle. The caller holds the term's mutex, so the loss of the hold is reported later.
func (q *request) Granted(values context.Context, session string, token int64, left time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended, q.ctx = true, values
	q.event.Session, q.event.Token, q.event.Ahead, q.event.Outcome = session, Token(token), 0, OutcomeGranted
	e := q.now()
	q.granted = e.Waited
	e.Left, e.WaitedFor, q.waitedFor = left, q.holder(), nil
	q.s.reports.Must(values, q.s.opts.Hooks.Ended, e)
}

// Over implements engine.Hooks.
func (q *request) Over(err error) {
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
