package queue

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// errMustWait: a try would have to wait.
var errMustWait = errors.New("another entry is ahead")

// peek says whether a try has to wait, by a read, so that nothing is written if
// so. Nil promises nothing: others may come first.
func peek(ctx context.Context, s *session.Session, r Request) error {
	line, err := Core().Of(s).List(ctx, r.Name, 0)
	if err != nil {
		return err
	}
	ahead := Ahead{Entries: line, Complete: true, Count: len(line), Limit: r.Limit}
	if r.Rule.Limited { // after the line: see driver.LookRequest
		if ahead.Limit, err = Core().Of(s).Limit(ctx, r.Name); err != nil {
			return err
		}
		if ahead.Limit == 0 {
			return nil
		}
		if ahead.Limit != r.Limit && !r.Follow {
			return &driver.LimitError{Limit: ahead.Limit, Asked: r.Limit}
		}
	}
	mine := driver.Entry{Ref: driver.Ref{Line: r.Name, Place: math.MaxInt64}, Mode: r.Mode, Weight: r.Weight}
	v := r.Rule.Decide(ahead, mine)
	if v.Err != nil || v.Hold || len(line) == 0 {
		return v.Err
	}
	return &driver.TakenError{First: line[0], Count: len(line)}
}

// taken is the error of a try that would have to wait after all, because others
// joined since it looked.
func (s *seat) taken() error {
	s.ln.mu.Lock()
	defer s.ln.mu.Unlock()
	e := &session.NotAcquiredError{Ahead: s.count, Now: s.ln.e.t.in.Clock().Wall()}
	if n := len(s.ahead.Entries); n > 0 {
		e.Holder = shown(s.ahead.Entries[0])
	}
	return e
}

// Work is what a recipe's Do calls while the lock is held.
type Work = func(ctx context.Context, h *session.Hold) error

// Do acquires a hold, runs fn while the hold lasts, and releases when fn has
// returned, whatever ended; see the recipes' Do.
func Do(ctx context.Context, acquire func(context.Context) (*session.Hold, error), fn Work) (err error) {
	h, err := acquire(ctx)
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancelCause(h.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() { // also after a panic, and after runtime.Goexit
		stop()
		if e := h.Unlock(); errors.Is(e, session.ErrLost) {
			err = withLoss(err, e)
		}
		cancel(session.ErrReleased)
	}()
	return fn(inner, h) //nolint:contextcheck // inner ends with ctx, and with the hold
}

// withLoss is the error of work whose lock was lost. One loss is told once: the
// error of Unlock knows the reason best, and stands for a bare cause of the context.
func withLoss(err, lost error) error {
	_, bare := err.(*session.LostError) //nolint:errorlint // what is wrapped says more
	switch {
	case err == nil, bare:
		return lost
	case errors.Is(err, session.ErrLost):
		return err
	}
	return driver.JoinErrors(err, lost)
}

// List returns the line of a recipe's lock.
func List(ctx context.Context, s *session.Session, kind, name string) ([]session.Entry, error) {
	line, err := s.Queue(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return line, nil
}
