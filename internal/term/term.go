// Package term keeps the service sessions under a session.Session. A term is one of them,
// from its opening to its end. At most one is live; package session has the picture.
//
// # The trust window
//
// The window opens with the first acknowledged renewal. Each further one moves its end, the
// deadline, to the time at which the renewal was sent, plus the TTL, less the margin. When
// the deadline has passed without another one, the window is over, and stays over. The term
// reads the clock wherever it matters, because a timer can be late.
//
// # What ends with a term
//
// A hold is bound to the term on which it was granted. When the term ends, it ends the
// contexts of all that is bound to it, then its own, and only then reports anything. No
// code of a user runs before the last context has ended.
//
// # What is left at the service
//
// The service session is not closed when the term ends: its entries keep other clients out
// for the margin, in which a worker stops. It is closed before it expires when all that was
// bound has been released, because no worker is left then. Requests and holds leave removals
// to the term, which repeats them until they succeed, or until the service session is closed
// or left to expire: that removes everything but records that are not bound to it. So Close
// also waits for requests that may have written such a record.
package term

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// Config is what Terms are opened with. All fields must be set. The functions are called
// from any goroutine, and must not block.
type Config struct {
	Backend driver.Backend
	TTL     time.Duration
	Margin  func(ttl time.Duration) time.Duration // of a TTL that the service gives
	Logger  *slog.Logger                          // as in driver.Config

	ForTools bool // see Terms.Open

	// Cause returns the cause of a term's context when it ends. id is the service session.
	Cause func(id string, why End, err error) error

	// Opened reports that a term is live, with the time to the deadline. It is called first,
	// and under a mutex.
	Opened func(id string, left time.Duration)

	// Renewed reports an acknowledged renewal, with the time to the new deadline.
	Renewed func(id string, left time.Duration)

	// Ended reports the end of a term that was Opened, once, when all contexts have ended
	// that end with it.
	Ended func(id string, why End, cause error)
}

// End is why a term ended.
type End string

// The ends.
const (
	Deadline End = "deadline" // no renewal was acknowledged in time
	Expired  End = "expired"  // the service no longer has the session
	Closed   End = "closed"   // Close was called, or the client under the term was closed
)

// Bound is what ends with a term: a hold. Its methods must not block.
type Bound interface {
	// Lose ends it, for the reason for which the term ends, and reports whether that is new.
	Lose(why End, err error) bool

	// ReportLoss is called after Lose, when everything else has ended too.
	ReportLoss()

	// Held returns its name, and whether its owner has not released it yet.
	Held() (name string, held bool)
}

// Term is one service session, from its opening to its end. It is safe for concurrent use.
//
// A Term is live until the deadline passes, the service reports that it no longer has the
// session, or the Terms are closed. No acknowledgement revives it, however late it comes.
type Term struct {
	of    *Terms
	cfg   *Config
	clock driver.Clock

	// drv is the service session, and id its name. They are set once, before open returns; calls
	// of renew and gone that come earlier find drv nil.
	drv driver.Session
	id  string

	// ctx ends with the term, after the contexts of all that is bound to it. Its cause is ended.
	ctx    context.Context
	cancel context.CancelCauseFunc

	// workers are the goroutines of Go, which begin before the end only, and the jobs of the janitor,
	// which begin before giveUp only. close waits for them when both have passed, so it never waits
	// while one can begin.
	workers sync.WaitGroup
	janitor janitor

	// mu guards what follows. It is never held together with that of Terms. Of the functions of
	// Config, Cause, Margin, Opened and Renewed are called under it.
	mu     sync.Mutex
	window window

	// lag is how old the newest renewal is, at most, when the next one comes. It is the backend's
	// figure, replaced at each renewal.
	lag time.Duration

	// renewed is closed and replaced at each acknowledged renewal, in the step that changes the
	// window. So a caller that has read both at once misses none.
	renewed chan struct{}

	// stopTick stops the timer that reads the clock next; nil before the term was opened.
	stopTick func() bool

	// early is what gone was called with while drv was nil; else nil.
	early error

	// opened: Config.Opened was called, so Config.Ended will be. It never changes after open.
	opened bool

	// ended is the cause of the end, why its kind, and whyErr the service's own error for that, or
	// nil. ended is nil, and why empty, exactly while the term is live. They are set once, before
	// any context ends.
	ended  error
	why    End
	whyErr error

	// bound are the holds that end with the term. Empty when it has ended.
	bound map[Bound]struct{}

	// owed is how many calls of Bind and Owe had no Released yet. When the term has ended, it only
	// falls, and at 0 the service session is closed.
	owed int

	// kept are the names of those of the owed that only wait for their time, see Keep.
	kept []*string

	// unkept is what End has ended, for the log of Close.
	unkept []Bound

	// repaid is closed when the term has ended and owed is 0.
	repaid chan struct{}

	// closing: close was called. closed is closed when the service session is; closeErr may be read
	// then.
	closing  bool
	closed   chan struct{}
	closeErr error

	// engine is what Engine has made; nil before its first call.
	engine any
}

