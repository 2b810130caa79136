package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// Token is a fencing token. It comes from the store's own sequence, and within
// one lock tokens rise in the order of grants, over the life of the store. A
// resource is safe only if it refuses every token lower than the highest that
// it has seen, reads included, from the first touch on.
type Token int64

// Grant is what a recipe makes a Hold of.
type Grant struct {
	Name  string       // the lock
	Kind  string       // the recipe
	Token Token        //
	Refs  []driver.Ref // the entries that hold

	// Release deletes the entries. It is idempotent, and its error is that of
	// driver.Session's Leave.
	Release func(ctx context.Context) error
}

// Hold is a lock that is held. Its methods may be called from any goroutine.
type Hold struct {
	g        *grant
	ctx      context.Context
	cancel   context.CancelCauseFunc
	outer    *Hold // the hold that the caller's context came from
	unlocked bool  // under g.mu
}

// grant is what the handles of a reentrant hold share.
type grant struct {
	Grant
	t *Term

	mu      sync.Mutex
	handles map[*Hold]struct{}
	lost    *LostError
}

// Hold makes a Hold of a grant, or says why the term can give none any more:
// the deadline is looked at here once more, because the grant may be old news
// in a starved process. ctx gives the hold's context its values.
func (t *Term) Hold(ctx context.Context, gr Grant) (*Hold, error) {
	g := &grant{Grant: gr, t: t, handles: make(map[*Hold]struct{}, 1)}
	h := g.handle(ctx)
	t.mu.Lock()
	alive := t.ended == nil && t.belief.alive(t.s.clock.Now())
	if alive {
		t.grants[g] = struct{}{}
		t.owed++
	}
	t.mu.Unlock()
	if !alive {
		h.cancel(ErrLost)
		t.end(ReasonDeadline, nil)
		return nil, context.Cause(t.ctx) //nolint:contextcheck // why the term has ended, not why ctx has
	}
	fire(t.s.opts.Hooks.Granted, func() Event { return g.event(nil) })
	return h, nil
}

// handle makes a handle on g. Its context has ctx's values and not its end: a
// hold ends by Unlock or by loss, for the work may go on after its caller has
// lost interest.
func (g *grant) handle(ctx context.Context) *Hold {
	h := &Hold{g: g, outer: fromContext(ctx)}
	c, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	h.ctx, h.cancel = context.WithValue(c, holdKey{}, h), cancel
	g.mu.Lock()
	g.handles[h] = struct{}{}
	g.mu.Unlock()
	return h
}

// Reenter returns one more handle on the same hold, with the same token, for
// reentrant recipes. The lock is given back when the last handle is unlocked.
// If the hold is over, the error says how it ended.
func (h *Hold) Reenter(ctx context.Context) (*Hold, error) {
	g := h.g
	h2 := g.handle(ctx)
	g.mu.Lock()
	err := g.lostErr()
	if h.unlocked && err == nil {
		err = ErrUnlocked
	}
	if err != nil {
		delete(g.handles, h2)
	}
	g.mu.Unlock()
	if err != nil {
		h2.cancel(err)
		return nil, err
	}
	return h2, nil
}

// Context ends when the lock is lost or given back; context.Cause then is a
// *LostError, or ErrUnlocked. It carries the values of the context that was
// given to Lock, and marks its user as being inside this lock.
func (h *Hold) Context() context.Context { return h.ctx }

// Token is the fencing token, the same for all handles of a reentrant hold.
func (h *Hold) Token() Token { return h.g.Token }

// Name is the name of the lock.
func (h *Hold) Name() string { return h.g.Name }

// Kind is the recipe that gave the hold: "mutex".
func (h *Hold) Kind() string { return h.g.Kind }

// Refs names the entries behind the hold, for guarded writes to the same
// store. Do not change it.
func (h *Hold) Refs() []driver.Ref { return h.g.Refs }

// Service is the name of the service that gave the hold: "etcd".
func (h *Hold) Service() string { return h.g.t.s.profile.Service }

