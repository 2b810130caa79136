package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Request is what a recipe asks for.
type Request struct {
	Name   string
	Kind   string // the recipe, as people see it
	Mode   driver.Mode
	Weight int64
	Kin    driver.Kin
	Value  []byte // what the entry holds, for others to read; nil: nothing
	Limit  int64  // of a semaphore; 0 elsewhere
	Follow bool   // take any limit that the line has
	Rule   Rule

	// Slots has every hold get a number of its own.
	Slots bool

	// Ledger has the line keep account of how holds end, and Delay is how long
	// to wait when the one before has died.
	Ledger bool
	Delay  time.Duration

	// MinHold is for how long the entry stays at least, from the grant on.
	MinHold time.Duration

	// Try makes the request give up at once, without a trace, if anybody
	// stands in the line.
	Try bool

	// Err is why the recipe refuses the request. Acquire returns it.
	Err error
}

// names returns the names of the locks of several requests.
func names(rs []Request) []string {
	all := make([]string, len(rs))
	for i, r := range rs {
		all[i] = r.Name
	}
	return all
}

// start begins a request as the hooks see it. ctx goes on as the returned context.
func start(ctx context.Context, s *session.Session, rs []Request) (context.Context, door.Request) {
	r := rs[0]
	st := door.Start{Name: r.Name, Kind: r.Kind, Mode: r.Mode, Weight: r.Weight}
	if len(rs) > 1 && Core().Of(s).Hooked() {
		st.Names = names(rs)
		st.Name = strings.Join(st.Names, ", ")
	}
	return Core().Start(ctx, s, st)
}

// checked says what is wrong with a set of requests, before anything is sent.
func checked(ctx context.Context, s *session.Session, rs []Request) error {
	names := make(map[string]bool, len(rs))
	for _, r := range rs {
		if r.Err != nil {
			return r.Err
		}
	}
	for _, r := range rs {
		if err := Core().Of(s).CheckName(r.Name); err != nil {
			return err
		}
		if names[r.Name] {
			return fmt.Errorf("%w %q: it is named twice", session.ErrInvalidName, r.Name)
		}
		names[r.Name] = true
		if err := Core().Within(ctx, s, r.Name); err != nil {
			return err
		}
	}
	return nil
}

// errPlaceLost: the entry of a waiting seat is gone, and the seat did not leave.
var errPlaceLost = errors.New("the entry of the waiter is gone at the service")

// acquireOld joins the line and returns when the rule admits the entry. ctx bounds
// the waiting only. It gives up with a *session.NotAcquiredError when ctx ends
// or a try finds somebody; with session.ErrClosed, ErrDenied, ErrRefused,
// ErrForeignKey or ErrInvalidName where waiting cannot help. After an error
// nothing of the request stays at the service.
//
// If the place in the line is lost, with the term or by an operator's hand, the
// request goes to the end of the line, which hooks and log tell.
//
// Several requests are for several lines: the lines are joined in one
// transaction, and the hold is one, with one token. Since two such requests stand
// in the same order in every line that they share, they never wait for each
// other in a circle. If the place in one line is lost, so are all.
//
// A try is made for at most tryTimeout, whatever ctx allows, and then fails with
// session.ErrUnavailable.
func acquireOld(ctx context.Context, s *session.Session, rs ...Request) (h *session.Hold, err error) {
	ctx, hooks := start(ctx, s, rs)
	defer func() { hooks.Ended(err) }() // also after a panic in a method of ctx
	if err := checked(ctx, s, rs); err != nil {
		return nil, err
	}
	if !rs[0].Try {
		return acquire(ctx, s, rs, hooks)
	}
	limit := tryTimeout
	for _, r := range rs {
		limit = max(limit, tryTimeout+r.Delay)
	}
	inner, cancel := driver.WithTimeout(ctx, Core().Of(s).Clock(), limit)
	defer cancel()
	h, err = acquire(inner, s, rs, hooks)
	if e, ok := errors.AsType[*session.NotAcquiredError](err); ok && e.Err != nil && ctx.Err() == nil {
		return nil, noAnswer(limit, e.Err)
	}
	return h, err
}

// tryTimeout is how long a try goes on while the service does not answer.
const tryTimeout = 5 * time.Second

// noAnswer is the error of a try that took too long. It is not
// session.ErrNotAcquired: nobody knows whether the lock is free.
func noAnswer(limit time.Duration, why error) error {
	if errors.Is(why, session.ErrUnavailable) {
		return fmt.Errorf("no answer within %s: %w", limit, why)
	}
	return fmt.Errorf("%w: no answer within %s", session.ErrUnavailable, limit)
}

