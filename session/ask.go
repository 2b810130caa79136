package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session/driver"
)

// MaxReason is the longest reason of a yield request, in bytes.
const MaxReason = 256

// kindAsk is the recipe of a yield request, as its entry names it.
const kindAsk = "ask"

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
	t, ref, err := s.ask(ctx, name, reason)
	if err != nil {
		return nil, fmt.Errorf("session: send a yield request for %q: %w", name, err)
	}
	return sync.OnceValue(func() error { //nolint:contextcheck // withdrawing is bounded by our own clock
		err := withdrawAsk(t, ref, s.clock)
		if err != nil {
			err = fmt.Errorf("session: withdraw the yield request for %q: %w", name, err)
		}
		return err
	}), nil
}

// Asks returns the yield requests for a lock, the oldest first, whether or not a holder
// subscribes to them. It is meant for tools; a holder calls Hold.Asked. It takes one
// read, and the lock need not be held.
func (s *Session) Asks(ctx context.Context, name string) ([]Ask, error) {
	if err := (*inner)(s).CheckName(name); err != nil {
		return nil, fmt.Errorf("session: list the yield requests: %w", err)
	}
	v, err := s.read(ctx, asksOf(name))
	if err != nil {
		return nil, fmt.Errorf("session: list the yield requests for %q: %w", name, err)
	}
	var all []Ask
	for i := range v.Entries {
		if e := &v.Entries[i]; isAsk(e) {
			all = append(all, readAsk(name, e))
		}
	}
	return all, nil
}

// ask joins the queue of yield requests, in one term after another.
func (s *Session) ask(ctx context.Context, name, reason string) (t door.Term, ref driver.Ref, err error) {
	if err := (*inner)(s).CheckName(name); err != nil {
		return nil, ref, err
	}
	if err := checkReason(reason); err != nil {
		return nil, ref, err
	}
	meta := s.meta
	meta.Kind, meta.Since, meta.Holds = kindAsk, s.clock.Wall(), nil
	for {
		t, err := (*inner)(s).Term(ctx)
		if err != nil {
			return nil, ref, err
		}
		within, cancel := t.Within(ctx)
		joined, err := t.Driver().Join(within, driver.JoinRequest{
			Queue: driver.AskQueue(name), Data: []byte(reason), Valued: true, Detail: meta.Encode(), Nearest: 1,
		})
		cancel()
		if err == nil {
			return t, joined[0].Entry.Ref, nil
		}
		if pending, ok := errors.AsType[*driver.PendingError](err); ok {
			t.Clean(pending.Settle)
		}
		if ctx.Err() != nil || t.Context().Err() == nil && !errors.Is(err, driver.ErrSessionOver) {
			return nil, ref, err //nolint:wrapcheck // the backend's own error
		}
		t.Driver().Renew() // so that the term soon learns that it is over
		driver.Sleep(ctx, s.clock, minRest)
	}
}

// checkReason returns why a yield request cannot have this reason, or nil.
func checkReason(reason string) error {
	switch {
	case len(reason) > MaxReason:
		return fmt.Errorf("%w: it has %d bytes, more than the maximum of %d", ErrInvalidReason, len(reason), MaxReason)
	case !utf8.ValidString(reason):
		return fmt.Errorf("%w %q: it is not UTF-8", ErrInvalidReason, reason)
	}
	return nil
}

// withdrawAsk deletes a yield request of a term.
func withdrawAsk(t door.Term, ref driver.Ref, clock driver.Clock) error {
	leave := func(ctx context.Context) error {
		_, err := t.Driver().Leave(ctx, driver.LeaveRequest{Ref: ref})
		return err //nolint:wrapcheck // the backend's own error
	}
	ctx, cancel := driver.WithTimeout(t.Context(), clock, unlockTimeout)
	defer cancel()
	err := leave(ctx)
	switch {
	case err == nil:
		return nil
	case t.Context().Err() != nil: // the request ends with the service session
		return fmt.Errorf("%w: %s", ErrReleasePending, context.Cause(t.Context()).Error())
	}
	t.Clean(leave)
	return fmt.Errorf("%w: %w", ErrReleasePending, err)
}
