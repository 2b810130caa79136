// Package yield sends yield requests: requests that the holders of a lock release it. What the
// holders do is up to them, unlike after session.Session.Evict, which breaks the lock.
//
// The service stores a yield request outside the queue of the lock, where it delays no other
// request. A hold that never calls Next sends nothing for any of them.
package yield

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session"
)

// MaxReason is the longest reason of a yield request, in bytes.
const MaxReason = 256

// ErrInvalidReason is the error of Send for a reason that a yield request cannot have.
var ErrInvalidReason = errors.New("invalid reason")

// Request is a yield request. No part of it is verified: every client with permission to write at
// the service can claim anything. Quote it before you print it on a terminal.
type Request struct {
	Name   string // the lock
	Reason string // at most MaxReason bytes of UTF-8

	// Host, PID and Label describe the sender, and Since is when it sent the request,
	// by its own clock. They are zero where the sender claims nothing.
	Host  string
	PID   int
	Label string // session.Options.Label of its Session
	Since time.Time

	// Session is the service session that the request belongs to, and ends with.
	Session string
}

// withdrawTimeout is the longest that withdraw waits for the service.
const withdrawTimeout = time.Second

// Send sends a yield request to the present and future holders of a lock. Holders that
// call Next are notified. The reason is for people: it has at most MaxReason bytes of UTF-8 and
// may be empty; Send returns ErrInvalidReason otherwise. The lock need not be held, nor exist.
//
// The service stores the request until withdraw is called or the present service session ends:
// the Session does not send it again in the next one. ctx bounds only the sending; after an error
// nothing of the request stays.
//
// withdraw returns nil when the service has acknowledged the deletion of the request.
// It waits for at most one second, as session.Hold.Unlock does. session.ErrReleasePending then
// means that the session finishes the deletion in the background; at the latest the request
// ends with the service session. Further calls return the same result. Both functions
// are safe for concurrent use.
func Send(ctx context.Context, s *session.Session, name, reason string) (withdraw func() error, err error) {
	e := session.Engine(door.Key{}).Of(s)
	sent, err := send(ctx, e, name, reason)
	if err != nil {
		return nil, fmt.Errorf("yield: send a request for %q: %w", name, err)
	}
	return sync.OnceValue(func() error { //nolint:contextcheck // withdrawing is bounded by our own clock
		if err := sent.withdraw(e.Clock(), withdrawTimeout); err != nil {
			return fmt.Errorf("yield: withdraw the request for %q: %w: %w", name, session.ErrReleasePending, err)
		}
		return nil
	}), nil
}

// send checks a yield request, and sends it.
func send(ctx context.Context, e *engine.Engine, name, reason string) (sent, error) {
	if err := e.CheckName(name); err != nil {
		return sent{}, err //nolint:wrapcheck // Send does
	}
	switch {
	case len(reason) > MaxReason:
		return sent{}, fmt.Errorf("%w: it has %d bytes, more than the maximum of %d", ErrInvalidReason, len(reason), MaxReason)
	case !utf8.ValidString(reason):
		return sent{}, fmt.Errorf("%w %q: it is not UTF-8", ErrInvalidReason, reason)
	}
	ctx, cancel := e.Bounded(ctx)
	defer cancel()
	return join(ctx, e, name, reason)
}

// List returns the yield requests for a lock, the oldest first, whether or not a holder
// subscribes to them. It is meant for tools; a holder calls Next. It takes one read, and the lock
// need not be held.
func List(ctx context.Context, s *session.Session, name string) ([]Request, error) {
	e := session.Engine(door.Key{}).Of(s)
	if err := e.CheckName(name); err != nil {
		return nil, fmt.Errorf("yield: list the requests: %w", err)
	}
	v, err := e.Read(ctx, all(name))
	if err != nil {
		return nil, fmt.Errorf("yield: list the requests for %q: %w", name, err)
	}
	var requests []Request
	for _, r := range in(name, v) {
		requests = append(requests, r.Request)
	}
	return requests, nil
}

// Next blocks until there is a yield request for one of the hold's locks, and returns it. It
// returns immediately if there is one that no caller of Next has returned for this hold, the
// oldest first, whatever its age. Each request is returned once, to one caller, among all handles
// of a reentrant hold. Nothing ends by itself: the holder may continue, and the request may have
// been withdrawn meanwhile.
//
// Next returns the cause of ctx when ctx ends; session.ErrLost or ErrUnlocked when the hold is
// over, and then no further requests; and session.ErrDenied or ErrRefused where waiting cannot
// help. It keeps waiting while the service is unreachable.
//
// Only a call of Next has a cost: one watch for each name, two reads at the beginning,
// one for each request that is sent or withdrawn, and one now and then. It is safe for concurrent
// use.
func Next(ctx context.Context, h *session.Hold) (Request, error) {
	r, err := next(ctx, session.Engine(door.Key{}).Hold(h))
	if err != nil {
		return Request{}, fmt.Errorf("%s: wait for a yield request for %q: %w", h.Kind(), h.Name(), err)
	}
	return r, nil
}

// next is Next without the wrapping of errors.
func next(ctx context.Context, h *engine.Handle) (Request, error) {
	if err := h.Over(); err != nil {
		return Request{}, err //nolint:wrapcheck // before anything is sent
	}
	ctx, cancel := term.Either(ctx, h.Context())
	defer cancel()
	w := newWatch(h)
	defer w.close()
	for {
		requests, err := w.next(ctx)
		for _, r := range requests {
			if h.Over() == nil && h.News(r.Name, r.token) {
				return r.Request, nil
			}
		}
		over := h.Over()
		if over != nil {
			return Request{}, over //nolint:wrapcheck // how the hold ended
		}
		if err != nil {
			return Request{}, err // the cause of ctx, or the backend's own error
		}
	}
}