// errEarly is in the error for a term that ended before it was returned.
var errEarly = errors.New("ended while it was being opened")

// open opens a service session, before ctx ends. The trust window counts from the moment at
// which the first request was sent. So a term can end before open returns it, and a service
// session before the backend returns that; the error then wraps driver.ErrUnavailable and
// errEarly. Other errors are those of driver.Backend.Open.
//
//	Backend.Open returned            by then                       open returns
//	an error                         -                             it, ErrSessionOver as errEarly
//	a session                        the service has lost it       errEarly; the term has ended
//	a session                        the deadline has passed       errEarly; the term has ended
//	a session                        the window is open            the live term
//
// drv is set in one step with what the window and early are read for. What the backend reports before
// that step is found there, and what it reports afterwards ends the term by itself: nothing is lost
// between, and Config.Ended is called for no term that was not Opened.
func open(ctx context.Context, of *Terms) (*Term, error) {
	cfg := &of.cfg
	t := &Term{
		of: of, cfg: cfg, clock: of.clock, janitor: newJanitor(), renewed: make(chan struct{}), bound: map[Bound]struct{}{},
		repaid: make(chan struct{}), closed: make(chan struct{}),
	}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	drv, err := cfg.Backend.Open(ctx, driver.Config{
		TTL: cfg.TTL, Margin: cfg.Margin, Renewed: t.renew, Gone: t.gone, Logger: cfg.Logger,
	})
	if err != nil {
		t.cancel(err)
		t.janitor.stop()
		if errors.Is(err, driver.ErrSessionOver) { // it stays below the border: no caller had that session
			err = fmt.Errorf("%w: the session %w: %s", driver.ErrUnavailable, errEarly, err.Error())
		}
		return nil, err //nolint:wrapcheck // the backend's own error
	}
	t.mu.Lock()
	t.drv, t.id = drv, drv.ID()
	left, early := t.window.left(t.clock.Now()), t.early
	t.opened = left > 0 && early == nil
	if t.opened {
		t.tickLater(left)
		cfg.Opened(t.id, left) // under the mutex: before its end
	}
	t.mu.Unlock()
	switch {
	case early != nil:
		t.gone(early)
	case left == 0:
		t.End(Deadline, nil)
	default:
		cfg.Logger.Info("fairlock: session opened", "service", of.info.Service, "session", t.id, "ttl", cfg.TTL)
		return t, nil
	}
	return nil, fmt.Errorf("%w: session %s %w: %w", driver.ErrUnavailable, t.id, errEarly, t.Ended())
}

// renew extends the trust window by an acknowledged request. The driver calls it, possibly
// late, in any order, and before open has returned.
func (t *Term) renew(sent driver.Instant, ttl, lag time.Duration) {
	now := t.clock.Now()
	t.mu.Lock()
	left := t.window.renew(now, sent, ttl, t.cfg.Margin(ttl))
	t.lag = lag
	close(t.renewed)
	t.renewed = make(chan struct{})
	ready := t.drv != nil // else open reads the window itself
	if ready && left > 0 {
		t.cfg.Renewed(t.id, left) // under the mutex: before the end is reported
	}
	t.mu.Unlock()
	if ready && left == 0 {
		t.End(Deadline, nil)
	}
}

