package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// grant is what the handles of a reentrant hold share.
type grant struct {
	door.Grant
	t     *term
	req   *request
	since driver.Instant // of the grant

	mu      sync.Mutex
	handles map[*Hold]struct{} // those that were not unlocked
	lost    *LostError
	lostAt  driver.Instant
	asked   map[string]int64 // by name: the token of the newest yield request that was returned, see Asked
}

// newHold implements door.Engine's Grant.
func newHold(ctx context.Context, dt door.Term, gr door.Grant) (*Hold, error) {
	t := dt.(*term) //nolint:forcetypeassert // there is no other
	g := &grant{Grant: gr, t: t, since: t.s.clock.Now(), handles: make(map[*Hold]struct{}, 1)}
	h := g.handle(ctx, gr.Mode)
	g.handles[h] = struct{}{}
	g.req, _ = gr.Request.(*request)
	t.mu.Lock()
	left := t.window.left(t.s.clock.Now())
	alive := t.ended == nil && left > 0
	if alive {
		t.grants[g] = struct{}{}
		t.owed++
		g.req.grantedTo(h.values, g, left) //nolint:contextcheck // under the mutex: before its loss
	}
	t.mu.Unlock()
	if !alive {
		h.cancel(ErrLost)
		t.end(ReasonDeadline, nil)
		return nil, context.Cause(t.ctx) //nolint:contextcheck // why the term has ended, not why ctx has
	}
	return h, nil
}

// handle makes a handle on g. Its context has ctx's values and not its end: a hold ends by
// Unlock or by loss, because the work may go on after its caller has stopped waiting. If
// ctx is that of a hold, the handle takes the values from what that one was made with:
// otherwise a chain of holds, each acquired with the context of the one before, would keep
// all of them for as long as the last one lives.
//
// The caller puts the handle into g.handles.
func (g *grant) handle(ctx context.Context, mode driver.Mode) *Hold {
	h := &Hold{g: g, mode: mode}
	o := fromContext(ctx)
	if o != nil && ctx == o.ctx {
		h.values = o.values
	} else {
		h.values = context.WithoutCancel(ctx)
	}
	h.outer.Store(o)
	h.outer.live()
	c, cancel := context.WithCancelCause(h.values)
	h.ctx, h.cancel = context.WithValue(c, holdKey{}, h), cancel
	return h
}

func (g *grant) names() []string {
	if len(g.Names) > 0 {
		return g.Names
	}
	return []string{g.Name}
}

// writes reports whether a handle excludes other holds. The caller holds g.mu.
func (g *grant) writes() bool {
	for h := range g.handles {
		if h.mode == driver.Exclusive {
			return true
		}
	}
	return false
}

// giveBack deletes the entries, unless the hold was lost. It returns what Unlock does.
//
//nolint:contextcheck // releasing is bounded by our own clock
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
	// If Session.Close is called meanwhile, it waits for the release, as the janitor does.
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
		t.tidy(early, g.release, t.repay)
		return nil
	}
	err := g.Release(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrGone):
		return g.why(ctx, g.lostError(ReasonDeleted, nil))
	case t.janitor.ctx.Err() != nil:
		// Not a loss: the hold had ended by Unlock. The entry goes with the session.
		return fmt.Errorf("%w: %s", ErrReleasePending, context.Cause(t.ctx).Error())
	}
	unanswered := fmt.Errorf("%w: %w", ErrReleasePending, err)
	if failpoint.On(failpoint.UnlockGivesUp) {
		return unanswered
	}
	pending = true
	t.tidy(0, g.release, t.repay)
	return unanswered
}

// release is Release for the janitor: for it, entries that were gone before are released.
func (g *grant) release(ctx context.Context) error {
	if err := g.Release(ctx); err != nil && !errors.Is(err, driver.ErrGone) {
		return err
	}
	return nil
}

// entryGone ends the hold because another client has deleted its entry.
func (g *grant) entryGone(err error) {
	g.t.mu.Lock()
	delete(g.t.grants, g)
	g.t.mu.Unlock()
	if g.lose(ReasonDeleted, err) {
		g.reportLoss()
	}
}

// lose ends the hold, once, and reports whether it did. The caller calls reportLoss when
// everything has ended that ends together with the hold.
func (g *grant) lose(reason Reason, err error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost != nil || len(g.handles) == 0 {
		return false
	}
	g.lost, g.lostAt = g.lostError(reason, err), g.t.s.clock.Now()
	for h := range g.handles {
		h.cancel(g.lost)
	}
	return true
}

// reportLoss logs that the hold was lost, and has the hook called.
func (g *grant) reportLoss() {
	g.mu.Lock()
	lost := g.lost
	g.mu.Unlock()
	g.t.s.opts.Logger.Warn("fairlock: lock lost", "name", g.Name, "token", g.Token, "err", lost)
	g.req.over(lost)
}

// lostError describes a loss of this hold.
func (g *grant) lostError(reason Reason, err error) *LostError {
	return &LostError{Name: g.Name, Token: Token(g.Token), Session: g.t.id, Reason: reason, Err: err}
}

// lostNow is the loss that the end of the term means for this hold.
func (g *grant) lostNow() *LostError {
	if end, ok := errors.AsType[*LostError](context.Cause(g.t.ctx)); ok {
		return g.lostError(end.Reason, end.Err)
	}
	return g.lostError(ReasonDeadline, nil)
}

// why returns the reason of a loss that began with the entry: whether the entry was
// deleted alone, or with its session. It waits for the answer to a renewal, until ctx
// ends. The context of the hold has ended before.
func (g *grant) why(ctx context.Context, err error) error {
	lost, ok := errors.AsType[*LostError](err)
	if !ok || lost.Reason != ReasonDeleted {
		return err
	}
	t := g.t
	g.mu.Lock()
	since := g.lostAt
	g.mu.Unlock()
	if since == 0 { // Unlock has found it out just now
		since = t.s.clock.Now()
	}
	ctx, cancel := t.Within(ctx)
	defer cancel()
	if t.renewedSince(ctx, since) {
		return g.lostError(ReasonEvicted, lost.Err)
	}
	if end := g.lostNow(); end.Reason == ReasonExpired { //nolint:contextcheck // why the term has ended
		return end
	}
	return lost
}
