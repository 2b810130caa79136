package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// Request is what a recipe asks for in one queue. Of several requests of one call, the first one
// decides what concerns the hold as a whole: Kind, Mode, Try, Slots.
type Request struct {
	// Name is the name of the lock, and of its queue.
	Name string

	// Kind is the recipe, as people see it. Only requests of one kind share a hold by Reenter.
	Kind string

	// Mode, Weight and Family are those of the entry, see driver.JoinRequest. Weight is 0 unless Mode
	// is Weighted.
	Mode   driver.Mode
	Weight int64
	Family driver.Family

	// Value is what the entry has for other programs to read; nil: nothing, and it never can be
	// written.
	Value []byte

	// Generation is that of a candidate, for others to read; 0: it has none.
	Generation int64

	// Placed is called with the place in the first queue, each time that the request has joined, by
	// the goroutine of the call; nil: it is not.
	Placed func(Place)

	// Limit is the limit of a semaphore, 0 elsewhere. It makes the record if there is none. Follow
	// accepts any limit that the queue has; without it another one fails the request.
	Limit  int64
	Follow bool

	// Rule decides when the entry holds.
	Rule rule.Rule

	// Slots gives every hold a slot. It is for one request alone.
	Slots bool

	// Ledger records how holds end, and Delay is how long to wait when the last holder
	// has died; 0: not at all.
	Ledger bool
	Delay  time.Duration

	// MinHold is how long the entry stays at least, from the grant on; 0: not longer than the hold.
	MinHold time.Duration

	// Try makes the request give up at once, without a trace, if it would have to wait.
	Try bool

	// Reenter lets Engine.Reenter return one more handle if the context came from a live hold of
	// the lock that this recipe has acquired.
	Reenter bool

	// Err is why the request is refused before anything is sent. Acquire returns it.
	Err error
}

// Names returns the names of the locks of several requests.
func Names(rs []Request) []string {
	all := make([]string, len(rs))
	for i, r := range rs {
		all[i] = r.Name
	}
	return all
}

// NameOf returns the names of all requests as one text for people.
func NameOf(rs []Request) string {
	if len(rs) == 1 {
		return rs[0].Name
	}
	return strings.Join(Names(rs), ", ")
}

// Hooks see one request from its start to the end of its hold. They must not block, and are
// called while mutexes are held.
type Hooks interface {
	// Joined reports that the request has places in all its queues, with that token: how many
	// entries are ahead in the first queue, and in each further one. The turn names these places.
	Joined(session string, token int64, ahead int, further ...int) (turn int)

	// Moved reports how many entries are ahead in one of the queues. What is reported of places
	// that are lost since (of an older turn) is ignored.
	Moved(turn, queue, ahead int)

	// WaitsFor reports which entry the request waits for, or waited for last. It must not change.
	WaitsFor(e *driver.Entry)

	// Rejoins reports that the places were lost, and why.
	Rejoins(err error)

	// Granted reports the grant. values has the values of the caller's context.
	Granted(values context.Context, session string, token int64, left time.Duration)

	// Over reports the end of the hold: once, with the error of its loss, or what the last Unlock
	// returns.
	Over(err error)
}

// call is one call of Acquire, from the check to the hold or the error. It makes one attempt after
// another, each with entries of its own. The entries of the request must not keep it: a hold keeps them, and
// the context can be that of an earlier hold, which would stay in memory too.
type call struct {
	e      *Engine
	rs     []Request
	hooks  Hooks           // nil: there are none
	caller context.Context //nolint:containedctx // the hold has its values

	// delays is called before a try waits for Delay, and with 0 if it joins again; nil: no try.
	delays func(time.Duration)
}

