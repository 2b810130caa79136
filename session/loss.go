package session

import (
	"context"
	"errors"
)

// entryGone takes in that somebody else has deleted the hold's entry.
func (h *Hold) entryGone(err error) {
	h.g.t.mu.Lock()
	delete(h.g.t.grants, h.g)
	h.g.t.mu.Unlock()
	if h.g.lose(ReasonDeleted, err) {
		h.g.reportLoss()
	}
}

// lose ends the hold, once, and reports whether it did. The caller reports the loss
// when everything has ended that is to end with it.
func (g *grant) lose(reason Reason, err error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost != nil || len(g.handles) == 0 {
		return false
	}
	lost := g.lostError(reason, err)
	g.lost = lost
	g.lostAt = g.t.s.clock.Now()
	for h := range g.handles {
		h.cancel(lost)
	}
	return true
}

// reportLoss reports that the hold was lost, see lose.
func (g *grant) reportLoss() {
	g.mu.Lock()
	lost := g.lost
	g.mu.Unlock()
	g.t.s.opts.Logger.Warn("fairlock: lock lost", "name", g.Name, "token", g.Token, "err", lost)
	g.req.over(lost)
}

// lostError describes a loss of this hold.
func (g *grant) lostError(reason Reason, err error) *LostError {
	return &LostError{Name: g.Name, Token: Token(g.Token), Session: g.t.drv.ID(), Reason: reason, Err: err}
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
