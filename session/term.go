package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/next/driver"
	old "github.com/fairlock/fairlock/session/driver"
)

// term is one service session under a Session, from its opening to its end; it
// implements door.Term. It is safe for concurrent use.
type term struct {
	s      *Session
	drv    driver.Session
	id     string          // of drv
	ctx    context.Context // ends with the term, the cause is a *LostError
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	belief   belief
	proven   driver.Instant // when the newest acknowledged renewal was sent
	news     chan struct{}  // closed at the next renewal; nil if nobody waits
	stopTick func() bool
	opened   bool // SessionOpened was reported
	ended    *LostError
	grants   map[*grant]struct{} // held, and to be told of a loss
	owed     int                 // holds that were not given back yet, or whose release is pending
	repaid   chan struct{}       // closed when the term has ended and owed is 0
	closing  bool                // somebody closes the service session
	closed   chan struct{}       // closed when that is done
	closeErr error
	workers  sync.WaitGroup // the goroutines of Go
	janitor  janitor
	engine   any
}

// openTerm opens a service session. Its proofs are counted from the first
// request on.
func (s *Session) openTerm(ctx context.Context) (*term, error) {
	t := &term{
		s: s, grants: map[*grant]struct{}{},
		repaid: make(chan struct{}), closed: make(chan struct{}),
	}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	t.janitor.ctx, t.janitor.stop = context.WithCancel(context.Background())
	t.janitor.resting = map[*job]func() bool{}
	drv, err := s.backend.Open(ctx, driver.Config{
		TTL: s.opts.TTL, Margin: s.margin, Renewed: t.proof, Gone: t.gone, Logger: s.opts.Logger,
	})
	if err != nil {
		t.cancel(err)
		t.janitor.stop()
		return nil, err
	}
	t.mu.Lock()
	t.drv, t.id = drv, drv.ID()
	left := t.belief.left(s.clock.Now())
	early := t.ended
	if left > 0 && early == nil {
		t.tickLater(left)
		t.opened = true
		t.report(s.opts.Hooks.SessionOpened, Event{Left: left}) // in here: before its end
	}
	t.mu.Unlock()
	if left == 0 || early != nil {
		t.end(ReasonDeadline, nil)
		t.mu.Lock()
		defer t.mu.Unlock()
		return nil, fmt.Errorf("%w: session %s ended while it was being opened: %w", ErrUnavailable, drv.ID(), t.ended)
	}
	s.opts.Logger.Info("fairlock: session opened", "service", s.info.Service, "session", drv.ID(), "ttl", s.opts.TTL)
	return t, nil
}

// report has a hook of the service session called.
func (t *term) report(hook func(Event), e Event) {
	if hook != nil {
		e.At, e.Session = t.s.clock.Wall(), t.id
		t.s.reports.must(&report{session: hook, event: e})
	}
}

// proof takes in an acknowledged request. It is the driver's callback.
func (t *term) proof(sent driver.Instant, ttl time.Duration) {
	now := t.s.clock.Now()
	if failpoint.On(failpoint.DeadlineByReceipt) {
		sent = now
	}
	t.mu.Lock()
	ok := t.belief.prove(now, sent, ttl, t.s.margin(ttl))
	t.proven = max(t.proven, sent)
	t.inform()
	left, ready := t.belief.left(now), t.drv != nil
	t.mu.Unlock()
	switch {
	case !ready: // openTerm looks at the belief itself
	case ok:
		if hook := t.s.opts.Hooks.SessionRenewed; hook != nil {
			t.s.reports.add(&report{session: hook, event: Event{At: t.s.clock.Wall(), Session: t.id, Left: left}})
		}
	default:
		t.end(ReasonDeadline, nil)
	}
}

// gone takes in the service's word that it has no such session, or that the client
// was closed. It is the driver's callback.
func (t *term) gone(err error) {
	reason := ReasonExpired
	if errors.Is(err, driver.ErrClosed) {
		reason = ReasonClosed
	}
	t.mu.Lock()
	ready := t.drv != nil
	if !ready && t.ended == nil {
		t.ended = &LostError{Reason: reason, Err: err}
	}
	t.mu.Unlock()
	if ready {
		t.end(reason, err)
	}
}

// maxTick is how often the deadline is looked at, at least. A timer stands still
// while the machine sleeps, and is late by that afterwards; the clock is not. So
// this is how long after a sleep a context may live that should have ended.
const maxTick = 500 * time.Millisecond

// tickLater looks at the deadline again when it is due, and now and then before.
// The caller holds t.mu.
func (t *term) tickLater(left time.Duration) {
	t.stopTick = t.s.clock.AfterFunc(min(left, maxTick), t.tick)
}

// tick ends the term at its deadline.
func (t *term) tick() {
	t.mu.Lock()
	if t.ended != nil {
		t.mu.Unlock()
		return
	}
	left := t.belief.left(t.s.clock.Now())
	if left > 0 {
		t.tickLater(left)
	}
	t.mu.Unlock()
	if left == 0 {
		t.end(ReasonDeadline, nil)
	}
}