// Acquire joins the queue and returns when the rule lets the entry hold. ctx bounds the
// wait only. It gives up with a *NotAcquired when ctx ends or a try would have to wait; with
// driver.ErrClosed, ErrDenied or ErrRefused, rule.ErrForeignKey, ErrWeight or ErrLimitMismatch,
// ErrInvalidName, ErrInvalidOptions or ErrReentrant where waiting cannot help. After an error
// nothing of the request stays at the service; what cannot be deleted at once is deleted in the
// background.
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
// driver.ErrUnavailable, also if ctx ends before the service has answered. The Delay of a
// lock whose last holder has died does not count.
func (e *Engine) Acquire(ctx context.Context, hooks Hooks, rs []Request) (*Handle, error) {
	if err := e.check(ctx, rs); err != nil {
		return nil, err
	}
	c := call{e: e, rs: rs, hooks: hooks, caller: ctx}
	if rs[0].Try {
		return c.try(ctx)
	}
	return c.acquire(ctx)
}

// check returns what is wrong with a set of requests, before anything is sent.
func (e *Engine) check(ctx context.Context, rs []Request) error {
	for _, r := range rs {
		if r.Err != nil {
			return r.Err
		}
	}
	for i, r := range rs {
		if err := e.CheckName(r.Name); err != nil {
			return err
		}
		if slices.ContainsFunc(rs[:i], func(o Request) bool { return o.Name == r.Name }) {
			return fmt.Errorf("%w: lock %q is named twice; name each lock once", ErrInvalidOptions, r.Name)
		}
		if e.info.Within == nil {
			continue
		}
		if err := e.within(ctx, r.Name); err != nil {
			return err
		}
	}
	return nil
}

// acquire attempts until there is a hold, or an error that another attempt cannot cure.
func (c *call) acquire(ctx context.Context) (*Handle, error) {
	backoff := driver.Backoff{Least: minBackoff, Most: maxBackoff}
	for ctx.Err() == nil {
		h, again, err := c.attempt(ctx)
		switch {
		case !again:
			return h, err
		case errors.Is(err, driver.ErrUnavailable): // nothing was done, and the service is in trouble
			backoff.Sleep(ctx, c.e.info.Clock)
		default:
			backoff.Reset()
		}
	}
	return nil, gaveUp(ctx)
}

// gaveUp is the error of a request whose ctx has ended, with its cause if it has one of
// its own.
func gaveUp(ctx context.Context) *NotAcquired {
	err := ctx.Err()
	c := context.Cause(ctx)
	if !errors.Is(c, err) {
		err = fmt.Errorf("%w: %w", err, c)
	}
	return &NotAcquired{Ahead: -1, Err: err}
}

// attempt joins the queues once, waits, and makes the hold. again reports that the place
// was lost, or that there never was one, for no reason that the caller gave.
//
// A try that may share looks first: IfEmpty refuses its join if the queue has any entry, and then a
// read shows whether it can hold behind those. So a try that must wait has written nothing.
func (c *call) attempt(ctx context.Context) (h *Handle, again bool, err error) {
	t, err := c.e.terms.Live(ctx)
	if err != nil {
		why := ctx.Err()
		if why != nil {
			if !errors.Is(err, why) { // it has only the cause of ctx
				err = fmt.Errorf("%w: %w", why, err)
			}
			err = &NotAcquired{Ahead: -1, Err: err}
		}
		return nil, false, err
	}
	es := newEntries(c.e.queuesOf(t), c.rs, c.hooks)
	defer es.closed()
	if es.recorded {
		if err := es.owe(); err != nil {
			return nil, true, err
		}
	}
	joined, err := es.join(ctx, c.rs[0].Try)
	_, taken := errors.AsType[*driver.TakenError](err)
	if taken && c.rs[0].Mode != driver.Exclusive {
		// This entry may be able to share with the entries ahead.
		err = es.qs.mustWait(ctx, c.rs[0])
		if err == nil {
			joined, err = es.join(ctx, false)
		}
	}
	if err != nil {
		again, err = es.notJoined(ctx, err)
		return nil, again, err
	}
	es.joined(joined)
	if c.rs[0].Placed != nil {
		c.rs[0].Placed(Place{c.e, t, joined[0].Entry.Ref})
	}
	if again, err := es.wait(ctx); err != nil {
		return nil, again, err
	}
	return es.take(ctx, c)
}

