package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// Hold is a lock that is held. Its methods are safe for concurrent use.
type Hold struct {
	g      *grant
	ctx    context.Context
	cancel context.CancelCauseFunc
	values context.Context //nolint:containedctx // ctx has its values, and the hold
	outer  outer           // the hold that the caller's context came from

	// Under g.mu:
	mode     driver.Mode
	unlocked bool
	sharing  bool // the session finishes a downgrade in the background, or has done so
}

// Context returns the context of the hold. It is cancelled when the lock is lost or
// released; context.Cause then returns a *LostError or ErrReleased. It carries the
// values of the context that was given to Lock, and marks requests made with it as made
// inside this lock.
//
// A program may acquire a chain of locks, each with the Context of the hold before, and
// unlock the earlier one each time: no earlier hold is kept in memory. Pass on the
// Context itself in such a chain: a context derived from it keeps all earlier holds.
func (h *Hold) Context() context.Context { return h.ctx }

// Token returns the fencing token, which is the same for all handles of a reentrant
// hold.
func (h *Hold) Token() Token { return Token(h.g.Token) }

// Name returns the name of the lock; for several locks, their names as one text for
// people.
func (h *Hold) Name() string { return h.g.Name }

// Names returns the names of all locks of the hold, usually one.
func (h *Hold) Names() []string { return slices.Clone(h.g.names()) }

func (g *grant) names() []string {
	if len(g.Names) > 0 {
		return g.Names
	}
	return []string{g.Name}
}

// Kind returns the recipe of the hold, such as "mutex".
func (h *Hold) Kind() string { return h.g.Kind }

// PreviousDied reports whether a previous holder crashed or lost the lock without
// releasing it; it stays true until a holder releases cleanly. The work of that holder
// may be half done, so repair it first.
//
// It is false where holds are not recorded (see mutex.Options.Robust), and other
// programs' holds are never recorded. A request that only waited is no holder. But if its
// client ends, or is cut off until the session has expired, after the service has received
// the request or let it hold, and before the client has learned that, the request counts as
// a holder: then PreviousDied is true although no caller has held.
func (h *Hold) PreviousDied() bool { return h.g.Past == door.PastDied }

// Slot returns the slot of a semaphore's hold: a number, from 0 on, that no other live
// hold of the same semaphore has. Assign parts of the resource by it, and fence each
// part. It is -1 without semaphore.Options.Slots.
func (h *Hold) Slot() int { return h.g.Slot }

// Mode returns what the hold shares the lock with. A downgrade changes it.
func (h *Hold) Mode() Mode {
	h.g.mu.Lock()
	defer h.g.mu.Unlock()
	return modeOf(h.mode)
}

// SessionID returns the service session of the hold, as the service's own tools show
// it.
func (h *Hold) SessionID() string { return h.g.t.ID() }

// Remaining returns the time until the hold's deadline, and 0 when the hold is over. It
// reads the clock, so it is right even after the process was stopped, when a context
// may be cancelled a moment late. Call it right before an action that cannot be undone.
func (h *Hold) Remaining() time.Duration {
	left := h.g.t.Left()
	h.g.mu.Lock()
	defer h.g.mu.Unlock()
	lost := h.g.lost
	if failpoint.On(failpoint.LossNotLatched) && lost != nil && lost.Reason == ReasonDeadline {
		lost = nil
	}
	if lost != nil || h.unlocked {
		return 0
	}
	return left
}

// reenter returns one more handle on the hold, unless h has ended.
func (h *Hold) reenter(ctx context.Context, mode driver.Mode) (*Hold, error) {
	g := h.g
	h2 := g.handle(ctx, mode)
	g.mu.Lock()
	defer g.mu.Unlock()
	if failpoint.On(failpoint.EntersFirst) {
		g.handles = append(g.handles, h2)
		g.mu.Unlock()
		driver.Sleep(context.WithoutCancel(ctx), g.s.clock, 20*time.Millisecond)
		g.mu.Lock()
	}
	err := g.ended(h)
	if err == nil { // in one step: an Unlock in between would find a handle and release nothing
		g.handles = append(g.handles, h2)
		return h2, nil
	}
	g.remove(h2)
	h2.cancel(err)
	return nil, err
}

// unlockTimeout is the longest that Unlock waits for the service.
const unlockTimeout = time.Second

// Unlock releases the lock. It takes no context: it waits for at most one second, and
// less if the deadline is nearer. It cancels the hold's context first, so that the work
// stops before another client can hold.
//
// Unlock returns nil when the service has acknowledged the deletion of the entry.
// ErrReleasePending: it has not yet, and the session repeats the deletion in the
// background. ErrLost: the hold had ended before; if only its entry is gone, Unlock
// first reads whether the session is gone too. If the session ended before the answer
// came, the lock may have been lost before the release, and Unlock returns ErrLost too.
// ErrUnlocked: this handle was unlocked before; nothing was sent.
func (h *Hold) Unlock() error {
	g := h.g
	left := g.t.Left() // the deadline passes before a timer may fire
	g.mu.Lock()
	if h.unlocked {
		g.mu.Unlock()
		return fmt.Errorf("%s: unlock %q: %w", g.Kind, g.Name, ErrUnlocked)
	}
	err := g.ended(h)
	h.unlocked = true
	g.remove(h)
	last := len(g.handles) == 0
	if err == nil && left == 0 && !last { // grant.unlock does it for the last one
		err = g.lostNow()
	}
	shares := h.mode == driver.Exclusive && !g.writes()
	g.mu.Unlock()

	h.cancel(ErrReleased)
	switch {
	case last:
		reported := err != nil
		if err = g.unlock(err, left); !reported {
			g.req.over(err)
		}
	case shares && err == nil:
		err = h.shareAtLast()
	}
	if lost, ok := err.(*LostError); ok { //nolint:errorlint // it names the lock itself
		return fmt.Errorf("%s: %w", g.Kind, lost)
	}
	if err != nil {
		return fmt.Errorf("%s: unlock %q: %w", g.Kind, g.Name, err)
	}
	return nil
}
