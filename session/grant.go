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
	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// grant is what the handles of a reentrant hold share. It implements term.Bound.
type grant struct {
	door.Grant
	s    *Session
	t    *term.Term
	req  *request
	keep driver.Instant // until when MinHold keeps the entries; 0: not at all

	mu      sync.Mutex
	handles []*Hold // those that were not unlocked
	lost    *LostError
	lostAt  driver.Instant
	asked   map[string]int64 // by name: the token of the newest yield request that was returned, see Asked
}

// newHold implements door.Engine's Grant. The deadline is read once more under the term's
// mutex, so a hold that it returns was live after the grant.
func newHold(ctx context.Context, s *Session, t *term.Term, gr door.Grant) (*Hold, error) {
	g := &grant{Grant: gr, s: s, t: t}
	if g.MinHold > 0 {
		g.keep = s.clock.Now().Add(g.MinHold)
	}
	h := g.handle(ctx, gr.Mode)
	g.handles = append(g.handles, h)
	g.req, _ = gr.Request.(*request)
	err := t.Bind(g, func(left time.Duration) { g.req.grantedTo(h.values, g, left) }) //nolint:contextcheck // it has the values
	if err != nil {
		h.cancel(ErrLost)
		return nil, err //nolint:wrapcheck // a *LostError
	}
	return h, nil
}

// handle makes a handle on g, which the caller puts into g.handles. The handle's context has
// the values of ctx and not its end: a hold ends by Unlock or by a loss, because the work may
// go on after the caller of Lock has stopped waiting.
//
// If ctx is the context of a hold, the handle has the values that the context of that hold
// was made with. Otherwise a chain of holds, each acquired with the context of the one
// before, would keep all of them in memory for as long as the last one.
func (g *grant) handle(ctx context.Context, mode driver.Mode) *Hold {
	h := &Hold{g: g, mode: mode}
	o := fromContext(ctx)
	if o != nil && ctx == o.ctx {
		h.values = o.values
	} else {
		h.values = context.WithoutCancel(ctx)
	}
	h.outer.Store(o)
	for o = h.outer.live(); o != nil; {
		o = o.outer.live() // takes out of the chain what is over
	}
	c, cancel := context.WithCancelCause(h.values)
	h.ctx, h.cancel = context.WithValue(c, holdKey{}, h), cancel
	return h
}

// writes reports whether a handle excludes other holds. The caller holds g.mu.
func (g *grant) writes() bool {
	return slices.ContainsFunc(g.handles, func(h *Hold) bool { return h.mode == driver.Exclusive })
}

// remove takes a handle out of g.handles. The caller holds g.mu.
func (g *grant) remove(h *Hold) {
	g.handles = slices.DeleteFunc(g.handles, func(o *Hold) bool { return o == h })
}

// ended returns how the hold ended for a handle, or, if h is nil, for all its handles. It
// returns nil if the hold has not ended. The caller holds g.mu.
func (g *grant) ended(h *Hold) error {
	switch {
	case g.lost != nil:
		return g.lost
	case len(g.handles) == 0, h != nil && h.unlocked:
		return ErrUnlocked
	}
	return nil
}

// over is ended by the clock, which passes the deadline before a timer may fire.
func (g *grant) over(h *Hold) error {
	left := g.t.Left()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.ended(h); err != nil || left > 0 {
		return err
	}
	return g.lostNow() // the term is about to end the hold
}

// unlock deletes the entries, unless the hold was lost before. It is called once, when the
// last handle is unlocked, with the time that was left to the deadline then, and returns what
// Unlock does:
//
//   - nil: the service has acknowledged the deletion. If MinHold has not passed yet, it has
//     acknowledged the record of the release, if there is one, and the term deletes the
//     entries then;
//   - a *LostError: the hold had ended before, or the service ended the session before it
//     answered;
//   - ErrReleasePending: it is not known whether the entries are gone. The term repeats the
//     deletion, unless it is over: then they end with the service session.
//
// Whatever it returns, the hold counts as released for its term as soon as nothing will be
// sent for it any more.
//
//nolint:contextcheck // releasing is bounded by our own clock
func (g *grant) unlock(lost error, left time.Duration) error {
	t := g.t
	pending := false
	defer func() {
		if !pending {
			t.Released()
		}
	}()
	t.Unbind(g)
	// This context outlives a Close of the Session, which waits for the release. A loss of
	// the term ends it.
	ctx, cancel := driver.WithTimeout(t.Cleaning(), g.s.clock, min(unlockTimeout, left))
	defer cancel()
	if lost == nil && left == 0 { // the deadline passed before its timer fired
		lost = g.lostNow()
	}
	if lost != nil {
		if g.Drop != nil && t.Ended() == nil { // else the entries end with the service session
			t.Clean(g.Drop)
		}
		return g.why(ctx, lost)
	}
	early := time.Duration(0)
	if g.keep > 0 {
		early = max(0, g.keep.Sub(g.s.clock.Now()))
	}
	err := g.send(ctx, early)
	switch {
	case err == nil:
		if pending = early > 0; pending {
			t.Keep(g.Name, early, g.release)
		}
		return nil
	case errors.Is(err, driver.ErrGone):
		if early > 0 && g.Drop != nil { // the others are still there
			t.Clean(g.Drop)
		}
		return g.why(ctx, g.lostError(ReasonDeleted, nil))
	case errors.Is(err, driver.ErrSessionOver):
		t.End(term.Expired, err) // this request may be the first to find that out
	}
	if end := g.lostNow(); end.Reason == ReasonExpired { // perhaps before the Unlock
		return end
	}
	if t.Cleaning().Err() != nil {
		// Not a loss: the hold had ended by Unlock. The entry goes with the session.
		return fmt.Errorf("%w: %s", ErrReleasePending, t.Ended().Error())
	}
	unanswered := fmt.Errorf("%w: %w", ErrReleasePending, err)
	if failpoint.On(failpoint.UnlockGivesUp) {
		return unanswered
	}
	pending = true
	if early > 0 {
		t.Clean(func(ctx context.Context) error { return settled(g.Released(ctx)) })
	}
	t.ReleaseLater(early, g.release)
	return unanswered
}

