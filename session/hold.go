package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/next/driver"
)

// Hold is a lock that is held. Its methods are safe for concurrent use.
type Hold struct {
	g        *grant
	ctx      context.Context
	cancel   context.CancelCauseFunc
	values   context.Context //nolint:containedctx // what ctx gets its values from, beside the hold
	outer    outer           // the hold that the caller's context came from
	unlocked bool            // under g.mu
	mode     driver.Mode     // under g.mu
	sharing  bool            // a downgrade goes on in the background, or did; under g.mu
}

// grant is what the handles of a reentrant hold share.
type grant struct {
	door.Grant
	t     *term
	req   *request
	since driver.Instant // of the grant

	mu      sync.Mutex
	handles map[*Hold]struct{}
	lost    *LostError
	lostAt  driver.Instant
	asked   map[string]int64 // by name: the newest ask that was told, see Asked
}

// hold makes a Hold of a grant, see door.Engine's Grant.
func (t *term) hold(ctx context.Context, gr door.Grant) (*Hold, error) {
	g := &grant{Grant: gr, t: t, since: t.s.clock.Now(), handles: make(map[*Hold]struct{}, 1)}
	h := g.handle(ctx, gr.Mode)
	g.handles[h] = struct{}{}
	g.req, _ = gr.Request.(*request)
	t.mu.Lock()
	now := t.s.clock.Now()
	alive := t.ended == nil && t.belief.alive(now)
	if alive {
		t.grants[g] = struct{}{}
		t.owed++
		g.req.grantedTo(h.values, g, t.belief.left(now)) //nolint:contextcheck // in here: before its loss
	}
	t.mu.Unlock()
	if !alive {
		h.cancel(ErrLost)
		t.end(ReasonDeadline, nil)
		return nil, context.Cause(t.ctx) //nolint:contextcheck // why the term has ended, not why ctx has
	}
	return h, nil
}

// handle makes a handle on g. Its context has ctx's values and not its end: a
// hold ends by Unlock or by loss, for the work may go on after its caller has
// lost interest. If ctx is that of a hold, its values are taken from what that one
// was made with: or a chain of holds, each taken with the context of the one before,
// would keep all of them for as long as the last one lives.
//
// The caller puts the handle into g.handles.
func (g *grant) handle(ctx context.Context, mode driver.Mode) *Hold {
	h := &Hold{g: g, mode: mode}
	if o := fromContext(ctx); o != nil && ctx == o.ctx {
		h.values = o.values
	} else {
		h.values = context.WithoutCancel(ctx)
	}
	h.outer.set(innermost(ctx))
	c, cancel := context.WithCancelCause(h.values)
	h.ctx, h.cancel = context.WithValue(c, holdKey{}, h), cancel
	return h
}

// reenter returns one more handle on the same hold, with the same token, for
// reentrant recipes. The lock is given back when the last handle is unlocked.
// If the hold is over, the error says how it ended.
//
// A handle of mode Shared on an exclusive hold is that of a writer who reads
// too. When no other handles are left, the entry admits readers.
func (h *Hold) reenter(ctx context.Context, mode driver.Mode) (*Hold, error) {
	g := h.g
	h2 := g.handle(ctx, mode)
	if failpoint.On(failpoint.EntersFirst) {
		h.entersFirst(ctx, h2)
	}
	g.mu.Lock()
	err := h.overErr()
	if err == nil { // in one step: or an Unlock in between would find a handle and release nothing
		g.handles[h2] = struct{}{}
	}
	g.mu.Unlock()
	if err != nil {
		h2.cancel(err)
		return nil, err
	}
	return h2, nil
}

// Context returns the context of the hold. It is cancelled when the lock is lost or
// released; context.Cause then returns a *LostError or ErrReleased. It carries the
// values of the context that was given to Lock, and marks requests made with it as made
// inside this lock.
//
// A program may acquire a chain of locks, each with the Context of the hold before, and
// unlock the earlier one each time: no earlier hold is kept in memory. If the program
// wraps each Context in a context of its own, those are kept, each with its hold, until
// the last one is dropped, as in any chain of contexts.
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
// programs' holds are never recorded. It is rarely true although no holder crashed: a
// waiter that died looks like a holder if it had joined at the very moment of a
// hand-off.
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