// join joins the queues, in one transaction. What the entries contain about their owner is the same
// but for the recipe; an entry with a value has it in its detail.
func (es *entries) join(ctx context.Context, ifEmpty bool) ([]driver.Joined, error) {
	e := es.qs.e
	meta := e.cfg.Meta
	meta.Since = es.qs.clock.Wall()
	if e.cfg.Trace != nil {
		meta.Trace = e.cfg.Trace(ctx)
	}
	if fromContext(ctx) != nil {
		meta.Holds = slices.Concat(meta.Holds, Held(ctx))
	}
	reqs := make([]driver.JoinRequest, len(es.rs))
	for i, r := range es.rs {
		meta.Kind, meta.Generation = r.Kind, r.Generation
		req := driver.JoinRequest{
			Queue: r.Name, Mode: r.Mode, Weight: r.Weight, Family: r.Family, IfEmpty: ifEmpty, Nearest: rule.Nearest, Data: meta.Encode(),
		}
		if r.Value != nil {
			req.Data, req.Valued, req.Detail = r.Value, true, req.Data
			es.meta = new(meta)
		}
		if r.Rule.Limited {
			req.Ops, req.Records = append(req.Ops, limitOp(r.Limit, r.Follow)), []string{rule.RecordLimit}
		}
		if es.recorded {
			req.Ops = append(req.Ops, es.records.ledgerOp(i)...)
			req.Records = append(req.Records, es.records.joinRecords(i)...)
		}
		reqs[i] = req
	}
	return es.qs.s.Join(ctx, reqs...) //nolint:wrapcheck // the backend's own error
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
		return false, err //nolint:wrapcheck // it names the queue
	}
	return limit == 0 || limit == asked, &rule.LimitError{Limit: limit, Asked: asked}
}

// notJoined finds out what it means that there is no entry:
//
//	the join returned                       then the request
//	PendingError                            has the rest removed in the background, and, by the error in it,
//	TakenError                              gives up: it was not to wait
//	RefusedError, the limit is another one  fails; joins again if the limit is as asked by now
//	ctx has ended                           gives up
//	an error that waiting cannot cure       fails
//	ErrSessionOver                          joins again, on the next term
//	ErrUnavailable, or the term has ended   joins again
func (es *entries) notJoined(ctx context.Context, err error) (again bool, _ error) {
	t := es.qs.t
	if pending, ok := errors.AsType[*driver.PendingError](err); ok {
		es.later(pending.Settle)
	}
	if taken, ok := errors.AsType[*driver.TakenError](err); ok {
		return false, es.taken(ctx, taken)
	}
	if refused, ok := errors.AsType[*driver.RefusedError](err); ok {
		r, readErr := refusing(ctx, es.qs.s, refused)
		if readErr == nil {
			return mismatch(refused.Queue, r, es.rs[0].Limit)
		}
		err = readErr
	}
	switch {
	case ctx.Err() != nil:
		return false, gaveUp(ctx)
	case driver.Incurable(err), errors.Is(err, rule.ErrLimitMismatch):
		return false, err
	case errors.Is(err, driver.ErrSessionOver):
		t.Renew()
		// The term may not know yet that it is over. Wait for it to learn that, rather
		// than join with a dead session again and again.
		driver.Sleep(t.Context(), es.qs.clock, minBackoff) //nolint:contextcheck // until the term knows
		return true, err
	}
	return errors.Is(err, driver.ErrUnavailable) || t.Context().Err() != nil, err
}

// taken is the error of a try that found others in a queue. Where the answer has not shown the first
// of them with its owner, it is read for the text of the error.
func (es *entries) taken(ctx context.Context, taken *driver.TakenError) error {
	first := taken.First
	if first.Data == nil { // the answer did not show its owner
		first = es.qs.firstEntry(ctx, taken.Queue)
	}
	return es.qs.behind(&NotAcquired{Ahead: taken.Count}, first)
}
