package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock/session/driver"
)

// MaxReason is the most bytes that the reason of an ask takes.
const MaxReason = 256

// kindAsk is what entries in a line of asks say of their recipe.
const kindAsk = "ask"

// Ask is a polite request that whoever holds a lock yields, as Hold.Asked tells
// it. Nothing in it was checked: who has permission to write at the service may
// say what he likes. Quote it before a terminal sees it.
type Ask struct {
	Name   string // the lock
	Reason string // at most MaxReason bytes of UTF-8

	// Who asks, as he says himself; zero where he does not.
	Host  string
	PID   int
	Label string    // of his Session's options
	Since time.Time // by his own clock

	// Session is the service session that the ask goes with.
	Session string
}

// Ask asks whoever holds a lock, and whoever will, to yield: they are told if they
// listen, see Hold.Asked, and nobody is forced to anything. The reason is for
// people: at most MaxReason bytes of UTF-8, or the error is ErrInvalidReason; it
// may be empty. Nothing is checked of the lock: nobody need hold it.
//
// The ask stands at the service, beside the line and in nobody's way, until
// withdraw is called or the service session is over that this Session has at
// present: it is not made anew with the next one. ctx bounds the asking only;
// after an error nothing of it stays.
//
// Withdraw returns nil when it is acknowledged that the ask is gone. It waits for
// one second at most, as Hold.Unlock does; ErrReleasePending then means that it
// is being finished in the background, at the latest with the service session.
// Further calls return the same. Both may be called from any goroutine.
func (s *Session) Ask(ctx context.Context, name, reason string) (withdraw func() error, err error) {
	t, ref, err := s.ask(ctx, name, reason)
	if err != nil {
		return nil, fmt.Errorf("session: ask for %q: %w", name, err)
	}
	return sync.OnceValue(func() error { //nolint:contextcheck // withdrawing is bounded by our own clock
		if err := t.withdraw(ref); err != nil {
			return fmt.Errorf("session: withdraw the ask for %q: %w", name, err)
		}
		return nil
	}), nil
}

// Asks returns those who ask for a lock now, the oldest first, whether a holder
// listens or not: for tools, since a holder that listens is told (Hold.Asked). None
// is no error. It takes one read, and needs nobody to hold.
func (s *Session) Asks(ctx context.Context, name string) ([]Ask, error) {
	if err := s.checkName(name); err != nil {
		return nil, fmt.Errorf("session: list the asks: %w", err)
	}
	line, err := s.backend.List(ctx, driver.AskLine(name), 0)
	if err != nil {
		return nil, fmt.Errorf("session: list the asks for %q: %w", name, err)
	}
	var all []Ask
	for _, e := range line {
		if isAsk(e) {
			all = append(all, readAsk(name, e))
		}
	}
	return all, nil
}

// ask joins the line of asks, in one term after another.
func (s *Session) ask(ctx context.Context, name, reason string) (*term, driver.Ref, error) {
	if err := s.checkName(name); err != nil {
		return nil, driver.Ref{}, err
	}
	if err := checkReason(reason); err != nil {
		return nil, driver.Ref{}, err
	}
	meta := s.meta
	meta.Kind, meta.Since = kindAsk, s.clock.Wall()
	for {
		t, err := s.liveTerm(ctx)
		if err != nil {
			return nil, driver.Ref{}, err
		}
		inner, cancel := t.Within(ctx)
		j, err := t.drv.Join(inner, driver.JoinRequest{
			Line: driver.AskLine(name), Meta: meta, Value: []byte(reason), Nearest: 1,
		})
		cancel()
		if err == nil {
			return t, j.Entry.Ref, nil
		}
		var p *driver.PendingError
		if errors.As(err, &p) {
			t.Clean(p.Settle)
		}
		if ctx.Err() != nil || t.ctx.Err() == nil && !errors.Is(err, driver.ErrSessionOver) {
			return nil, driver.Ref{}, err
		}
		t.drv.Prove() // so that the loss is known soon
		driver.Sleep(ctx, s.clock, minRest)
	}
}

// checkReason says why an ask cannot have this reason.
func checkReason(reason string) error {
	switch {
	case len(reason) > MaxReason:
		return fmt.Errorf("%w: %d bytes long, at most %d are allowed", ErrInvalidReason, len(reason), MaxReason)
	case !utf8.ValidString(reason):
		return fmt.Errorf("%w %q: it is not UTF-8", ErrInvalidReason, reason)
	}
	return nil
}

// withdraw deletes an ask of the term's.
func (t *term) withdraw(ref driver.Ref) error {
	leave := func(ctx context.Context) error {
		if _, err := t.drv.Leave(ctx, driver.LeaveRequest{Ref: ref}); err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
		return nil
	}
	ctx, cancel := driver.WithTimeout(t.ctx, t.s.clock, unlockTimeout)
	defer cancel()
	err := leave(ctx)
	switch {
	case err == nil:
		return nil
	case t.ctx.Err() != nil: // it goes with the service session
		return fmt.Errorf("%w: %s", ErrReleasePending, context.Cause(t.ctx).Error())
	}
	t.Clean(leave)
	return fmt.Errorf("%w: %w", ErrReleasePending, err)
}
