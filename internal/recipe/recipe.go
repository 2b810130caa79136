// Package recipe has what the recipes have in common above package session.
package recipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// Work is what a recipe's Do calls while the lock is held.
type Work = func(ctx context.Context, h *session.Hold) error

// Do acquires a hold, runs fn while the hold lasts, and releases when fn has returned,
// for whatever reason; see the recipes' Do.
func Do(ctx context.Context, acquire func(context.Context) (*session.Hold, error), fn Work) (err error) {
	h, err := acquire(ctx)
	if err != nil {
		return err
	}
	inner, cancel := context.WithCancelCause(h.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() { // also after a panic, and after runtime.Goexit
		stop()
		e := h.Unlock()
		if errors.Is(e, session.ErrLost) {
			err = withLoss(err, e)
		}
		cancel(session.ErrReleased)
	}()
	return fn(inner, h) //nolint:contextcheck // inner ends with ctx, and with the hold
}

// Within calls fn for a hold that the caller keeps. held is the context of the hold, or derived
// from that. The context of fn ends with held and with ctx, and has the values of both, those
// of held first. If the lock was lost, the error is also session.ErrLost, even if fn returned
// nil.
func Within(ctx, held context.Context, h *session.Hold, fn Work) error {
	inner, cancel := context.WithCancelCause(values{held, ctx})
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		cancel(nil)
	}()
	err := fn(inner, h)                //nolint:contextcheck // inner ends with ctx, and with the hold
	lost := context.Cause(h.Context()) //nolint:contextcheck // it is asked whether the hold has ended
	if errors.Is(lost, session.ErrLost) {
		return withLoss(err, lost)
	}
	return err
}

// values is a context that has the values of another too.
type values struct {
	context.Context
	also context.Context
}

func (v values) Value(key any) any {
	value := v.Context.Value(key)
	if value != nil {
		return value
	}
	return v.also.Value(key)
}

// withLoss is the error of work whose lock was lost. One loss is reported once: the error
// of Unlock knows the reason best, and replaces a bare cause of the context.
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

// List returns the queue of a recipe's lock.
func List(ctx context.Context, s *session.Session, kind, name string) ([]session.Entry, error) {
	entries, err := s.Queue(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	return entries, nil
}
