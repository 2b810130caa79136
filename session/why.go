package session

import (
	"context"
	"errors"

	"github.com/fairlock/fairlock/next/driver"
)

// why returns the reason for a loss that began with the entry: whether the entry
// was deleted alone, or with its session. The context of the hold has ended before.
// The answer is that of the next renewal, for which this waits until ctx ends.
func (g *grant) why(ctx context.Context, err error) error {
	var lost *LostError
	if !errors.As(err, &lost) || lost.Reason != ReasonDeleted {
		return err
	}
	g.mu.Lock()
	since := g.lostAt
	g.mu.Unlock()
	t := g.t
	if since == 0 { // it was found out at this moment
		since = t.s.clock.Now()
	}
	ctx, cancel := t.Within(ctx)
	defer cancel()
	alive := t.renewedSince(ctx, since)
	var end *LostError
	switch {
	case alive:
		return g.lostError(ReasonEvicted, lost.Err)
	case errors.As(context.Cause(t.ctx), &end) && end.Reason == ReasonExpired: //nolint:contextcheck // why the term has ended
		return g.lostError(ReasonExpired, end.Err)
	}
	return lost
}

// renewedSince asks for a renewal, and reports whether one was acknowledged before
// ctx ended that was sent at since or later.
func (t *term) renewedSince(ctx context.Context, since driver.Instant) bool {
	for asked := false; ; asked = true {
		t.mu.Lock()
		// The newest may have been sent in the same instant, before the loss.
		alive := t.proven > since || asked && t.proven == since
		if t.news == nil {
			t.news = make(chan struct{})
		}
		news := t.news
		t.mu.Unlock()
		if alive {
			return true
		}
		if !asked {
			t.drv.Renew()
		}
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}

// inform wakes all who wait for a renewal. The caller holds t.mu.
func (t *term) inform() {
	if t.news != nil {
		close(t.news)
		t.news = nil
	}
}
