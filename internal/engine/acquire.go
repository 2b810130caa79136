package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Request is what a recipe asks for.
type Request struct {
	Name   string
	Kind   string // the recipe, as people see it
	Mode   driver.Mode
	Weight int64
	Family driver.Family
	Value  []byte // what the entry holds, for other programs to read; nil: nothing
	Limit  int64  // of a semaphore; 0 elsewhere
	Follow bool   // accept any limit that the queue has
	Rule   rule.Rule

	// Slots gives every hold a slot.
	Slots bool

	// Ledger records how holds end, and Delay is how long to wait when the last holder
	// has died.
	Ledger bool
	Delay  time.Duration

	// MinHold is how long the entry stays at least, from the grant on.
	MinHold time.Duration

	// Try makes the request give up at once, without a trace, if it would have to wait.
	Try bool

	// Reenter has Acquire return one more handle at once if ctx came from a live hold of the
	// lock that this recipe has acquired.
	Reenter bool

	// Err is why the recipe refuses the request. Acquire returns it.
	Err error
}

// call is one call of Acquire. Its group must not keep it: a hold keeps the group, and the
// context can be that of an earlier hold, which would stay in memory too.
type call struct {
	s      *session.Session
	rs     []Request
	hooks  door.Request
	caller context.Context     //nolint:containedctx // the hold has its values
	delays func(time.Duration) // is called before a try waits for Delay, and with 0 if it joins again; nil: no try
}

// Acquire joins the queue and returns when the rule lets the entry hold. ctx bounds the
// wait only. It gives up with a *session.NotAcquiredError when ctx ends or a try would
// have to wait; with session.ErrClosed, ErrDenied, ErrRefused, ErrForeignKey,
// ErrWeight, ErrLimitMismatch, ErrInvalidName or ErrReentrant where waiting cannot help. After
// an error nothing of the request stays at the service; what cannot be deleted at once is
// deleted in the background.
//
// If the place is lost, with the term or because an operator deleted the entry, the
// request joins again at the end of the queue; hooks and log report that.
//
// Several requests are for several queues: the queues are joined in one transaction, and
// the hold is one, with one token. Since two such requests have the same order in
// every queue that they share, they never wait for each other in a circle. If the place
// in one queue is lost, so are all.
//
// A try is made for at most tryTimeout, whatever ctx allows, and then fails with
// session.ErrUnavailable, also if ctx ends before the service has answered. The Delay of a
// lock whose last holder has died does not count.
func Acquire(ctx context.Context, s *session.Session, rs ...Request) (h *session.Hold, err error) {
	if h := enter(ctx, s, rs); h != nil { // no hook sees it
		return h, nil
	}
	r := rs[0]
	st := door.Start{Name: r.Name, Kind: r.Kind, Mode: r.Mode, Weight: r.Weight}
	if len(rs) > 1 && Core().Of(s).Hooked() {
		st.Names = names(rs)
		st.Name = strings.Join(st.Names, ", ")
	}
	ctx, hooks := Core().Start(ctx, s, st)
	defer func() { hooks.Ended(err) }() // also after a panic in a method of ctx
	if err := check(ctx, s, rs); err != nil {
		return nil, err
	}
	c := call{s: s, rs: rs, hooks: hooks, caller: ctx}
	if r.Try {
		return c.try(ctx)
	}
	return c.acquire(ctx)
}

// enter returns a handle on the hold that ctx came from, if a request may reenter that. It sets
// the Err of a request that would wait for its own caller.
func enter(ctx context.Context, s *session.Session, rs []Request) *session.Hold {
	for i := range rs {
		r := &rs[i]
		if r.Err != nil {
			continue
		}
		kind := ""
		if r.Reenter {
			kind = r.Kind
		}
		h, err := Core().Enter(ctx, s, r.Name, kind, r.Mode)
		if h != nil {
			return h
		}
		if r.Err = err; err != nil && len(rs) > 1 {
			r.Err = fmt.Errorf("%q: %w", r.Name, err)
		}
	}
	return nil
}

// check returns what is wrong with a set of requests, before anything is sent.
func check(ctx context.Context, s *session.Session, rs []Request) error {
	for _, r := range rs {
		if r.Err != nil {
			return r.Err
		}
	}
	for i, r := range rs {
		if err := Core().Of(s).CheckName(r.Name); err != nil {
			return err
		}
		if slices.ContainsFunc(rs[:i], func(o Request) bool { return o.Name == r.Name }) {
			return fmt.Errorf("%w: lock %q is named twice; name each lock once", session.ErrInvalidOptions, r.Name)
		}
		if err := Core().Within(ctx, s, r.Name); err != nil {
			return err
		}
	}
	return nil
}

// The pauses between requests that no server has answered.
const (
	minBackoff = 10 * time.Millisecond
	maxBackoff = time.Second
)

// acquire attempts until there is a hold, or an error that another attempt cannot cure.
func (c *call) acquire(ctx context.Context) (*session.Hold, error) {
	for backoff := minBackoff; ctx.Err() == nil; {
		h, again, err := c.attempt(ctx)
		if !again {
			return h, err
		}
		if !errors.Is(err, driver.ErrUnavailable) {
			backoff = minBackoff
			continue
		}
		driver.Sleep(ctx, Core().Of(c.s).Clock(), backoff) // nothing was done, and the service is in trouble
		backoff = min(2*backoff, maxBackoff)
	}
	return nil, gaveUp(ctx)
}

