package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/session"
)

// AcquireOurs acquires a lock of Fairlock with a Session on either service, as described
// at Client.Acquire.
//
//nolint:contextcheck // a hold has a context of its own
func AcquireOurs(ctx context.Context, s *session.Session, queue history.Queue, req Request) (Hold, error) {
	if req.Generation > 0 {
		return nil, campaign(ctx, s, queue, req)
	}
	if outer, ok := req.Within.(ourHold); ok {
		// Like the context of a user inside the hold. It ends with the request and with
		// the hold, because after that the request would not be inside the hold.
		inside, cancel := context.WithCancel(outer.Hold.Context())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		ctx = inside
	}
	h, err := lock(ctx, s, queue, req)
	switch {
	case errors.Is(err, session.ErrClosed):
		return nil, fmt.Errorf("%w: %w", ErrUseless, err)
	case err != nil:
		return nil, err
	case h == nil: // with a planted bug
		return nil, errors.New("trial: neither a hold nor an error")
	}
	return ourHold{h}, nil
}

func lock(ctx context.Context, s *session.Session, queue history.Queue, req Request) (*session.Hold, error) {
	switch queue.Recipe {
	case history.Mutex:
		return mutex.New(s, queue.Name).Lock(ctx)
	case history.Reentrant:
		return mutex.NewWith(s, queue.Name, mutex.Options{Reentrant: true}).Lock(ctx)
	case history.ReadWrite:
		rw := rwlock.New(s, queue.Name)
		if req.Shared {
			return rw.RLock(ctx)
		}
		return rw.Lock(ctx)
	case history.Semaphore:
		return semaphore.New(s, queue.Name, queue.Limit).Acquire(ctx, req.Weight)
	}
	return nil, fmt.Errorf("trial: there is no recipe %q", queue.Recipe)
}

// settle is how long a newer candidate has been next when a leader hands over to it. A leader that is cut off
// meanwhile may lose the leadership before, or hand over first.
const settle = time.Second

// campaign runs an election until ctx ends.
func campaign(ctx context.Context, s *session.Session, queue history.Queue, req Request) error {
	e := election.NewWith(s, queue.Name, election.Options{Generation: req.Generation, Settle: settle})
	return e.Run(ctx, "", func(ctx context.Context, h *session.Hold) error { //nolint:wrapcheck // the trial records it
		req.Lead(ctx, ourHold{h}, func() bool { return errors.Is(context.Cause(ctx), election.ErrHandOver) })
		return nil
	})
}

// ourHold is a hold of Fairlock.
type ourHold struct{ *session.Hold }

// Token implements Hold.
func (h ourHold) Token() int64 { return int64(h.Hold.Token()) }

// Place implements Hold. On both services the token is the revision or zxid that created
// the entry. A writer that becomes a reader keeps it.
func (h ourHold) Place() int64 { return h.Token() }

// Entry implements Hold.
func (h ourHold) Entry() string { return recipetest.Refs(h.Hold)[0].Key }

// Held implements Hold. It does not check the context too: that would hide a hold whose
// context has ended and whose Remaining has not, or the reverse.
func (h ourHold) Held() bool { return h.Remaining() > 0 }

// Done implements Hold.
func (h ourHold) Done() <-chan struct{} { return h.Context().Done() }

// Release implements Hold. Unlock bounds itself.
func (h ourHold) Release(context.Context) (history.Outcome, error) {
	err := h.Unlock()
	switch {
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
