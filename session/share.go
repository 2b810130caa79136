package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/session/driver"
)

// Downgrade makes a hold that admits nobody one that admits others of its kind:
// a writer becomes a reader. Place and token stay, and nobody gets in between.
// It is for recipes; users call rwlock.RWLock.Downgrade.
//
// It fails with ErrNotWriter if the hold is not exclusive, with ErrLost or
// ErrUnlocked if it is over. After any other error it is being finished in the
// background, and it is not known whether others have been let in already.
func (h *Hold) Downgrade(ctx context.Context) error {
	g := h.g
	g.mu.Lock()
	err := g.lostErr()
	switch {
	case err != nil:
	case h.unlocked:
		err = ErrUnlocked
	case h.mode != driver.Exclusive || g.Share == nil:
		err = ErrNotWriter
	}
	g.mu.Unlock()
	if err == nil && h.Valid() == 0 {
		err = g.lostNow()
	}
	if err != nil {
		return err
	}
	err = g.share(ctx)
	if err != nil && !errors.Is(err, ErrLost) {
		g.shareLater()
	}
	return err
}

// share makes the entry admit others.
func (g *grant) share(ctx context.Context) error {
	ref, err := g.Share(ctx)
	if errors.Is(err, driver.ErrGone) {
		return g.lostError(ReasonDeleted, nil)
	}
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Refs = []driver.Ref{ref}
	for h := range g.handles {
		h.mode = driver.Shared
	}
	return nil
}

// shareLater makes the entry admit others, in the background.
func (g *grant) shareLater() {
	g.t.Clean(func(ctx context.Context) error {
		if err := g.share(ctx); err != nil && !errors.Is(err, ErrLost) {
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
	if err == nil || errors.Is(err, ErrLost) {
		return err
	}
	if g.t.ctx.Err() != nil {
		return g.lostNow()
	}
	g.shareLater()
	return fmt.Errorf("%w: %w", ErrReleasePending, err)
}

// Write changes the value of the hold's entry, for recipes whose entries have
// one. It fails with ErrLost or ErrUnlocked if the hold is over. Any other error
// means that it is not known whether it was done.
func (h *Hold) Write(ctx context.Context, value []byte) error {
	g := h.g
	g.mu.Lock()
	err := g.lostErr()
	if h.unlocked && err == nil {
		err = ErrUnlocked
	}
	g.mu.Unlock()
	switch {
	case err != nil:
		return err
	case h.Valid() == 0:
		return g.lostNow()
	}
	if err := g.Grant.Write(ctx, value); errors.Is(err, driver.ErrGone) {
		return g.lostError(ReasonDeleted, nil)
	} else if err != nil {
		return err
	}
	return nil
}
