package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/engine"
)

// Hold is a lock that is held. Its methods are safe for concurrent use.
type Hold struct{ h *engine.Handle }

// HoldFrom returns the hold that ctx comes from: ctx is the Context of that hold, the context
// that a recipe has given to the caller's function, or derived from one of these, also by
// context.WithoutCancel. So code far below the one that holds needs no parameter for it. Of
// several holds inside each other it is the innermost, whatever it locks; see HoldOf.
//
// The hold may be over, and is returned all the same: a resource can refuse the token of a hold
// that was lost only if the token is shown.
//
// Unlocking the result unlocks the hold of the recipe; leave that to the code that has acquired
// it.
func HoldFrom(ctx context.Context) (h *Hold, ok bool) { return held(engine.From(ctx)) }

// HoldOf is HoldFrom for one of several holds inside each other: the innermost of a lock with
// that name, or of several locks of which one has that name. An outer hold that is over is not
// returned; the innermost of all is, as by HoldFrom.
//
// Two recipes or two stores may have a lock of the same name. Hold.Kind distinguishes the former.
func HoldOf(ctx context.Context, name string) (h *Hold, ok bool) {
	return held(engine.Named(ctx, name))
}

// TokenFrom returns the token of the hold that HoldFrom returns, and false without one. Code that
// accesses a fenced resource must not go on after false: a write without a token is never refused.
func TokenFrom(ctx context.Context) (t Token, ok bool) {
	h, ok := HoldFrom(ctx)
	if !ok {
		return 0, false
	}
	return h.Token(), true
}

func held(h *engine.Handle) (*Hold, bool) {
	if h == nil {
		return nil, false
	}
	return &Hold{h}, true
}

// Context returns the context of the hold. It is cancelled when the lock is lost or
// released; context.Cause then returns a *LostError or ErrReleased. It carries the
// values of the context that was given to Lock, marks requests made with it as made inside
// this lock, and carries the hold: see HoldFrom.
//
// A program may acquire a chain of locks, each with the Context of the hold before, and
// unlock the earlier one each time: no earlier hold is kept in memory. Pass on the
// Context itself in such a chain: a context derived from it keeps all earlier holds.
func (h *Hold) Context() context.Context { return h.h.Context() }

// Token returns the fencing token, which is the same for all handles of a reentrant
// hold.
func (h *Hold) Token() Token { return Token(h.h.Token()) }

// Name returns the name of the lock; for several locks, their names as one text for
// people.
func (h *Hold) Name() string { return h.h.Name() }

// Names returns the names of all locks of the hold, usually one.
func (h *Hold) Names() []string { return slices.Clone(h.h.Names()) }

// Kind returns the recipe of the hold, such as "mutex".
func (h *Hold) Kind() string { return h.h.Kind() }

// PreviousDied reports whether a previous holder crashed or lost the lock without
// releasing it; it stays true until a holder releases cleanly. The work of that holder
// may be half done, so repair it first.
//
// A store that has lost data, in a failover for example, may have lost the record of a crash. Then it is
// true for each such lock until the lock has been released once.
//
// It is false where holds are not recorded (see mutex.Options.Robust), and other
// programs' holds are never recorded. A request that only waited is no holder. But if its
// client ends, or is cut off until the session has expired, after the service has received
// the request or let it hold, and before the client has learned that, the request counts as
// a holder: then PreviousDied is true although no caller has held.
func (h *Hold) PreviousDied() bool { return h.h.Past() == engine.PastDied }

// Slot returns the slot of a semaphore's hold: a number, from 0 on, that no other live
// hold of the same semaphore has. Assign parts of the resource by it, and fence each
// part. It is -1 without semaphore.Options.Slots.
func (h *Hold) Slot() int { return h.h.Slot() }

// Mode returns what the hold shares the lock with. A downgrade changes it.
func (h *Hold) Mode() Mode { return modeOf(h.h.Mode()) }

// SessionID returns the service session of the hold, as the service's own tools show
// it.
func (h *Hold) SessionID() string { return h.h.Term().ID() }

// Remaining returns the time until the hold's deadline, and 0 when the hold is over. It
// reads the clock, so it is right even after the process was stopped, when a context
// may be cancelled a moment late. Call it right before an action that cannot be undone.
func (h *Hold) Remaining() time.Duration { return h.h.Remaining() }

// Unlock releases the lock. It takes no context: it waits for at most one second, and
// less if the deadline is nearer. It cancels the hold's context first, so that the work
// stops before another client can hold. A request of this Session that is next may hold before
// Unlock returns.
//
// Unlock returns nil when the service has acknowledged the deletion of the entry.
// ErrReleasePending: it has not yet, and the session repeats the deletion in the
// background. ErrLost: the hold had ended before; if only its entry is gone, Unlock
// first reads whether the session is gone too. If the session ended before the answer
// came, the lock may have been lost before the release, and Unlock returns ErrLost too.
// ErrUnlocked: this handle was unlocked before; nothing was sent.
func (h *Hold) Unlock() error {
	err := h.h.Unlock()
	if lost, ok := err.(*LostError); ok { //nolint:errorlint // it names the lock itself
		return fmt.Errorf("%s: %w", h.Kind(), lost)
	}
	if err != nil {
		return fmt.Errorf("%s: unlock %q: %w", h.Kind(), h.Name(), err)
	}
	return nil
}