// attempt joins the queues once, waits, and makes the hold. again reports that the place
// was lost, or that there never was one, for no reason that the caller gave.
func (c *call) attempt(ctx context.Context) (h *session.Hold, again bool, err error) {
	t, err := termOf(ctx, c.s)
	if err != nil {
		if why := ctx.Err(); why != nil {
			if !errors.Is(err, why) { // it has only the cause of ctx
				err = fmt.Errorf("%w: %w", why, err)
			}
			err = &session.NotAcquiredError{Ahead: -1, Err: err}
		}
		return nil, false, err
	}
	r := c.rs[0]
	g := newGroup(engineOf(t), c.rs, c.hooks)
	defer g.close()
	if err := g.owe(); err != nil {
		return nil, true, err
	}
	joined, err := g.join(ctx, r.Try)
	if _, taken := errors.AsType[*driver.TakenError](err); taken && r.Mode != driver.Exclusive {
		// This entry may be able to share with the entries ahead.
		if err = mustWait(ctx, t, r); err == nil {
			joined, err = g.join(ctx, false)
		}
	}
	if err != nil {
		again, err = g.notJoined(ctx, err)
		return nil, again, err
	}
	g.joined(joined)
	if again, err := g.wait(ctx); err != nil {
		return nil, again, err
	}
	return g.take(ctx, c)
}

// join joins the queues.
func (g *group) join(ctx context.Context, ifEmpty bool) ([]driver.Joined, error) {
	t := g.e.t
	trace := t.in.Trace(ctx)
	reqs := make([]driver.JoinRequest, len(g.rs))
	for i, r := range g.rs {
		meta := t.in.Meta()
		meta.Kind, meta.Since, meta.Trace = r.Kind, g.e.clock.Wall(), trace
		meta.Holds = slices.Concat(meta.Holds, Core().Held(ctx))
		req := driver.JoinRequest{
			Queue: r.Name, Mode: r.Mode, Weight: r.Weight, Family: r.Family, IfEmpty: ifEmpty, Nearest: rule.Nearest, Data: meta.Encode(),
		}
		if r.Value != nil {
			req.Data, req.Valued, req.Detail, g.meta = r.Value, true, req.Data, &meta
		}
		if r.Rule.Limited {
			req.Ops, req.Records = append(req.Ops, limitOp(r.Limit, r.Follow)), []string{rule.RecordLimit}
		}
		req.Ops = append(req.Ops, g.ledgerOp(i)...)
		reqs[i] = req
	}
	if failpoint.On(failpoint.JoinInTurn) {
		return joinInTurn(ctx, g.e.s, reqs)
	}
	return g.e.s.Join(ctx, reqs...) //nolint:wrapcheck // the backend's own error
}

// limitOp makes the limit of a semaphore if there is none. If there is another one, it
// refuses the join, unless the request follows any. The condition is not Absent: a record
// that was made so is deleted when the join is settled, and others may use it by then.
func limitOp(limit int64, follow bool) driver.Op {
	value := strconv.AppendInt(nil, limit, 10)
	return driver.Op{Record: rule.RecordLimit, If: driver.EqualOrAbsent(value), Value: value, Optional: follow}
}

// mismatch is the error of a request whose limit is not that of its queue. again reports that
// the limit was changed or deleted since the request was refused.
func mismatch(queue string, r driver.Record, asked int64) (again bool, _ error) {
	limit, err := rule.LimitOf(queue, r)
	if err != nil {
		return false, err
	}
	return limit == 0 || limit == asked, &rule.LimitError{Limit: limit, Asked: asked}
}

// notJoined finds out what it means that there is no entry.
func (g *group) notJoined(ctx context.Context, err error) (again bool, _ error) {
	t := g.e.t
	if pending, ok := errors.AsType[*driver.PendingError](err); ok {
		g.later(pending.Settle)
	}
	if taken, ok := errors.AsType[*driver.TakenError](err); ok {
		return false, g.taken(ctx, taken)
	}
	if refused, ok := errors.AsType[*driver.RefusedError](err); ok { // the limit is another one
		var r driver.Record
		if r, err = refusing(ctx, g.e.s, refused); err == nil {
			return mismatch(refused.Queue, r, g.rs[0].Limit)
		}
	}
	switch {
	case ctx.Err() != nil:
		return false, gaveUp(ctx)
	case failpoint.On(failpoint.OverEscapes) && errors.Is(err, driver.ErrSessionOver):
		return false, err
	case driver.Incurable(err), errors.Is(err, session.ErrLimitMismatch):
		return false, err
	case errors.Is(err, driver.ErrSessionOver):
		g.e.t.Renew()
		// The term may not know yet that it is over. Wait for it to learn that, rather
		// than join with a dead session again and again.
		driver.Sleep(t.Context(), g.e.clock, minBackoff) //nolint:contextcheck // until the term knows
		return true, err
	}
	return errors.Is(err, driver.ErrUnavailable) || t.Context().Err() != nil, err
}