// of reports whether the hold is one of that lock, taken through that Session by
// that recipe.
func (h *Hold) of(s *Session, kind, name string) bool {
	return h != nil && h.g != nil && h.g.t.s == s && h.g.Kind == kind && h.g.Name == name
}

// SessionID returns the service session of the hold, as the service's own tools show
// it.
func (h *Hold) SessionID() string { return h.g.t.drv.ID() }

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

// Valid returns Remaining.
//
// Deprecated: use Remaining. Valid will be removed in v0.3.
func (h *Hold) Valid() time.Duration { return h.Remaining() }

// The longest that Unlock waits for the service.
const unlockTimeout = time.Second

// Unlock releases the lock. It takes no context: it waits for at most one second, and
// less if the deadline is nearer. It cancels the hold's context first, so that the work
// stops before another client can hold.
//
// Unlock returns nil when the service has acknowledged the deletion of the entry.
// ErrReleasePending: it has not yet, and the session repeats the deletion in the
// background. ErrLost: the hold had ended before; if only its entry is gone, Unlock
// first reads whether the session is gone too. ErrUnlocked: this handle was unlocked
// before; nothing was sent.
func (h *Hold) Unlock() error {
	g := h.g
	g.mu.Lock()
	if h.unlocked {
		g.mu.Unlock()
		return fmt.Errorf("%s: unlock %q: %w", g.Kind, g.Name, ErrUnlocked)
	}
	h.unlocked = true
	delete(g.handles, h)
	last := len(g.handles) == 0
	shares := !last && h.mode == driver.Exclusive && !g.writes()
	err := g.lostErr()
	g.mu.Unlock()

	h.cancel(ErrReleased)
	switch {
	case last:
		reported := err != nil
		if err = g.giveBack(err); !reported {
			g.req.over(err)
		}
	case shares && err == nil:
		err = g.shareAtLast()
	}
	if lost, ok := err.(*LostError); ok { //nolint:errorlint // it names the lock itself
		return fmt.Errorf("%s: %w", g.Kind, lost)
	}
	if err != nil {
		return fmt.Errorf("%s: unlock %q: %w", g.Kind, g.Name, err)
	}
	return nil
}

// giveBack deletes the entries, unless the hold was lost.
//
//nolint:contextcheck // giving back is bounded by our own clock
func (g *grant) giveBack(lost error) error {
	t := g.t
	pending := false
	defer func() {
		if !pending {
			t.repay()
		}
	}()
	t.mu.Lock()
	delete(t.grants, g)
	t.mu.Unlock()
	left := t.Left()
	// A Close meanwhile waits for the release, as the janitor does.
	ctx, cancel := driver.WithTimeout(t.janitor.ctx, t.s.clock, min(unlockTimeout, left))
	defer cancel()
	if lost == nil && left == 0 { // the deadline passed before its timer fired
		lost = g.lostNow()
	}
	if lost != nil {
		if g.Drop != nil {
			t.Clean(g.Drop)
		}
		return g.why(ctx, lost)
	}
	if early := g.since.Add(g.MinHold).Sub(t.s.clock.Now()); early > 0 {
		pending = true
		t.tidyAfter(early, g.release, t.repay)
		return nil
	}
	err := g.Release(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrGone):
		return g.why(ctx, g.lostError(ReasonDeleted, nil))
	case t.janitor.ctx.Err() != nil:
		// Not a loss: the hold had ended by Unlock. The entry goes with the
		// session.
		return fmt.Errorf("%w: %s", ErrReleasePending, context.Cause(t.ctx).Error())
	}
	unanswered := fmt.Errorf("%w: %w", ErrReleasePending, err)
	if failpoint.On(failpoint.UnlockGivesUp) {
		return unanswered
	}
	pending = true
	t.tidy(g.release, t.repay)
	return unanswered
}

// release is Release for the janitor: that the entries were gone is as good.
func (g *grant) release(ctx context.Context) error {
	if err := g.Release(ctx); err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil
}