// send sends the release. If the entries stay for MinHold, it only has the release recorded.
func (g *grant) send(ctx context.Context, early time.Duration) error {
	switch {
	case early == 0:
		return g.Release(ctx)
	case g.Released != nil:
		return g.Released(ctx)
	}
	return nil
}

// release is Release for the term, which repeats it.
func (g *grant) release(ctx context.Context) error { return settled(g.Release(ctx)) }

// settled ignores that entries were gone before: an earlier attempt may have deleted them.
func settled(err error) error {
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
	return err
}

// entryGone ends the hold because another client has deleted its entry.
func (g *grant) entryGone() {
	g.t.Unbind(g)
	if g.lose(ReasonDeleted, nil) {
		g.reportLoss()
	}
}

// Lose implements term.Bound: the hold ends for the reason for which its term ends.
func (g *grant) Lose(cause error) bool {
	end := cause.(*LostError) //nolint:errorlint,forcetypeassert // openTerm makes it
	return g.lose(end.Reason, end.Err)
}

// ReportLoss implements term.Bound.
func (g *grant) ReportLoss() {
	g.reportLoss()
	if failpoint.On(failpoint.EndsInTurn) {
		g.s.reports.Flush()
	}
}

// Held implements term.Bound.
func (g *grant) Held() (name string, held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Name, len(g.handles) > 0
}

// lose ends the hold, once, and reports whether it did: it does not if the last handle was
// unlocked. The caller calls reportLoss when everything has ended that ends together with
// the hold.
func (g *grant) lose(reason Reason, err error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost != nil || len(g.handles) == 0 {
		return false
	}
	g.lost, g.lostAt = g.lostError(reason, err), g.s.clock.Now()
	for _, h := range g.handles {
		h.cancel(g.lost)
	}
	return true
}

// reportLoss logs that the hold was lost, and has the hook called.
func (g *grant) reportLoss() {
	g.mu.Lock()
	lost := g.lost
	g.mu.Unlock()
	g.s.logger.Warn("fairlock: lock lost", "name", g.Name, "token", g.Token, "err", lost)
	g.req.over(lost)
}

// lostError returns the error for a loss of this hold.
func (g *grant) lostError(reason Reason, err error) *LostError {
	return &LostError{Name: g.Name, Token: Token(g.Token), Session: g.t.ID(), Reason: reason, Err: err}
}

// lostNow returns the loss that the end of the term means for this hold.
func (g *grant) lostNow() *LostError {
	if end, ok := errors.AsType[*LostError](g.t.Ended()); ok {
		return g.lostError(end.Reason, end.Err)
	}
	return g.lostError(ReasonDeadline, nil)
}

// why returns the error of Unlock for a lost hold. If the loss began with the entry, why
// finds out whether the entry was deleted alone, or ended with its session: a renewal that
// was sent after the loss and is acknowledged shows that the session lived. It waits for one
// until ctx ends; then the reason stays ReasonDeleted.
func (g *grant) why(ctx context.Context, err error) error {
	lost, ok := errors.AsType[*LostError](err)
	if !ok || lost.Reason != ReasonDeleted {
		return err
	}
	g.mu.Lock()
	since := g.lostAt
	g.mu.Unlock()
	if since == 0 { // Unlock has found it out just now
		since = g.s.clock.Now()
	}
	ctx, cancel := g.t.Within(ctx)
	defer cancel()
	if g.t.RenewedSince(ctx, since) {
		return g.lostError(ReasonEvicted, lost.Err)
	}
	if end := g.lostNow(); end.Reason == ReasonExpired {
		return end
	}
	return lost
}
