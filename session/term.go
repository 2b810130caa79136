package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// term is one service session under a Session, from its opening to its end; it
// implements door.Term. It is safe for concurrent use.
type term struct {
	s       *Session
	drv     driver.Session
	id      string          // of drv
	ctx     context.Context // ends with the term, the cause is a *LostError
	cancel  context.CancelCauseFunc
	workers sync.WaitGroup // the goroutines of Go, and the janitor's
	janitor janitor

	mu       sync.Mutex
	window   window
	renewed  chan struct{} // closed and replaced at each renewal
	stopTick func() bool
	early    error // what gone was called with before the driver's session was known
	opened   bool  // SessionOpened was reported
	ended    *LostError
	grants   map[*grant]struct{} // holds to end with the term
	owed     int                 // holds that were not released yet, or whose release is pending
	repaid   chan struct{}       // closed when the term has ended and owed is 0
	closing  bool                // close was called
	closed   chan struct{}       // closed when the service session is
	closeErr error               // may be read when closed is
	engine   any
}

// openTerm opens a service session. The trust window counts from the first request on.
func openTerm(ctx context.Context, s *Session) (*term, error) {
	t := &term{
		s: s, janitor: newJanitor(), renewed: make(chan struct{}), grants: map[*grant]struct{}{},
		repaid: make(chan struct{}), closed: make(chan struct{}),
	}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	drv, err := s.backend.Open(ctx, driver.Config{
		TTL: s.opts.TTL, Margin: s.margin, Renewed: t.proof, Gone: t.gone, Logger: s.opts.Logger,
	})
	if err != nil {
		t.cancel(err)
		t.janitor.stop()
		return nil, err //nolint:wrapcheck // the backend's own error
	}
	t.mu.Lock()
	t.drv, t.id = drv, drv.ID()
	left, early := t.window.left(s.clock.Now()), t.early
	if t.opened = left > 0 && early == nil; t.opened {
		t.tickLater(left)
		t.report(s.opts.Hooks.SessionOpened, Event{Left: left}) // under the mutex: before its end
	}
	t.mu.Unlock()
	switch {
	case early != nil:
		t.gone(early)
	case left == 0:
		t.end(ReasonDeadline, nil)
	default:
		s.opts.Logger.Info("fairlock: session opened", "service", s.info.Service, "session", t.id, "ttl", s.opts.TTL)
		return t, nil
	}
	return nil, fmt.Errorf("%w: session %s ended while it was being opened: %w", ErrUnavailable, t.id, context.Cause(t.ctx)) //nolint:contextcheck // why the term has ended
}

// report has a hook of the service session called. It never drops the call.
func (t *term) report(hook func(Event), e Event) {
	if hook != nil {
		e.At, e.Session = t.s.clock.Wall(), t.id
		t.s.reports.must(&report{session: hook, event: e})
	}
}

// proof extends the trust window by an acknowledged request. The driver calls it.
func (t *term) proof(sent driver.Instant, ttl time.Duration) {
	now := t.s.clock.Now()
	if failpoint.On(failpoint.DeadlineByReceipt) {
		sent = now
	}
	t.mu.Lock()
	left := t.window.renew(now, sent, ttl, t.s.margin(ttl))
	close(t.renewed)
	t.renewed = make(chan struct{})
	ready := t.drv != nil
	t.mu.Unlock()
	switch {
	case !ready: // openTerm reads the window itself
	case left == 0:
		t.end(ReasonDeadline, nil)
	default:
		if hook := t.s.opts.Hooks.SessionRenewed; hook != nil {
			t.s.reports.add(&report{session: hook, event: Event{At: t.s.clock.Wall(), Session: t.id, Left: left}})
		}
	}
}

// gone ends the term because the service has no such session, or because the client was
// closed. The driver calls it.
func (t *term) gone(err error) {
	t.mu.Lock()
	ready := t.drv != nil
	if !ready {
		t.early = err
	}
	t.mu.Unlock()
	switch {
	case !ready: // openTerm calls gone again
	case errors.Is(err, driver.ErrClosed):
		t.end(ReasonClosed, err)
	default:
		t.end(ReasonExpired, err)
	}
}

// maxTick is how often the term reads the clock, at least. A timer stands still while the
// machine sleeps, and is late by that afterwards; the clock is not. So this is how long
// after a sleep a context may live that should have ended.
const maxTick = 500 * time.Millisecond

// tickLater has the clock read when the deadline has come, and now and then before. The
// caller holds t.mu.
func (t *term) tickLater(left time.Duration) {
	t.stopTick = t.s.clock.AfterFunc(min(left, maxTick), func() {
		left := t.Left()
		t.mu.Lock()
		defer t.mu.Unlock()
		if left > 0 && t.ended == nil {
			t.tickLater(left)
		}
	})
}

// Alive implements door.Term.
func (t *term) Alive() bool { return t.Left() > 0 }

