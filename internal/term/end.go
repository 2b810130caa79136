package term

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// Bind makes b end with the term. Before that it calls report with the time to the deadline,
// under a mutex, so that the end of b is reported later. If the term is over, Bind returns
// the cause. Otherwise a call of Released must follow when b has left nothing at the service.
func (t *Term) Bind(b Bound, report func(left time.Duration)) error {
	t.mu.Lock()
	left := t.window.left(t.clock.Now())
	alive := t.ended == nil && left > 0
	if alive {
		t.bound[b] = struct{}{}
		t.owed++
		report(left)
	}
	t.mu.Unlock()
	if alive {
		return nil
	}
	t.End(Deadline, nil) // unless it has ended
	return t.Ended()
}

// Unbind takes b out of what ends with the term.
func (t *Term) Unbind(b Bound) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.bound, b)
}

// Binds reports whether f is true for something that is bound.
func (t *Term) Binds(f func(Bound) bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for b := range t.bound {
		if f(b) {
			return true
		}
	}
	return false
}

// Owe has the service session stay open until one more call of Released, unless the term is
// over: then it returns the cause. It is for what may leave something at the service that does
// not end with the service session. A caller without an error owes exactly one Released; after an
// error it owes none.
func (t *Term) Owe() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.owed++
	}
	return t.ended
}

// Released undoes one Bind or Owe: the entries are gone, or left to go with the session. The
// last Released of a term that has ended closes the service session, before that expires.
func (t *Term) Released() {
	t.mu.Lock()
	t.owed--
	last := t.owed == 0 && t.ended != nil
	t.mu.Unlock()
	if last {
		t.closeLater()
	}
}

// End ends the term, once; later calls do nothing. The order matters. First the contexts of
// all holds end, because the service may grant their locks to other clients soon. Then jobs
// are given up, unless Close waits for some. Then the term's own context ends, which waiters
// have: no job begins for them then. Then renewals stop, and at last the end is reported.
//
// The service session is left to expire, so that the holders have the margin to stop in. If
// nothing is owed, it is closed at once.
func (t *Term) End(why End, err error) {
	t.mu.Lock()
	if t.ended != nil {
		t.mu.Unlock()
		return
	}
	cause := t.cfg.Cause(t.id, why, err)
	t.ended, t.why, t.whyErr = cause, why, err
	t.window.over = true
	if t.stopTick != nil {
		t.stopTick()
	}
	bound := slices.Collect(maps.Keys(t.bound))
	clear(t.bound)
	idle := t.owed == 0 // else the last Released closes: after this step owed only falls
	t.mu.Unlock()

	// From here on Left returns 0 and Bind refuses, so nothing new begins on the term.
	holds := len(bound)
	bound = slices.DeleteFunc(bound, func(b Bound) bool { return !b.Lose(why, err) })
	t.mu.Lock()
	t.unkept = bound
	t.mu.Unlock()
	lost := why != Closed || err != nil
	if lost || idle { // else jobs and releases have the margin, see shut
		t.giveUp()
	}
	t.cancel(cause)
	if lost {
		t.drv.Abandon()
	}
	for _, b := range bound {
		b.ReportLoss()
	}
	if why != Closed {
		t.cfg.Logger.Warn("fairlock: session lost", "session", t.id, "holds", holds, "err", cause)
	}
	t.of.drop(t, cause)
	if t.opened {
		t.cfg.Ended(t.id, why, cause)
	}
	if idle {
		t.closeLater()
	}
}

// shut is Terms.Close for one term. Renewals go on until the service session is closed, and
// so can releases. It waits for what is owed, for up to the margin: the holders stop in that time, and
// release. If nothing is owed it does not wait, but for the close that End has begun.
//
//nolint:contextcheck // Close takes no context, it is bounded by our own clock
func (t *Term) shut() error {
	t.End(Closed, nil)
	ctx, cancel := driver.WithTimeout(context.Background(), t.clock, t.cfg.Margin(t.cfg.TTL))
	defer cancel()
	select {
	case <-t.repaid:
	case <-ctx.Done():
		t.reportOwed()
	}
	return t.close()
}

// reportOwed logs what Close has not waited for.
func (t *Term) reportOwed() {
	t.mu.Lock()
	var kept, held []string
	for _, name := range t.kept {
		kept = append(kept, *name)
	}
	others, ended := t.owed-len(kept), t.unkept
	t.mu.Unlock()
	for _, b := range ended {
		name, is := b.Held()
		if is {
			held = append(held, name)
		}
	}
	if len(kept) > 0 {
		t.cfg.Logger.Info("fairlock: session closed before MinHold had passed: others can acquire these locks", "names", listed(kept), "session", t.id)
	}
	if others > 0 {
		t.cfg.Logger.Warn("fairlock: session closed while locks were held or removals were pending", "held", listed(held), "session", t.id)
	}
}

// listed returns the names for a log record, and of many only the first ones.
func listed(names []string) string {
	const most = 8
	more := ""
	n := len(names) - most
	if n > 0 {
		names, more = names[:most], fmt.Sprintf(", and %d more", n)
	}
	return strings.Join(names, ", ") + more
}

// closeLater closes the service session in the background, when the term has ended and
// nothing is owed. That happens once: either End finds nothing owed, or the Released that makes it so
// comes later. It may be called from a job of the janitor, for which close waits: so close has a
// goroutine of its own.
func (t *Term) closeLater() {
	close(t.repaid)
	t.of.track(func() { _ = t.close() })
}

// closeTimeout bounds the closing of a service session.
const closeTimeout = 5 * time.Second

// close closes the service session and waits for the goroutines of the term. It returns
// when the service has answered, at the latest when the session has expired there. Other
// calls wait for the first one: on a channel, because virtual time stands still while a
// goroutine waits for a mutex.
//
//nolint:contextcheck // the caller that finds the term over is not the one that waits for this
func (t *Term) close() error {
	t.mu.Lock()
	first := !t.closing
	t.closing = true
	t.mu.Unlock()
	if first {
		t.giveUp()
		parent := context.Background()
		if !t.opened { // nothing was acquired on it, so no caller of Open or Close has to wait
			parent = t.of.ctx
		}
		ctx, cancel := driver.WithTimeout(parent, t.clock, min(t.cfg.TTL, closeTimeout))
		t.closeErr = t.drv.Close(ctx)
		cancel()
		t.workers.Wait()
		close(t.closed)
	}
	<-t.closed
	return t.closeErr
}