// acquire is Acquire without the bound of a try.
func acquire(ctx context.Context, s *session.Session, rs []Request, hooks door.Request) (*session.Hold, error) {
	rest := minRest
	for {
		if ctx.Err() != nil {
			return nil, &session.NotAcquiredError{Ahead: -1, Err: ended(ctx)}
		}
		h, again, err := once(ctx, s, rs, hooks)
		if !again {
			return h, err
		}
		if errors.Is(err, driver.ErrUnavailable) {
			// Nothing was done, and the service is in trouble.
			driver.Sleep(ctx, Core().Of(s).Clock(), rest)
			rest = min(2*rest, maxRest)
			continue
		}
		rest = minRest
	}
}

// The pauses between requests that reached nobody.
const (
	minRest = 10 * time.Millisecond
	maxRest = time.Second
)

// ended is the error of a context that has ended, with its cause if it has one
// of its own.
func ended(ctx context.Context) error {
	if c := context.Cause(ctx); !errors.Is(c, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), c)
	}
	return ctx.Err()
}

// once goes through the lines once. again says that the place was lost, or never
// had, by no fault of the caller.
func once(ctx context.Context, s *session.Session, rs []Request, hooks door.Request) (h *session.Hold, again bool, err error) {
	t, err := termOf(ctx, s)
	if err != nil {
		if ctx.Err() != nil {
			err = &session.NotAcquiredError{Ahead: -1, Err: err}
		}
		return nil, false, err
	}
	lines := make([]entrance, len(rs))
	for i, r := range rs {
		lines[i] = engineOf(t).open(r.Name).enter()
		defer lines[i].close()
	}
	joined, err := join(ctx, t, rs)
	if _, ok := errors.AsType[*driver.TakenError](err); ok && rs[0].Mode != driver.Exclusive {
		// Whoever is there may admit us beside himself.
		if err = peek(ctx, s, rs[0]); err == nil {
			joined, err = join(ctx, t, rs, anyway)
		}
	}
	if err != nil {
		again, err = notJoined(ctx, t, err)
		return nil, again, err
	}
	g := newGroup(t, lines, rs, joined, hooks)
	if again, err := g.wait(ctx); err != nil {
		return nil, again, err
	}
	return g.take(ctx, rs)
}

// anyway makes a try join a line that is not empty.
func anyway(r *driver.JoinRequest) { r.IfEmpty = false }

// join joins the lines.
func join(ctx context.Context, t term, rs []Request, change ...func(*driver.JoinRequest)) ([]driver.Joined, error) {
	reqs := make([]driver.JoinRequest, len(rs))
	for i, r := range rs {
		meta := t.in.Meta()
		meta.Kind, meta.Since, meta.Holds = r.Kind, t.in.Clock().Wall(), slices.Concat(t.s.Options().Holds, Core().Held(ctx))
		reqs[i] = driver.JoinRequest{
			Line: r.Name, Mode: r.Mode, Weight: r.Weight, Meta: meta, IfEmpty: r.Try, Nearest: r.Rule.Need,
			Kin: r.Kin, Value: r.Value, Limit: r.Limit, Follow: r.Follow, Ledger: r.Ledger,
		}
		for _, c := range change {
			c(&reqs[i])
		}
	}
	if failpoint.On(failpoint.JoinInTurn) {
		return joinInTurn(ctx, t, reqs)
	}
	if len(reqs) > 1 {
		return t.Driver().JoinAll(ctx, reqs)
	}
	joined, err := t.Driver().Join(ctx, reqs[0])
	if err != nil {
		return nil, err
	}
	return []driver.Joined{joined}, nil
}

// joinInTurn is join with failpoint JoinInTurn.
func joinInTurn(ctx context.Context, t term, reqs []driver.JoinRequest) ([]driver.Joined, error) {
	all := make([]driver.Joined, len(reqs))
	for i, r := range reqs {
		var err error
		if all[i], err = t.Driver().Join(ctx, r); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// notJoined sorts out why there is no entry.
func notJoined(ctx context.Context, t term, err error) (again bool, _ error) {
	var pending *driver.PendingError
	if errors.As(err, &pending) {
		t.Clean(pending.Settle)
	}
	var taken *driver.TakenError
	switch {
	case errors.As(err, &taken):
		return false, &session.NotAcquiredError{
			Holder: shown(taken.First), Ahead: taken.Count, Now: t.in.Clock().Wall(),
		}
	case ctx.Err() != nil:
		return false, &session.NotAcquiredError{Ahead: -1, Err: ended(ctx)}
	case driver.Incurable(err), errors.Is(err, driver.ErrLimitMismatch):
		return false, err
	case errors.Is(err, driver.ErrSessionOver):
		t.Driver().Prove()
		// The term may not know yet that it is over. Wait for it to learn,
		// rather than join a dead session again and again.
		driver.Sleep(t.Context(), t.in.Clock(), minRest) //nolint:contextcheck // until the term knows
		return true, err
	case errors.Is(err, driver.ErrUnavailable):
		return true, err
	case t.Context().Err() != nil:
		return true, err
	}
	return false, err
}
