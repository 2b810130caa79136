package session

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/internal/yield"
)

// MaxReason is the longest reason of a yield request, in bytes.
const MaxReason = yield.MaxReason

// Ask is a yield request: a request that the holders of a lock release it. No part of
// it is verified: every client with permission to write at the service can claim
// anything. Quote it before you print it on a terminal.
type Ask struct {
	Name   string // the lock
	Reason string // at most MaxReason bytes of UTF-8

	// Host, PID and Label describe the sender, and Since is when it sent the request,
	// by its own clock. They are zero where the sender claims nothing.
	Host  string
	PID   int
	Label string // Options.Label of its Session
	Since time.Time

	// Session is the service session that the request belongs to, and ends with.
	Session string
}

// Ask sends a yield request to the present and future holders of a lock. Holders that
// call Hold.Asked are notified; what they do is up to them. The reason is for people:
// it has at most MaxReason bytes of UTF-8 and may be empty; Ask returns
// ErrInvalidReason otherwise. The lock need not be held, nor exist.
//
// The service stores the request outside the queue, where it delays no other request,
// until withdraw is called or the present service session ends: the Session does not
// send it again in the next one. ctx bounds only the sending; after an error nothing of
// the request stays.
//
// withdraw returns nil when the service has acknowledged the deletion of the request.
// It waits for at most one second, as Hold.Unlock does. ErrReleasePending then means
// that the session finishes the deletion in the background; at the latest the request
// ends with the service session. Further calls return the same result. Both functions
// are safe for concurrent use.
func (s *Session) Ask(ctx context.Context, name, reason string) (withdraw func() error, err error) {
	sent, err := s.sendYield(ctx, name, reason)
	if err != nil {
		return nil, fmt.Errorf("session: send a yield request for %q: %w", name, err)
	}
	return sync.OnceValue(func() error { //nolint:contextcheck // withdrawing is bounded by our own clock
		if err := sent.Withdraw(s.clock, unlockTimeout); err != nil {
			return fmt.Errorf("session: withdraw the yield request for %q: %w: %w", name, ErrReleasePending, err)
		}
		return nil
	}), nil
}

// sendYield checks a yield request, and sends it.
func (s *Session) sendYield(ctx context.Context, name, reason string) (sent yield.Sent, err error) {
	if err := (inner{s}).CheckName(name); err != nil {
		return sent, err
	}
	switch {
	case len(reason) > MaxReason:
		return sent, fmt.Errorf("%w: it has %d bytes, more than the maximum of %d", ErrInvalidReason, len(reason), MaxReason)
	case !utf8.ValidString(reason):
		return sent, fmt.Errorf("%w %q: it is not UTF-8", ErrInvalidReason, reason)
	}
	ctx, cancel := s.terms.Bounded(ctx)
	defer cancel()
	sender := s.meta
	sender.Since, sender.Holds = s.clock.Wall(), nil
	return yield.Send(ctx, s.terms, s.clock, name, reason, sender) //nolint:wrapcheck // the caller does
}

// Asks returns the yield requests for a lock, the oldest first, whether or not a holder
// subscribes to them. It is meant for tools; a holder calls Hold.Asked. It takes one
// read, and the lock need not be held.
func (s *Session) Asks(ctx context.Context, name string) ([]Ask, error) {
	if err := (inner{s}).CheckName(name); err != nil {
		return nil, fmt.Errorf("session: list the yield requests: %w", err)
	}
	v, err := s.read(ctx, yield.All(name))
	if err != nil {
		return nil, fmt.Errorf("session: list the yield requests for %q: %w", name, err)
	}
	var all []Ask
	for _, r := range yield.In(v) {
		all = append(all, askOf(name, r))
	}
	return all, nil
}

// askOf returns a yield request as users see it.
func askOf(name string, r yield.Request) Ask {
	return Ask{
		Name: name, Reason: r.Reason, Session: r.Session,
		Host: r.Meta.Host, PID: r.Meta.PID, Label: r.Meta.Label, Since: r.Meta.Since,
	}
}

// Asked blocks until there is a yield request for one of the hold's locks (see
// Session.Ask), and returns it. It returns immediately if there is one that this hold
// has not returned before, the oldest first, whatever its age. Each request is returned
// once, to one caller, among all handles of a reentrant hold. Nothing ends by itself:
// the holder may continue, and the request may have been withdrawn meanwhile.
//
// Asked returns the cause of ctx when ctx ends; ErrLost or ErrUnlocked when the hold is
// over, and then no further requests; and ErrDenied or ErrRefused where waiting cannot
// help. It keeps waiting while the service is unreachable.
//
// Only a call of Asked has a cost: one watch for each name, two reads at the beginning,
// one for each request that is sent or withdrawn, and one now and then. A hold that
// never calls it sends nothing. Asked is safe for concurrent use.
func (h *Hold) Asked(ctx context.Context) (Ask, error) {
	a, err := h.nextYield(ctx)
	if err != nil {
		return Ask{}, fmt.Errorf("%s: wait for a yield request for %q: %w", h.g.Kind, h.g.Name, err)
	}
	return a, nil
}

// nextYield is Asked without the wrapping of errors.
func (h *Hold) nextYield(ctx context.Context) (Ask, error) {
	if err := h.g.over(h); err != nil {
		return Ask{}, err // before anything is sent
	}
	ctx, cancel := term.Either(ctx, h.ctx)
	defer cancel()
	s := h.g.s
	w := yield.NewWatch(h.g.t.Driver(), s.clock, s.logger, max(s.opts.TTL, 10*time.Second), h.g.names())
	defer w.Close()
	for {
		name, all, err := w.Next(ctx)
		for _, r := range all {
			if h.isNew(name, r.Token) {
				return askOf(name, r), nil
			}
		}
		if over := h.g.over(h); over != nil {
			return Ask{}, over
		}
		if err != nil {
			return Ask{}, err //nolint:wrapcheck // the cause of ctx, or the backend's own error
		}
	}
}

// isNew reports whether a yield request is to be returned: no caller of Asked has returned
// it, and the hold is not over. Requests are returned in the order of their tokens, so the
// newest token is all that the grant keeps.
func (h *Hold) isNew(name string, token int64) bool {
	g := h.g
	if g.over(h) != nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if token <= g.asked[name] {
		return false
	}
	if g.asked == nil {
		g.asked = make(map[string]int64, 1)
	}
	g.asked[name] = token
	return true
}
