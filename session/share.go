package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// downgrade implements door.Hold's Downgrade. If the outcome is unknown, the downgrade goes
// on in the background: the entry may admit readers already, so it must not stay a writer's.
func (h *Hold) downgrade(ctx context.Context) error {
	g := h.g
	if err := g.over(h); err != nil {
		return err
	}
	g.mu.Lock()
	writer, done := h.mode == driver.Exclusive && g.Share != nil, h.sharing && h.mode != driver.Exclusive
	g.mu.Unlock()
	switch {
	case done: // the session has finished what an earlier call began
		return nil
	case !writer:
		return ErrNotWriter
	}
	err := g.update(ctx, h, g.share)
	if err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrUnlocked) && !driver.Incurable(err) {
		h.shareLater() // it is not known whether the entry was changed
	}
	return err
}

// shareAtLast makes a write hold one of readers, when Unlock has ended the writer's handle
// and those of readers are left. It waits as long as Unlock does, and returns what Unlock
// does: ErrReleasePending means that other readers may have to wait a little longer.
//
//nolint:contextcheck // releasing is bounded by our own clock
func (h *Hold) shareAtLast() error {
	g := h.g
	if g.Share == nil {
		return nil
	}
	ctx, cancel := driver.WithTimeout(context.Background(), g.s.clock, min(unlockTimeout, g.t.Left()))
	defer cancel()
	err := g.update(ctx, nil, g.share)
	switch {
	case err == nil, errors.Is(err, ErrUnlocked): // the readers have released meanwhile
		return nil
	case errors.Is(err, ErrLost):
		return err
	}
	h.shareLater()
	return fmt.Errorf("%w: %w", ErrReleasePending, err)
}

// shareLater makes the entry admit readers, in the background, until the service has
// acknowledged that, or the hold is over. For a writer's handle that was not unlocked, it ends
// when the service has refused that, too.
func (h *Hold) shareLater() {
	g := h.g
	g.mu.Lock()
	first := !h.sharing
	h.sharing = true
	g.mu.Unlock()
	if !first {
		return
	}
	g.t.Clean(func(ctx context.Context) error {
		if g.over(nil) != nil {
			return nil // there is nothing to share any more
		}
		err := g.share(ctx)
		switch {
		case errors.Is(err, driver.ErrGone):
			return nil
		case driver.Incurable(err):
			g.mu.Lock()
			defer g.mu.Unlock()
			if h.unlocked { // no call can have it done any more
				return err
			}
			h.sharing = false // another call may have it done
			return nil
		}
		return err
	})
}

// share makes the entry admit readers.
func (g *grant) share(ctx context.Context) error {
	if err := g.Share(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.handles {
		h.mode = driver.Shared
	}
	return nil
}

// update calls f, which changes the entry, unless the hold has ended for a handle, or, if h
// is nil, for all. It returns nil if f has succeeded, and how the hold ended if it has ended
// before or during the call. Any other error is that of f: the entry is not changed if it is
// driver.Incurable, and may be changed otherwise. The end of the term ends f's context.
func (g *grant) update(ctx context.Context, h *Hold, f func(context.Context) error) error {
	if err := g.over(h); err != nil {
		return err
	}
	ctx, cancel := g.t.Within(ctx)
	defer cancel()
	err := f(ctx)
	switch ended := g.over(h); {
	case err == nil:
		return nil
	case ended != nil: // meanwhile
		return ended
	case errors.Is(err, driver.ErrGone):
		g.entryGone() // an event reports it later
	case errors.Is(err, driver.ErrSessionOver):
		g.t.End(term.Expired, err) // this request may be the first to find that out
	default:
		return err
	}
	return g.over(h)
}