// Left implements door.Term. If the deadline has passed, it ends the term.
func (t *term) Left() time.Duration {
	t.mu.Lock()
	left, ended := t.window.left(t.s.clock.Now()), t.ended != nil
	t.mu.Unlock()
	if left == 0 && !ended {
		t.end(ReasonDeadline, nil)
	}
	return left
}

// end ends the term, once. The order matters: first the contexts of all holds are
// cancelled, then that of the waiters, then renewals stop, and then it is reported. The
// service session is left to expire, so that the holders have the margin, unless no hold
// is left.
func (t *term) end(reason Reason, err error) {
	if failpoint.On(failpoint.LossNotLatched) && reason == ReasonDeadline {
		t.revivable()
		return
	}
	t.mu.Lock()
	if t.ended != nil {
		t.mu.Unlock()
		return
	}
	lost := &LostError{Session: t.id, Reason: reason, Err: err}
	t.ended = lost
	t.window.over = true
	if t.stopTick != nil {
		t.stopTick()
	}
	holds := make([]*grant, 0, len(t.grants))
	for g := range t.grants {
		holds = append(holds, g)
	}
	clear(t.grants)
	idle := t.owed == 0
	t.mu.Unlock()

	if failpoint.On(failpoint.EndsInTurn) {
		t.endInTurn(holds, reason, err)
		holds = nil
	}
	ended := holds[:0]
	for _, g := range holds {
		if g.lose(reason, err) {
			ended = append(ended, g)
		}
	}
	t.cancel(lost)
	t.s.drop(t)
	if reason != ReasonClosed {
		t.giveUp() // after a Close the jobs have the margin, see shut
	}
	if reason != ReasonClosed || err != nil {
		t.drv.Abandon() // while Session.Close waits, releases go on, and need the session
	}
	for _, g := range ended {
		g.reportLoss()
	}
	hook, e := t.s.opts.Hooks.SessionClosed, Event{}
	if reason != ReasonClosed {
		t.s.opts.Logger.Warn("fairlock: session lost", "session", t.id, "holds", len(holds), "err", lost)
		hook, e.Err = t.s.opts.Hooks.SessionLost, lost
	}
	if t.opened {
		t.report(hook, e)
	}
	if idle {
		close(t.repaid)
		t.closeLater()
	}
}

// repay counts a hold as released, and closes the service session early if that was the
// last one of a term that has ended.
func (t *term) repay() {
	t.mu.Lock()
	t.owed--
	last := t.owed == 0 && t.ended != nil
	t.mu.Unlock()
	if last {
		close(t.repaid)
		t.closeLater()
	}
}

// closeTimeout bounds the closing of a service session.
const closeTimeout = 5 * time.Second

// closeLater closes the service session in the background.
func (t *term) closeLater() { t.s.track(func() { _ = t.close() }) }

// close closes the service session and waits for the goroutines of the term. It returns
// when the service has answered, at the latest when the session has expired there. Other
// calls wait for the first one: on a channel, because virtual time stands still while a
// goroutine waits for a mutex.
//
//nolint:contextcheck // the caller that finds the term over is not the one that waits for this
func (t *term) close() error {
	t.mu.Lock()
	first := !t.closing
	t.closing = true
	t.mu.Unlock()
	if first {
		t.giveUp()
		ctx, cancel := driver.WithTimeout(context.Background(), t.s.clock, min(t.s.opts.TTL, closeTimeout))
		t.closeErr = t.drv.Close(ctx)
		cancel()
		t.workers.Wait()
		close(t.closed)
	}
	<-t.closed
	return t.closeErr
}

// shut closes the service session of a term that Session.Close has ended, when its holds
// and their pending releases are over, at the latest when the margin has passed.
func (t *term) shut() error {
	ctx, cancel := driver.WithTimeout(context.Background(), t.s.clock, t.s.opts.Margin)
	defer cancel()
	select {
	case <-t.repaid:
	case <-ctx.Done():
		t.s.opts.Logger.Warn("fairlock: session closed while locks were held or their release was pending", "session", t.id)
	}
	return t.close()
}

// Go implements door.Term.
func (t *term) Go(f func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.workers.Go(func() { f(t.ctx) })
	}
}

// Driver implements door.Term.
func (t *term) Driver() driver.Session { return t.drv }

// Context implements door.Term.
func (t *term) Context() context.Context { return t.ctx }

// Within implements door.Term.
func (t *term) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Engine implements door.Term.
func (t *term) Engine(init func(door.Term) any) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.engine == nil {
		t.engine = init(t)
	}
	return t.engine
}

// renewedSince asks for a renewal, and reports whether one that was sent at since or
// later was acknowledged before ctx ended.
func (t *term) renewedSince(ctx context.Context, since driver.Instant) bool {
	for asked := false; ; asked = true {
		t.mu.Lock()
		sent, renewed := t.window.sent, t.renewed
		t.mu.Unlock()
		// The newest may have been sent in the same instant, before the loss.
		if sent > since || asked && sent == since {
			return true
		}
		if !asked {
			t.drv.Renew()
		}
		select {
		case <-renewed:
		case <-ctx.Done():
			return false
		}
	}
}
