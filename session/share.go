package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/next/driver"
	old "github.com/fairlock/fairlock/session/driver"
)

// downgrade makes a hold that admits nobody one that admits others of its kind:
// a writer becomes a reader. Place and token stay, and nobody gets in between.
// It is for recipes; users call rwlock.RWLock.Downgrade.
//
// It fails with ErrNotWriter if the hold is not exclusive, with ErrLost or
// ErrUnlocked if it is over, at the latest when it is. After ErrDenied and
// ErrRefused the hold is what it was. After any other error it is being finished
// in the background, and it is not known whether others have been let in already;
// it may be called again, to wait for that.
func (h *Hold) downgrade(ctx context.Context) error {
	g := h.g
	g.mu.Lock()
	err := h.overErr()
	done := err == nil && h.sharing && h.mode != driver.Exclusive
	if err == nil && !done && (h.mode != driver.Exclusive || g.Share == nil) {
		err = ErrNotWriter
	}
	g.mu.Unlock()
	switch {
	case err != nil:
		return err
	case g.t.Left() == 0:
		return g.lostNow()
	case done: // by what an earlier call has left
		return nil
	}
	ctx, cancel := g.t.Within(ctx)
	defer cancel()
	if err := g.share(ctx); err != nil {
		return h.notShared(err)
	}
	return nil
}

// notShared says what the error of a share means for the hold, and has the share
// finished if the outcome is unknown.
func (h *Hold) notShared(err error) error {
	g := h.g
	g.mu.Lock()
	over := h.overErr()
	unknown := over == nil && !errors.Is(err, ErrLost) && !driver.Incurable(err)
	first := unknown && !h.sharing
	h.sharing = h.sharing || unknown
	g.mu.Unlock()
	switch {
	case over != nil: // meanwhile
		return over
	case first:
		g.shareLater()
	}
	return err
}

// overErr says how the hold ended; nil if it has not. The caller holds g.mu.
func (h *Hold) overErr() error {
	if h.unlocked && h.g.lost == nil {
		return ErrUnlocked
	}
	return h.g.lostErr()
}

// share makes the entry admit others.
func (g *grant) share(ctx context.Context) error {
	ref, err := g.Share(ctx)
	switch {
	case errors.Is(err, driver.ErrGone):
		return g.lostError(ReasonDeleted, nil)
	case errors.Is(err, driver.ErrSessionOver):
		return g.expired(err)
	case err != nil:
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !ref.Zero() {
		g.Refs = []old.Ref{ref}
	}
	for h := range g.handles {
		h.mode = driver.Shared
	}
	return nil
}

// expired takes in that a request found the service session over, which may be
// news, and returns what that means for the hold.
func (g *grant) expired(err error) error {
	g.t.end(ReasonExpired, err)
	return g.lostNow()
}

// shareLater makes the entry admit others, in the background, unless the service
// refuses.
func (g *grant) shareLater() {
	g.t.Clean(func(ctx context.Context) error {
		if err := g.share(ctx); err != nil && !errors.Is(err, ErrLost) && !driver.Incurable(err) {
			return err
		}
		return nil
	})
}

// writes says whether somebody holds a handle that excludes others. The caller
// holds g.mu.
func (g *grant) writes() bool {
	for h := range g.handles {
		if h.mode == driver.Exclusive {
			return true
		}
	}
	return false
}

// shareAtLast is the end of the writer's handle while readers within it go on:
// the entry becomes theirs. It is bounded as Unlock is.
//
//nolint:contextcheck // giving back is bounded by our own clock
func (g *grant) shareAtLast() error {
	if g.Share == nil {
		return nil
	}
	ctx, cancel := driver.WithTimeout(g.t.ctx, g.t.s.clock, min(unlockTimeout, g.t.Left()))
	defer cancel()
	err := g.share(ctx)
	if err == nil {
		return nil
	}
	g.mu.Lock()
	idle, lost := len(g.handles) == 0, g.lostErr()
	g.mu.Unlock()
	switch {
	case lost != nil:
		return lost
	case idle: // the readers have given back meanwhile: nothing is left to be shared
		return nil
	case errors.Is(err, ErrLost):
		return err
	case g.t.ctx.Err() != nil:
		return g.lostNow()
	}
	g.shareLater()
	return fmt.Errorf("%w: %w", ErrReleasePending, err)
}

// write changes the value of the hold's entry, for recipes whose entries have
// one. It fails with ErrLost or ErrUnlocked if the hold is over, or ends
// meanwhile. Any other error means that it is not known whether it was done.
func (h *Hold) write(ctx context.Context, value []byte) error {
	g := h.g
	g.mu.Lock()
	err := h.overErr()
	g.mu.Unlock()
	switch {
	case err != nil:
		return err
	case g.t.Left() == 0:
		return g.lostNow()
	}
	ctx, cancel := g.t.Within(ctx)
	defer cancel()
	err = g.Grant.Write(ctx, value)
	g.mu.Lock()
	over := h.overErr()
	g.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case over != nil: // meanwhile
		return over
	case errors.Is(err, driver.ErrGone):
		h.entryGone(err) // sooner than a watch may tell
		return g.lostError(ReasonDeleted, nil)
	case errors.Is(err, driver.ErrSessionOver):
		return g.expired(err)
	}
	return err
}