// Alive says whether the term is believed in at this moment. It reads the
// clock, because timers fire late in a starved process.
func (t *term) Alive() bool { return t.Left() > 0 }

// Left is the time to the deadline; 0 when the term is over.
func (t *term) Left() time.Duration {
	t.mu.Lock()
	left, ended := t.belief.left(t.s.clock.Now()), t.ended != nil
	t.mu.Unlock()
	if left == 0 && !ended {
		t.end(ReasonDeadline, nil)
	}
	return left
}

// end ends the term, once. The order matters: the contexts of all holds end first,
// then that of the waiters, then renewals stop, and then it is reported. The
// service session is left to expire, so that the holders have the margin, unless
// none of them is left.
func (t *term) end(reason Reason, err error) {
	if failpoint.On(failpoint.LossNotLatched) && reason == ReasonDeadline {
		t.revivable()
		return
	}
	t.mu.Lock()
	if t.ended != nil && t.ended.Session != "" {
		t.mu.Unlock()
		return
	}
	if t.ended != nil { // gone came before the driver was known
		reason, err = t.ended.Reason, t.ended.Err
	}
	lost := &LostError{Session: t.drv.ID(), Reason: reason, Err: err}
	t.ended = lost
	t.belief.over = true
	if t.stopTick != nil {
		t.stopTick()
	}
	told := make([]*grant, 0, len(t.grants))
	for g := range t.grants {
		told = append(told, g)
	}
	clear(t.grants)
	idle, opened := t.owed == 0, t.opened
	t.mu.Unlock()

	if failpoint.On(failpoint.EndsInTurn) {
		t.endInTurn(told, reason, err)
		told = nil
	}
	ended := told[:0]
	for _, g := range told {
		if g.lose(reason, err) {
			ended = append(ended, g)
		}
	}
	t.cancel(lost)
	t.s.drop(t)
	if reason != ReasonClosed || err != nil {
		t.drv.Abandon() // while Session.Close waits, releases go on, and need the session
	}
	for _, g := range ended {
		g.reportLoss()
	}
	if reason != ReasonClosed {
		t.janitor.giveUp() // after a Close it has the margin, see shut
		t.s.opts.Logger.Warn("fairlock: session lost", "session", lost.Session, "holds", len(told), "err", lost)
	}
	switch {
	case !opened:
	case reason == ReasonClosed:
		t.report(t.s.opts.Hooks.SessionClosed, Event{})
	default:
		t.report(t.s.opts.Hooks.SessionLost, Event{Err: lost})
	}
	if idle {
		close(t.repaid)
		t.closeLater()
	}
}

// repay notes that a hold was given back, and closes the service session early
// if it was the last one of a term that is over.
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

// closeLater closes the service session in the background. The goroutine ends
// when the service has answered, at the latest when it has expired there.
//
//nolint:contextcheck // whoever finds the term over is not the one who waits for this
func (t *term) closeLater() {
	t.mu.Lock()
	mine := !t.closing
	t.closing = true
	t.mu.Unlock()
	if !mine {
		return
	}
	t.janitor.giveUp()
	t.s.track(func() {
		ctx, cancel := driver.WithTimeout(context.Background(), t.s.clock, min(t.s.opts.TTL, closeTimeout))
		defer cancel()
		t.closeErr = t.drv.Close(ctx)
		close(t.closed)
		t.workers.Wait()
	})
}

// Go runs f in a goroutine that Session.Close waits for. f must end soon after
// its context, which ends with the term. When the term is over, f is not run.
func (t *term) Go(f func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		return
	}
	t.workers.Go(func() {
		f(t.ctx)
	})
}

// closeTimeout bounds the closing of a service session.
const closeTimeout = 5 * time.Second

// shut waits for the holds of a term that Close has ended, and for their pending
// releases, up to the margin, and closes the service session.
func (t *term) shut() error {
	ctx, cancel := driver.WithTimeout(context.Background(), t.s.clock, t.s.opts.Margin)
	defer cancel()
	select {
	case <-t.repaid:
	case <-ctx.Done():
		t.s.opts.Logger.Warn("fairlock: session closed while locks were held or their release was pending", "session", t.drv.ID())
	}
	t.closeLater()
	<-t.closed
	return t.closeErr
}

// Driver is the service session of a backend of the old contract.
func (t *term) Driver() old.Session {
	return door.OldSession(t.drv)
}

// Next is the service session of a backend of the next contract.
func (t *term) Next() driver.Session {
	if door.OldSession(t.drv) != nil {
		return nil
	}
	return t.drv
}

// Context ends with the term; its cause is a *LostError.
func (t *term) Context() context.Context { return t.ctx }

// Within returns a context that ends with ctx, and with the term, when nothing
// of the term's is worth waiting for. Its cause is that of the one that ended.
func (t *term) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Engine returns the one value that the engine keeps with the term, made by
// init at the first call.
func (t *term) Engine(init func(door.Term) any) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.engine == nil {
		t.engine = init(t)
	}
	return t.engine
}