// Valid returns how long the hold is still good for if nothing more is heard
// of the service, and 0 when it is over. It reads the clock, so it is right
// also after the process was stopped, where a context may end a moment late.
// Call it right before doing what cannot be undone.
func (h *Hold) Valid() time.Duration {
	left := h.g.t.Left()
	h.g.mu.Lock()
	defer h.g.mu.Unlock()
	if h.g.lost != nil || h.unlocked {
		return 0
	}
	return left
}

// The longest that Unlock waits for the service.
const unlockTimeout = time.Second

// Unlock gives the lock back. It needs no context: it waits for at most one
// second, and less if the deadline is nearer. The hold's context ends first,
// so that the work has stopped before anybody else can start.
//
// Nil means that the delete is acknowledged. ErrReleasePending: it is not, and
// is being finished in the background. ErrLost: the hold had ended before.
// ErrUnlocked: this handle was unlocked before; nothing was sent.
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
	err := g.lostErr()
	g.mu.Unlock()

	h.cancel(ErrUnlocked)
	if last {
		err = g.giveBack(err)
		fire(g.t.s.opts.Hooks.Released, func() Event { return g.event(err) })
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
	defer t.repay()
	t.mu.Lock()
	delete(t.grants, g)
	t.mu.Unlock()
	left := t.Left()
	if lost == nil && left == 0 { // the deadline passed before its timer fired
		lost = g.lostNow()
	}
	if lost != nil {
		return lost
	}
	ctx, cancel := driver.WithTimeout(t.ctx, t.s.clock, min(unlockTimeout, left))
	defer cancel()
	err := g.Release(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrGone):
		return g.lostError(ReasonDeleted, nil)
	case t.ctx.Err() != nil:
		// Not a loss: the hold had ended by Unlock. The entry goes with the
		// session.
		return fmt.Errorf("%w: %s", ErrReleasePending, context.Cause(t.ctx).Error())
	}
	t.Clean(func(ctx context.Context) error {
		if err := g.Release(ctx); err != nil && !errors.Is(err, driver.ErrGone) {
			return err
		}
		return nil
	})
	return fmt.Errorf("%w: %w", ErrReleasePending, err)
}

// EntryGone tells the hold that its entry was deleted by somebody else.
func (h *Hold) EntryGone(err error) {
	h.g.t.mu.Lock()
	delete(h.g.t.grants, h.g)
	h.g.t.mu.Unlock()
	h.g.lose(ReasonDeleted, err)
}

// lose ends the hold, once.
func (g *grant) lose(reason Reason, err error) {
	g.mu.Lock()
	if g.lost != nil || len(g.handles) == 0 {
		g.mu.Unlock()
		return
	}
	lost := g.lostError(reason, err)
	g.lost = lost
	for h := range g.handles {
		h.cancel(lost)
	}
	g.mu.Unlock()
	g.t.s.opts.Logger.Warn("fairlock: lock lost", "name", g.Name, "token", int64(g.Token), "err", lost)
	fire(g.t.s.opts.Hooks.Lost, func() Event { return g.event(lost) })
}

// lostError describes a loss of this hold.
func (g *grant) lostError(reason Reason, err error) *LostError {
	return &LostError{Name: g.Name, Token: g.Token, Session: g.t.drv.ID(), Reason: reason, Err: err}
}

// lostNow is the loss that the end of the term means for this hold.
func (g *grant) lostNow() error {
	var e *LostError
	if errors.As(context.Cause(g.t.ctx), &e) {
		return g.lostError(e.Reason, e.Err)
	}
	return g.lostError(ReasonDeadline, nil)
}

// lostErr is g.lost as an error, nil if there is none. The caller holds g.mu.
func (g *grant) lostErr() error {
	if g.lost == nil {
		return nil
	}
	return g.lost
}

// event describes the hold to a hook.
func (g *grant) event(err error) Event {
	return Event{Name: g.Name, Kind: g.Kind, Session: g.t.drv.ID(), Token: g.Token, Left: g.t.Left(), Err: err}
}