// gone ends the term because the service has no such session, or because the client under
// it was closed. The driver calls it, possibly more than once, and before open has returned.
func (t *Term) gone(err error) {
	t.mu.Lock()
	ready := t.drv != nil
	if !ready {
		t.early = err
	}
	t.mu.Unlock()
	switch {
	case !ready: // open calls gone again
	case errors.Is(err, driver.ErrClosed):
		t.End(Closed, err)
	default:
		t.End(Expired, err)
	}
}

// maxTick is how often the term reads the clock, at least. While the machine sleeps, its
// timers stand still and the clock goes on. So a context that should have ended lives for
// at most this long after the sleep.
const maxTick = 500 * time.Millisecond

// tickLater has the clock read when the deadline has come, and now and then before. The
// caller holds t.mu. The timer reads it without the mutex, because Left ends the term if the
// deadline has passed. There is one timer at a time, and none after the end.
func (t *Term) tickLater(left time.Duration) {
	t.stopTick = t.clock.AfterFunc(min(left, maxTick), func() {
		left := t.Left()
		t.mu.Lock()
		defer t.mu.Unlock()
		if left > 0 && t.ended == nil {
			t.tickLater(left)
		}
	})
}

// ID is the service session, as the service's own tools show it.
func (t *Term) ID() string { return t.id }

// Driver is the service session.
func (t *Term) Driver() driver.Session { return t.drv }

// Context ends with the term. Its cause is that of Config.Cause.
func (t *Term) Context() context.Context { return t.ctx }

// Ended returns the cause of the end, nil if the term is live. The cause is known as soon as
// Left is 0; the context ends a moment later.
func (t *Term) Ended() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended
}

// Why returns why the term has ended, with the service's own error or nil; "" if it is live.
func (t *Term) Why() (End, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.why, t.whyErr
}

// Within returns a context that ends with ctx, and with the term, when nothing of the term
// is worth waiting for. Its cause is that of the one that ended.
func (t *Term) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return Either(ctx, t.ctx)
}

// Either returns a context with the values of ctx that ends with ctx, and with other. Its
// cause is that of the one that ended.
func Either(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Left returns the time to the deadline, and 0 when the term is over. It reads the clock,
// because timers fire late in a starved process. If the deadline has passed, it ends the term.
func (t *Term) Left() time.Duration {
	t.mu.Lock()
	left, ended := t.window.left(t.clock.Now()), t.ended != nil
	t.mu.Unlock()
	if left == 0 && !ended {
		t.End(Deadline, nil)
	}
	return left
}

// Least returns the least time to the deadline while the service answers at once: what is
// left when a renewal comes. It depends on the TTL, the margin and the service, and not on how
// fast an answer was.
func (t *Term) Least() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.window.length-t.lag)
}

// Renew has a renewal sent at once, so that it is soon known whether the service still has the
// session. When the deadline has passed it sends none: the term ends then, and nothing extends it.
func (t *Term) Renew() {
	t.mu.Lock()
	left := t.window.left(t.clock.Now())
	t.mu.Unlock()
	if left > 0 {
		t.drv.Renew()
	}
}

// RenewedSince sends a renewal, and reports whether one that was sent at since or later was
// acknowledged before ctx ended. True proves that the service had the session after since.
// False proves nothing.
func (t *Term) RenewedSince(ctx context.Context, since driver.Instant) bool {
	for first := true; ; first = false {
		t.mu.Lock()
		sent, renewed := t.window.sent, t.renewed // in one step, see Term.renewed
		t.mu.Unlock()
		// One that was sent in the instant since may have been sent before what happened then,
		// unless it is the one that is sent below.
		if sent > since || !first && sent == since {
			return true
		}
		if first {
			t.Renew()
		}
		select {
		case <-renewed:
		case <-ctx.Done():
			return false
		}
	}
}

// Go runs f in a goroutine that closing the term waits for. f must end soon after its
// context, which ends with the term. When the term is over, f is not run, and nothing
// reports that: what the caller could do on the term has ended as well.
func (t *Term) Go(f func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.workers.Go(func() { f(t.ctx) })
	}
}

// Engine returns the one value that the engine keeps with the term, made by init at the
// first call.
func (t *Term) Engine(init func(*Term) any) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.engine == nil {
		t.engine = init(t)
	}
	return t.engine
}
