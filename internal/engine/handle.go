package engine

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// Handle is what one caller has of a Hold. It is safe for concurrent use.
type Handle struct {
	*Hold

	// ctx ends with the hold, or when this handle is unlocked. cancel ends it, with the cause.
	ctx    context.Context
	cancel context.CancelCauseFunc

	// values is what ctx was made from: it has the values of the caller's context, and no end.
	values context.Context //nolint:containedctx // ctx has its values, and the handle

	// outer is the handle that the caller's context came from, if there is one.
	outer outer

	// The mutex of the Hold guards what follows.
	mode     driver.Mode
	unlocked bool

	// sharing: the term finishes a downgrade in the background, or has done so.
	sharing bool
}

// handleKey is the context key under which the context of a handle has the handle.
type handleKey struct{}

// fromContext returns the innermost handle that ctx came from, live or over, or nil.
func fromContext(ctx context.Context) *Handle {
	o, _ := ctx.Value(handleKey{}).(*Handle)
	return o
}

// From returns the innermost handle that ctx came from, live or over, or nil.
func From(ctx context.Context) *Handle { return fromContext(ctx) }

// Named returns the innermost handle of that name that ctx came from, or nil. It is live, or the one
// that From returns.
func Named(ctx context.Context, name string) *Handle {
	h := fromContext(ctx)
	for h != nil && !slices.Contains(h.names, name) {
		h = h.outer.live()
	}
	return h
}

// outer is the handle that a context came from, if there is one. A program may acquire a chain of
// locks, each with the context of the hold before, for months: so what is over leaves the chain
// whenever it is walked.
type outer struct{ atomic.Pointer[Handle] }

// live returns the innermost live handle, or nil. It takes those that are over out of the
// chain, so that they are not kept in memory.
func (o *outer) live() *Handle {
	first := o.Load()
	h := first
	for h != nil && h.Remaining() == 0 {
		h = h.outer.Load()
	}
	if h != first {
		o.Store(h)
	}
	return h
}

// around yields the live handles that ctx came from, innermost first.
func around(ctx context.Context) iter.Seq[*Handle] {
	return func(yield func(*Handle) bool) {
		var o outer
		o.Store(fromContext(ctx))
		for h := o.live(); h != nil && yield(h); h = h.outer.live() {
		}
	}
}

// Held returns the names of the live holds that ctx came from, innermost first. They are put
// into the entry that the caller joins with, so that deadlocks can be found.
func Held(ctx context.Context) []string {
	var names []string
	for o := range around(ctx) {
		names = append(names, o.names...)
	}
	return names
}

// Reenter returns one more handle on the live hold that ctx came from, if one of the requests is
// for its lock and may reenter it; else nil. It sets the Err of each request that would wait for
// its own caller. Go has no thread identity, so ownership travels in the context: every goroutine
// that was given a hold's context is inside.
//
// The lock is released when the last handle is unlocked. A handle of mode Shared on an
// exclusive hold is that of a writer that reads too. When no other handles are left,
// the entry admits readers.
func (e *Engine) Reenter(ctx context.Context, rs []Request) *Handle {
	if fromContext(ctx) == nil {
		return nil
	}
	for i := range rs {
		r := &rs[i]
		if r.Err != nil {
			continue
		}
		o, err := e.enter(ctx, r)
		if o != nil {
			return o
		}
		if err != nil && len(rs) > 1 {
			err = fmt.Errorf("%q: %w", r.Name, err)
		}
		r.Err = err
	}
	return nil
}

// enter is Reenter for one request. A hold that ends during the call counts as over: the caller
// then goes on as outside of it.
func (e *Engine) enter(ctx context.Context, r *Request) (*Handle, error) {
	for o := range around(ctx) {
		if o.Engine() != e || !slices.Contains(o.names, r.Name) {
			continue
		}
		if !r.Reenter || o.kind != r.Kind {
			return nil, ErrReentrant
		}
		again, err := o.reenter(ctx, r.Mode)
		if err == nil {
			return again, nil
		}
		break // it has ended in this instant
	}
	return nil, nil //nolint:nilnil // "not inside" is neither
}

