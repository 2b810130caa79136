package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Request is what a recipe asks for.
type Request struct {
	Name   string
	Kind   string // the recipe, as people see it
	Mode   driver.Mode
	Weight int64
	Rule   Rule

	// Try makes the request give up at once, without a trace, if anybody
	// stands in the line.
	Try bool
}

// errPlaceLost: the entry of a waiting seat was deleted by somebody else.
var errPlaceLost = errors.New("entry was deleted while waiting")

// Acquire joins the line and returns when the rule admits the entry. ctx bounds
// the waiting only. It gives up with a *session.NotAcquiredError when ctx ends
// or a try finds somebody; with session.ErrClosed, ErrDenied, ErrRefused,
// ErrForeignKey or ErrInvalidName where waiting cannot help. After an error
// nothing of the request stays at the service.
//
// If the place in the line is lost, with the term or by an operator's hand, the
// request goes to the end of the line, which hooks and log tell.
func Acquire(ctx context.Context, s *session.Session, r Request) (*session.Hold, error) {
	if err := s.CheckName(r.Name); err != nil {
		return nil, err
	}
	rest := minRest
	for {
		if ctx.Err() != nil {
			return nil, &session.NotAcquiredError{Ahead: -1, Err: ended(ctx)}
		}
		h, again, err := once(ctx, s, r)
		if !again {
			return h, err
		}
		if errors.Is(err, driver.ErrUnavailable) {
			// Nothing was done, and the service is in trouble.
			driver.Sleep(ctx, s.Clock(), rest)
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

// once goes through the line once. again says that the place was lost, or never
// had, by no fault of the caller.
func once(ctx context.Context, s *session.Session, r Request) (h *session.Hold, again bool, err error) {
	t, err := s.Term(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = &session.NotAcquiredError{Ahead: -1, Err: err}
		}
		return nil, false, err
	}
	ln := engineOf(t).open(r.Name)
	defer ln.close()

	meta := s.Meta()
	meta.Kind, meta.Since, meta.Holds = r.Kind, s.Clock().Wall(), session.Held(ctx)
	joined, err := t.Driver().Join(ctx, driver.JoinRequest{
		Line: r.Name, Mode: r.Mode, Weight: r.Weight, Meta: meta, IfEmpty: r.Try, Nearest: r.Rule.Need,
	})
	if err != nil {
		again, err = notJoined(ctx, t, err)
		return nil, again, err
	}
	st := ln.add(joined, r)
	select {
	case <-st.done: // as good as ever when nobody is ahead
	default:
		select {
		case <-st.done:
		case <-ctx.Done():
			return nil, false, st.giveUp(ctx)
		case <-t.Context().Done():
			return nil, true, st.rejoin(context.Cause(t.Context())) //nolint:contextcheck // why the term has ended
		}
	}
	if err := st.refused(); err != nil {
		if errors.Is(err, errPlaceLost) {
			return nil, true, st.rejoin(err)
		}
		t.Clean(st.leave)
		return nil, false, err
	}
	return st.take(ctx)
}

// notJoined sorts out why there is no entry.
func notJoined(ctx context.Context, t *session.Term, err error) (again bool, _ error) {
	var pending *driver.PendingError
	if errors.As(err, &pending) {
		t.Clean(pending.Settle)
	}
	var taken *driver.TakenError
	switch {
	case errors.As(err, &taken):
		return false, &session.NotAcquiredError{
			Holder: taken.First, Ahead: taken.Count, Now: t.Session().Clock().Wall(),
		}
	case ctx.Err() != nil:
		return false, &session.NotAcquiredError{Ahead: -1, Err: ended(ctx)}
	case driver.Incurable(err):
		return false, err
	case errors.Is(err, driver.ErrSessionOver):
		t.Driver().Prove()
		// The term may not know yet that it is over. Wait for it to learn,
		// rather than join a dead session again and again.
		driver.Sleep(t.Context(), t.Session().Clock(), minRest) //nolint:contextcheck // until the term knows
		return true, err
	case errors.Is(err, driver.ErrUnavailable):
		return true, err
	case t.Context().Err() != nil:
		return true, err
	}
	return false, err
}
