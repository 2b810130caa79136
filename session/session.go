package session

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session/driver"
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
	meta    door.Meta                             // host, pid, label and Options.Holds

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines of this file, and those that close terms

	requests atomic.Uint64 // how many have started, see Event.ID
	observer observer

	mu      sync.Mutex
	closed  bool
	drained bool     // Close waits for the last goroutines
	cur     *term    // the live term, if there is one
	opening *attempt // a term that is being opened, if there is one
	backoff time.Duration
	outage  driver.Outage
	since   time.Time // when cur was set or dropped last, by the wall clock
	down    error     // why there is no live term, as far as that is known: the loss, or the last attempt
}

// attempt opens a term. Its other fields may be read when done is closed.
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
	host, _ := os.Hostname() // for people; without a name the pid still differs
	s := &Session{
		backend: b, info: info, clock: info.Clock, opts: opts, reports: r, margin: info.Margin, hooked: opts.Hooks.requests(),
		observer: observer{turn: make(chan struct{}, 1)}, meta: door.Meta{Host: host, PID: os.Getpid(), Label: opts.Label, Holds: opts.Holds},
	}
	if o != nil && o.Margin != 0 {
		s.margin = func(time.Duration) time.Duration { return opts.Margin }
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = driver.WithTimeout(ctx, s.clock, connectTimeout)
		defer cancel()
	}
	t, err := openTerm(ctx, s)
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

// current returns the live term. If there is none, it returns the attempt to wait for,
// which it starts if need be: attempts are made only while a caller needs a term.
func (s *Session) current() (*term, *attempt, error) {
	s.mu.Lock()
	t := s.cur
	s.mu.Unlock()
	if t != nil && t.Left() > 0 { // not under s.mu: Left may end the term
		return t, nil, nil
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, ErrClosed
	case s.cur != nil && s.cur != t: // another caller was faster
		return s.cur, nil, nil
	case s.opening == nil:
		s.opening = &attempt{done: make(chan struct{})}
		a, backoff := s.opening, s.backoff
		s.wg.Go(func() { s.attempt(a, backoff) })
	}
	return nil, s.opening, nil
}

// The backoff between attempts to open a term.
const (
	minBackoff = 40 * time.Millisecond
	maxBackoff = time.Second
)

// attempt opens a term, after a backoff if the last attempt has failed. It ends by
// itself, at the latest with Close.
//
//nolint:contextcheck // it serves all that wait, not the one that came first
func (s *Session) attempt(a *attempt, backoff time.Duration) {
	if backoff > 0 {
		driver.Sleep(s.ctx, s.clock, backoff/2+driver.Jitter(s.clock, backoff/2))
	}
	ctx, cancel := driver.WithTimeout(s.ctx, s.clock, max(s.opts.TTL, connectTimeout))
	defer cancel()
	a.term, a.err = openTerm(ctx, s)
	if s.ctx.Err() == nil { // an attempt that Close has cut off shows nothing of the service
		s.log(a.err)
	}
	if a.err == nil {
		s.install(a.term)
	}

	s.mu.Lock()
	s.opening, s.backoff = nil, 0
	if a.err != nil {
		s.down, s.backoff = a.err, min(max(2*backoff, minBackoff), maxBackoff)
	}
	s.mu.Unlock()
	close(a.done)
}

// log logs the outcome of an attempt if that is due.
func (s *Session) log(err error) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if due, d := s.outage.Over(now); due {
			s.opts.Logger.Warn("fairlock: the service is reachable again", "service", s.info.Service, "after", d)
		}
		return
	}
	if due, d := s.outage.Failed(now); due {
		s.opts.Logger.Warn("fairlock: cannot open a session", "service", s.info.Service, "for", d, "err", err)
	}
}

// install makes t the current term, or ends it if Close came first.
func (s *Session) install(t *term) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.cur, s.since, s.down = t, s.clock.Wall(), nil
	}
	s.mu.Unlock()
	switch {
	case closed:
		t.end(ReasonClosed, nil)
	case !t.Alive(): // it may have ended before it was current
		s.drop(t)
	}
}

// drop forgets a term that has ended.
func (s *Session) drop(t *term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == t {
		s.cur, s.since, s.down = nil, s.clock.Wall(), context.Cause(t.ctx)
	}
}

// track runs f in a goroutine that Close waits for. After Close it runs nothing: what f
// would remove expires at the service.
func (s *Session) track(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.drained {
		s.wg.Go(f)
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

// Health is the state of a Session, for a readiness probe.
type Health struct {
	// Ready reports whether the Session has a live service session, so that locks can
	// be acquired and those that are held are not in danger.
	Ready bool

	// Since is when Ready last changed, by the wall clock; zero for a Session that was
	// never opened.
	Since time.Time

	// Left is the time to the deadline if no further renewal is acknowledged; 0 if the
	// Session is not ready. It is at most the TTL less the margin, and rises with each
	// renewal, so a value near 0 warns of a loss.
	Left time.Duration

	// Err is why the Session is not ready: how the last service session was lost, why
	// the next one could not be opened, or ErrClosed after Close. It is nil if Ready.
	Err error
}

// Health returns the state of the Session. It sends nothing itself and does not block.
// If the service session was lost, Health starts to open the next one in the
// background, as a request would, so a program that answers its readiness probe with
// Health becomes ready again by itself.
func (s *Session) Health() Health {
	if !s.opened() {
		return Health{Err: ErrClosed}
	}
	t, _, err := s.current()
	var left time.Duration
	if t != nil {
		left = t.Left()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case left > 0 && s.cur == t:
		return Health{Ready: true, Since: s.since, Left: left}
	case err == nil:
		err = s.down
	}
	return Health{Since: s.since, Err: err}
}
