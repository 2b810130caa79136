package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/session/driver"
)

// downgrade implements door.Hold's Downgrade. If the outcome is unknown, the session goes
// on in the background.
func (h *Hold) downgrade(ctx context.Context) error {
	if err := h.over(); err != nil {
		return err
	}
	g := h.g
	g.mu.Lock()
	writer, done := h.mode == driver.Exclusive && g.Share != nil, h.sharing && h.mode != driver.Exclusive
	g.mu.Unlock()
	switch {
	case done: // the session has finished what an earlier call began
		return nil
	case !writer:
		return ErrNotWriter
	}
	err := h.update(ctx, g.share)
	if unknown(err) {
		h.shareLater()
	}
	return err
}

// update calls f, which changes the entry, unless the hold is over, and returns what the
// error of f means for the hold. The end of the term ends the context of f.
func (h *Hold) update(ctx context.Context, f func(context.Context) error) error {
	if err := h.over(); err != nil {
		return err
	}
	ctx, cancel := h.g.t.Within(ctx)
	defer cancel()
	err := f(ctx)
	switch over := h.over(); {
	case err == nil:
		return nil
	case over != nil: // meanwhile
		return over
	case errors.Is(err, driver.ErrGone):
		h.g.entryGone(nil) // sooner than an event may do it
	case errors.Is(err, driver.ErrSessionOver):
		h.g.t.end(ReasonExpired, err) // which may be the first to find out
	default:
		return err
	}
	return h.over()
}

// unknown reports whether an error of update leaves open whether the entry was changed.
func unknown(err error) bool {
	return err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrUnlocked) && !driver.Incurable(err)
}

// share makes the entry admit readers.
func (g *grant) share(ctx context.Context) error {
	if err := g.Share(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for h := range g.handles {
		h.mode = driver.Shared
	}
	return nil
}

// shareLater makes the entry admit readers, in the background, until the service has
// acknowledged or refused that, or the hold is over.
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
		g.mu.Lock()
		idle := g.lost != nil || len(g.handles) == 0
		g.mu.Unlock()
		if idle {
			return nil
		}
		err := g.share(ctx)
		if errors.Is(err, driver.ErrGone) || driver.Incurable(err) {
			return nil
		}
		return err
	})
}

// shareAtLast makes the entry one of readers, when the writer's handle was unlocked before
// theirs. It is bounded as Unlock is.
//
//nolint:contextcheck // releasing is bounded by our own clock
func (h *Hold) shareAtLast() error {
	g := h.g
	if g.Share == nil {
		return nil
	}
	ctx, cancel := driver.WithTimeout(g.t.ctx, g.t.s.clock, min(unlockTimeout, g.t.Left()))
	defer cancel()
	err := g.share(ctx)
	if errors.Is(err, driver.ErrSessionOver) {
		g.t.end(ReasonExpired, err)
	}
	g.mu.Lock()
	lost, idle := g.lost, len(g.handles) == 0
	g.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case lost != nil:
		return lost
	case idle: // the readers have released meanwhile: there is nothing to share
		return nil
	case errors.Is(err, driver.ErrGone):
		return g.lostError(ReasonDeleted, nil)
	case g.t.ctx.Err() != nil:
		return g.lostNow()
	}
	h.shareLater()
	return fmt.Errorf("%w: %w", ErrReleasePending, err)
}