// within returns an error that wraps ErrReentrant if ctx came from a live hold of another lock
// whose entry the queue of that name contains as well (see driver.Info.Within): a request for that
// would wait for itself.
func (e *Engine) within(ctx context.Context, name string) error {
	contains := e.info.Within
	for o := range around(ctx) {
		for _, other := range o.names {
			if o.Engine() == e && contains(other, name) {
				return fmt.Errorf("%w: the queue of %q contains the entries of %q, which the caller holds", ErrReentrant, name, other)
			}
		}
	}
	return nil
}

// handle makes a handle on h, which the caller puts into h.handles. The handle's context has
// the values of ctx and not its end: a hold ends by Unlock or by a loss, because the work may
// go on after the caller of Lock has stopped waiting.
//
// If ctx is the context of a handle, the new one has the values that the context of that one
// was made with. Otherwise a chain of holds, each acquired with the context of the one
// before, would keep all of them in memory for as long as the last one.
func (h *Hold) handle(ctx context.Context, mode driver.Mode) *Handle {
	o := &Handle{Hold: h, mode: mode}
	outside := fromContext(ctx)
	if outside != nil && ctx == outside.ctx {
		o.values = outside.values
	} else {
		o.values = context.WithoutCancel(ctx)
	}
	if outside != nil {
		o.outer.Store(outside)
		for outside = o.outer.live(); outside != nil; {
			outside = outside.outer.live() // takes out of the chain what is over
		}
	}
	inner, cancel := context.WithCancelCause(o.values)
	o.ctx, o.cancel = context.WithValue(inner, handleKey{}, o), cancel
	return o
}

// reenter returns one more handle on the hold, unless it has ended for o. The new handle has the
// deadline and the token of the hold, and a context of its own.
func (o *Handle) reenter(ctx context.Context, mode driver.Mode) (*Handle, error) {
	again := o.handle(ctx, mode)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.ended(o); err != nil { // in one step: an Unlock in between would find a handle and release nothing
		again.cancel(err)
		return nil, err
	}
	o.handles = append(o.handles, again)
	return again, nil
}

// Of reports whether the handle is one of that lock, acquired through that Engine by that recipe.
// It is false for nil.
func (o *Handle) Of(e *Engine, kind, name string) bool {
	return o != nil && o.Engine() == e && o.kind == kind && o.name == name
}

// Context is the context of the handle.
func (o *Handle) Context() context.Context { return o.ctx }

// Mode returns what the hold shares the lock with, for this handle. A downgrade changes it.
func (o *Handle) Mode() driver.Mode {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mode
}

// Remaining returns the time until the deadline, and 0 when the hold is over for this handle. It
// reads the clock.
func (o *Handle) Remaining() time.Duration {
	left := o.t.Left()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost != nil || o.unlocked {
		return 0
	}
	return left
}

// Over returns how the hold ended for this handle, nil if it has not. It reads the clock.
func (o *Handle) Over() error { return o.over(o) }

// Unlock unlocks the handle, and releases the lock if it was the last one. It waits for at most
// unlockTimeout, and less if the deadline is nearer, and cancels the context first. It returns nil,
// ErrReleasePending, ErrUnlocked, or the public error of the loss: see session.Hold.Unlock. The first
// line that applies decides:
//
//	the handle                                    Unlock
//	was unlocked before                           returns ErrUnlocked
//	is the last one                               releases, or returns the loss (Hold.unlock)
//	is one of several, and the hold has ended     returns the loss
//	was the last of several that excluded others  makes the entry one of readers (shareAtLast)
//	is another one of several                     returns nil
//
// The handle is taken out in the step that looks whether it is the last, so two that are unlocked at
// the same moment release once.
func (o *Handle) Unlock() error {
	h := o.Hold
	left := h.t.Left() // the deadline passes before a timer may fire
	h.mu.Lock()
	if o.unlocked {
		h.mu.Unlock()
		return ErrUnlocked
	}
	lost, err := h.lost, h.ended(o)
	o.unlocked = true
	h.remove(o)
	last := len(h.handles) == 0
	if err == nil && left == 0 && !last { // unlock does it for the last one
		err = h.public(h.lossNow())
	}
	shares := o.mode == driver.Exclusive && !h.writes()
	h.mu.Unlock()

	o.cancel(ErrReleased)
	switch {
	case last:
		err = h.unlock(lost, left)
		if lost == nil { // else its loss was reported
			h.reportEnd(err)
		}
	case shares && err == nil:
		err = o.shareAtLast()
	}
	return err
}
