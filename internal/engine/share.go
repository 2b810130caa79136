package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// Downgrade makes an exclusive hold one that admits others of its kind: a writer becomes a
// reader. The recipe has checked that the hold is its own. If the outcome is unknown, the downgrade
// goes on in the background: the entry may admit readers already, so it must not stay a writer's.
// Errors are those of rwlock.RWLock.Downgrade.
func (o *Handle) Downgrade(ctx context.Context) error {
	h := o.Hold
	if err := h.over(o); err != nil {
		return err
	}
	h.mu.Lock()
	writer := o.mode == driver.Exclusive && len(h.names) == 1
	done := o.sharing && o.mode != driver.Exclusive
	h.mu.Unlock()
	switch {
	case done: // the term has finished what an earlier call began
		return nil
	case !writer:
		return ErrNotWriter
	}
	err := h.update(ctx, o, h.share)
	if err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrUnlocked) && !driver.Incurable(err) {
		o.shareLater() // it is not known whether the entry was changed
	}
	return err
}

// Write changes the value of the hold's entry. The recipe has checked that the hold is its own,
// and that its entries have values. It fails with ErrLost or ErrUnlocked if the hold is over, or
// ends meanwhile. After any other error it is not known whether the value was changed.
func (o *Handle) Write(ctx context.Context, value []byte) error {
	return o.update(ctx, o, func(ctx context.Context) error { return o.es.write(ctx, value) })
}

// shareAtLast makes a write hold one of readers, when Unlock has ended the writer's handle
// and those of readers are left. It waits as long as Unlock does, and returns what Unlock
// does: ErrReleasePending means that other readers may have to wait a little longer.
//
//nolint:contextcheck // releasing is bounded by our own clock
func (o *Handle) shareAtLast() error {
	h := o.Hold
	if len(h.names) > 1 {
		return nil
	}
	ctx, cancel := driver.WithTimeout(context.Background(), h.clock, min(unlockTimeout, h.t.Left()))
	defer cancel()
	err := h.update(ctx, nil, h.share)
	switch {
	case err == nil, errors.Is(err, ErrUnlocked): // the readers have released meanwhile
		return nil
	case errors.Is(err, ErrLost):
		return err
	}
	o.shareLater()
	return fmt.Errorf("%w: %w", ErrReleasePending, err)
}

// The two ways to a downgrade, Downgrade and the Unlock of a writer that reads too, differ in what
// becomes of an outcome that is not known. Both have the term go on with it (shareLater). Only
// Downgrade can be called again, so there a refusal ends that; after Unlock the term goes on, because
// an operator may act and no call of the program can.
//
// shareLater makes the entry admit readers, in the background, until the service has
// acknowledged that, or the hold is over. For a writer's handle that was not unlocked, it ends
// when the service has refused that, too.
func (o *Handle) shareLater() {
	h := o.Hold
	h.mu.Lock()
	first := !o.sharing
	o.sharing = true
	h.mu.Unlock()
	if !first {
		return
	}
	h.t.Clean(func(ctx context.Context) error {
		if h.over(nil) != nil {
			return nil // there is nothing to share any more
		}
		err := h.share(ctx)
		switch {
		case errors.Is(err, driver.ErrGone):
			return nil
		case driver.Incurable(err):
			h.mu.Lock()
			defer h.mu.Unlock()
			if o.unlocked { // no call can have it done any more
				return err
			}
			o.sharing = false // another call may have it done
			return nil
		}
		return err
	})
}

// share makes the entry admit readers.
func (h *Hold) share(ctx context.Context) error {
	if err := h.es.share(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.handles {
		o.mode = driver.Shared
	}
	return nil
}

// update calls f, which changes the entry, unless the hold has ended for a handle, or, if o
// is nil, for all. It returns nil if f has succeeded, and how the hold ended if it has ended
// before or during the call. Any other error is that of f: the entry is not changed if it is
// driver.Incurable, and may be changed otherwise. The end of the term ends f's context.
func (h *Hold) update(ctx context.Context, o *Handle, f func(context.Context) error) error {
	if err := h.over(o); err != nil {
		return err
	}
	ctx, cancel := h.t.Within(ctx)
	defer cancel()
	err := f(ctx)
	if err == nil {
		return nil
	}
	ended := h.over(o)
	switch {
	case ended != nil: // meanwhile
		return ended
	case errors.Is(err, driver.ErrGone):
		h.entryGone() // an event reports it later
	case errors.Is(err, driver.ErrSessionOver):
		h.t.End(term.Expired, err) // this request may be the first to find that out
	default:
		return err
	}
	return h.over(o)
}
