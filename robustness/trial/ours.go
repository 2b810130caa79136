package trial

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/session"
)

// AcquireOurs asks a Session of Fairlock's for a lock, on either service, as
// Client.Acquire says.
//
//nolint:contextcheck // a hold has a context of its own
func AcquireOurs(ctx context.Context, s *session.Session, line history.Queue, ask Ask) (Hold, error) {
	if outer, ok := ask.Within.(ourHold); ok {
		// Like a user's inside of the hold: it ends with the request, and with the
		// hold, for it would be no request inside of it after that.
		inside, cancel := context.WithCancel(outer.Hold.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		ctx = inside
	}
	h, err := lock(ctx, s, line, ask)
	switch {
	case errors.Is(err, session.ErrClosed):
		return nil, fmt.Errorf("%w: %w", ErrUseless, err)
	case err != nil:
		return nil, err
	case h == nil: // with a failpoint on
		return nil, errors.New("trial: neither a hold nor an error")
	}
	return ourHold{h}, nil
}

func lock(ctx context.Context, s *session.Session, line history.Queue, ask Ask) (*session.Hold, error) {
	switch line.Recipe {
	case history.Mutex:
		return mutex.New(s, line.Name).Lock(ctx)
	case history.Reentrant:
		return mutex.NewWith(s, line.Name, mutex.Options{Reentrant: true}).Lock(ctx)
	case history.ReadWrite:
		rw := rwlock.New(s, line.Name)
		if ask.Shared {
			return rw.RLock(ctx)
		}
		return rw.Lock(ctx)
	case history.Semaphore:
		return semaphore.New(s, line.Name, line.Limit).Acquire(ctx, ask.Weight)
	}
	return nil, fmt.Errorf("trial: there is no recipe %q", line.Recipe)
}

// ourHold is a hold of Fairlock's.
type ourHold struct{ *session.Hold }

// Token implements Hold.
func (h ourHold) Token() int64 { return int64(h.Hold.Token()) }

// Place implements Hold: what made the entry is its token, on either service, and
// stays that of the writer that a reader was.
func (h ourHold) Place() int64 { return h.Token() }

// Entry implements Hold.
func (h ourHold) Entry() string { return recipetest.Refs(h.Hold)[0].Key }

// Held implements Hold. That the context is live is not asked beside: if one of
// the two said that it is over and the other did not, that would be hidden.
func (h ourHold) Held() bool { return h.Remaining() > 0 }

// Told implements Hold.
func (h ourHold) Told() <-chan struct{} { return h.Context().Done() }

// Release implements Hold. Unlock is bounded by its own clock.
func (h ourHold) Release(context.Context) (history.Outcome, error) {
	switch err := h.Unlock(); {
	case err == nil:
		return history.Released, nil
	case errors.Is(err, session.ErrReleasePending):
		return history.Pending, nil
	case errors.Is(err, session.ErrLost):
		return history.Lost, nil
	default:
		return history.NotReleased, err
	}
}
