package session

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/next/driver"
	old "github.com/fairlock/fairlock/session/driver"
)

// connectTimeout bounds Open when its context has no deadline.
const connectTimeout = 5 * time.Second

// Session is what a program opens once and keeps for months. It serves any number of
// locks and goroutines, and survives the loss of its service session. It is safe for
// concurrent use.
type Session struct {
	backend driver.Backend
	info    driver.Info
	clock   driver.Clock
	opts    Options // its logger only adds to reports
	reports *reports
	hooked  bool                                  // hooks are called for requests
	margin  func(ttl time.Duration) time.Duration // of a TTL that the service gives
	meta    old.Meta                              // host, pid and label

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines of this file and of terms

	requests atomic.Uint64 // how many have started, see Event.ID
	observer observer

	mu      sync.Mutex
	closed  bool
	drained bool     // Close waits for the last goroutines
	cur     *term    // the live term, if there is one
	opening *attempt // a term being opened, if there is one
	backoff time.Duration
	lastErr error // why the last attempt failed
	outage  old.Outage
	since   time.Time // when cur was installed or dropped last, by the wall clock
	loss    error     // why it was dropped last
}

// attempt is one try at opening a term; the rest may be read when done is closed.
type attempt struct {
	done chan struct{}
	term *term
	err  error
}

// open opens a Session on a backend, see door.Engine.
func open(ctx context.Context, b driver.Backend, o *Options) (*Session, error) {
	info := b.Info()
	opts, err := o.checked(info)
	if err != nil {
		return nil, driver.JoinErrors(fmt.Errorf("session: open: %w", err), b.Close())
	}
	r := &reports{}
	opts = r.through(opts)
	// A host without a name is still told apart by its pid.
	host, _ := os.Hostname()
	s := &Session{
		backend: b, info: info, clock: info.Clock, opts: opts, reports: r, margin: info.Margin, backoff: minBackoff,
		observer: newObserver(), meta: old.Meta{Host: host, PID: os.Getpid(), Label: opts.Label},
	}
	if o != nil && o.Margin != 0 {
		s.margin = func(time.Duration) time.Duration { return opts.Margin }
	}
	s.hooked = opts.Hooks.requests()
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = driver.WithTimeout(ctx, s.clock, connectTimeout)
		defer cancel()
	}
	t, err := s.openTerm(ctx)
	if err != nil {
		s.cancel()
		s.wg.Wait()
		err = driver.JoinErrors(fmt.Errorf("session: open: %w", err), b.Close())
		r.finish()
		return nil, err
	}
	s.install(t)
	r.flush()
	return s, nil
}

// The backoff between attempts to open a term; see openLater.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// liveTerm returns the live term, opening one if need be, see door.Session.
func (s *Session) liveTerm(ctx context.Context) (*term, error) {
	if !s.opened() {
		return nil, fmt.Errorf("%w: the Session is nil or was never opened", ErrClosed)
	}
	for {
		t, a, err := s.current()
		if t != nil || err != nil {
			return t, err
		}
		select {
		case <-a.done:
			if a.err != nil && driver.Incurable(a.err) {
				return nil, fmt.Errorf("open a session: %w", a.err)
			}
		case <-ctx.Done():
			return nil, s.giveUp(context.Cause(ctx))
		case <-s.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// giveUp is the error of a caller who waited in vain for a term.
func (s *Session) giveUp(cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastErr != nil {
		return fmt.Errorf("open a session: %w: %w", s.lastErr, cause)
	}
	return fmt.Errorf("open a session: %w: %w", ErrUnavailable, cause)
}

// current returns the live term, or the attempt to wait for, which it starts
// if nobody has. Attempts are made only while somebody asks for one.
func (s *Session) current() (*term, *attempt, error) {
	s.mu.Lock()
	t := s.cur
	s.mu.Unlock()
	if t != nil && t.Alive() { // not under s.mu: Alive may end the term
		return t, nil, nil
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, ErrClosed
	}
	if s.cur != nil && s.cur != t { // somebody was faster
		return s.cur, nil, nil
	}
	if s.opening == nil {
		s.opening = &attempt{done: make(chan struct{})}
		a, backoff, wait := s.opening, s.backoff, s.lastErr != nil
		s.wg.Add(1)
		go s.openLater(a, backoff, wait)
	}
	return nil, s.opening, nil
}

// openLater makes one attempt, after the backoff if the last one failed. It
// ends by itself, at the latest with Close.
//
//nolint:contextcheck // it serves all who wait, not the one who came first
func (s *Session) openLater(a *attempt, backoff time.Duration, wait bool) {
	defer s.wg.Done()
	if wait {
		driver.Sleep(s.ctx, s.clock, backoff/2+driver.Jitter(s.clock, backoff/2))
	}
	ctx, cancel := driver.WithTimeout(s.ctx, s.clock, max(s.opts.TTL, connectTimeout))
	defer cancel()
	a.term, a.err = s.openTerm(ctx)
	if s.ctx.Err() == nil { // an attempt that Close cut off says nothing of the service
		s.report(a.err)
	}
	if a.err == nil {
		s.install(a.term)
	}

	s.mu.Lock()
	s.opening, s.lastErr = nil, a.err
	s.backoff = minBackoff
	if a.err != nil {
		s.backoff = min(2*backoff, maxBackoff)
	}
	s.mu.Unlock()
	close(a.done)
}

// install makes t the current term, or ends it if Close came first.
func (s *Session) install(t *term) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.cur, s.since = t, s.clock.Wall()
	}
	s.mu.Unlock()
	if closed {
		t.end(ReasonClosed, nil)
		return
	}
	if !t.Alive() { // it may have ended before it was current
		s.drop(t)
	}
}

// track runs f in a goroutine that Close waits for. After Close nothing is run:
// what f would have tidied up at the service expires there.
func (s *Session) track(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drained {
		return
	}
	s.wg.Go(f)
}

// drop forgets a term that is over.
func (s *Session) drop(t *term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == t {
		s.cur, s.since, s.loss = nil, s.clock.Wall(), context.Cause(t.ctx)
	}
}

// Close ends the Session. It cancels the contexts of all holds, with ReasonClosed, and
// waiting requests return ErrClosed. It then waits, for up to the margin, until holders
// have called Unlock and pending releases are finished, and closes the service session,
// which releases all locks. After an error the service has not acknowledged that, and
// entries stay until the TTL has passed. Further calls do nothing.
func (s *Session) Close() error {
	if !s.opened() {
		return nil
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	t, a := s.cur, s.opening
	s.mu.Unlock()

	s.cancel()
	var err error
	if t != nil {
		t.end(ReasonClosed, nil)
		err = t.shut()
	}
	if a != nil { // a term may have been opened all the same
		<-a.done
		if a.term != nil {
			err = driver.JoinErrors(err, a.term.shut())
		}
	}
	err = driver.JoinErrors(err, s.closeObserver())
	s.mu.Lock()
	s.drained = true
	s.mu.Unlock()
	s.wg.Wait()
	err = driver.JoinErrors(err, s.backend.Close())
	s.reports.finish()
	if err != nil {
		return fmt.Errorf("session: close: %w", err)
	}
	return nil
}

// opened reports whether the Session was made by Open. A nil Session and the zero
// Session behave like a closed one.
func (s *Session) opened() bool { return s != nil && s.backend != nil }

// Options returns the options in force, with defaults filled in.
func (s *Session) Options() Options {
	if !s.opened() {
		return Options{}
	}
	return s.opts
}
