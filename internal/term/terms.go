package term

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// openTimeout bounds the opening of the first term, and every call that does not wait for a
// lock, if its context has no deadline. It also bounds the opening of each later term unless
// the TTL is longer.
const openTimeout = 5 * time.Second

// Terms are the terms of one session.Session, one after another: at most one is live. The
// first is opened by Open, and each further one when a caller needs it. Terms is safe for
// concurrent use.
type Terms struct {
	cfg      Config
	info     driver.Info
	clock    driver.Clock
	observer *observer

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup // attempts, and what closes terms

	// mu guards what follows. It is never held together with that of a Term.
	mu sync.Mutex

	// closed: Close was called, so no attempt begins. drained: Close waits for the last goroutines,
	// so none of wg begins. Never reset.
	closed, drained bool

	// cur is the live term; nil if there is none. It may have ended a moment ago.
	cur *Term

	// opening is the term that is being opened; nil if none is. All callers that need one wait for it.
	opening *attempt

	// backoff has the pauses between attempts that fail, and pause is the one before the next attempt:
	// 0 if the last one has succeeded.
	backoff driver.Backoff
	pause   time.Duration

	// outage decides which attempts are logged.
	outage driver.Outage

	// since is when cur was set or dropped last, by the wall clock. While cur is nil, lost is how the
	// last term ended, and failed why the last attempt since then has failed, nil if none has. Both
	// are nil while there is a live term.
	since  time.Time
	lost   error
	failed error
}

// attempt opens a term. Its other fields may be read when done is closed.
type attempt struct {
	done chan struct{}
	term *Term
	err  error
}

// New returns Terms of which none is open. Nothing is sent.
func New(cfg Config) *Terms {
	info := cfg.Backend.Info()
	s := &Terms{cfg: cfg, info: info, clock: info.Clock, backoff: driver.Backoff{Least: minBackoff, Most: maxBackoff, Spread: true}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.observer = newObserver(s)
	return s
}

// Open opens the first term, before ctx ends. If a term ends while it is being opened,
// because the machine or the network stood still for the length of the trust window, Open
// opens another one. After an error the Terms are closed, and a service session whose closing
// is not acknowledged yet is left to expire. If Config.ForTools is set, a service that takes no new
// sessions, or not of this login, is no error: Read works without a term, if the service allows it.
func (s *Terms) Open(ctx context.Context) error {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	backoff := driver.Backoff{Least: minBackoff, Most: maxBackoff}
	for {
		t, err := open(ctx, s)
		if err == nil {
			s.install(t)
			return nil
		}
		if s.cfg.ForTools && (errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrDenied)) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.failed, s.since = err, s.clock.Wall()
			return nil
		}
		if !errors.Is(err, errEarly) || !backoff.Sleep(ctx, s.clock) {
			s.cancel(driver.ErrClosed)
			s.wg.Wait()
			return err
		}
	}
}

// Bounded returns a context for a call that does not wait for a lock: ctx, which ends at the
// latest after openTimeout if it has no deadline.
func (s *Terms) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	_, ok := ctx.Deadline()
	if ok {
		return ctx, func() {}
	}
	return driver.WithTimeout(ctx, s.clock, openTimeout)
}

// Live returns the live term. If there is none, it waits for one for as long as ctx lets it,
// and gives up at once where waiting cannot help: then the error wraps driver.ErrClosed,
// ErrDenied or ErrRefused. Otherwise it wraps the cause of ctx and driver.ErrUnavailable, or
// the error of the last attempt.
//
// The term may end at any moment. What is sent on it then fails with driver.ErrSessionOver.
func (s *Terms) Live(ctx context.Context) (*Term, error) {
	for {
		t, a, err := s.next()
		if t != nil || err != nil {
			return t, err
		}
		select {
		case <-a.done:
			if a.err != nil && driver.Incurable(a.err) {
				return nil, fmt.Errorf("open a session: %w", a.err)
			}
		case <-ctx.Done():
			s.mu.Lock()
			defer s.mu.Unlock()
			why := s.failed
			if why == nil || errors.Is(why, errEarly) {
				why = driver.ErrUnavailable
			}
			return nil, fmt.Errorf("open a session: %w: %w", why, context.Cause(ctx))
		case <-s.ctx.Done():
			return nil, driver.ErrClosed
		}
	}
}

// Current returns the live term, or nil. It sends nothing, and opens none.
func (s *Terms) Current() *Term {
	s.mu.Lock()
	t := s.cur
	s.mu.Unlock()
	if t == nil || t.Left() == 0 { // not under s.mu: Left may end the term
		return nil
	}
	return t
}

// Health returns the time to the deadline, and since when there is a live term. If there is
// none, the time is 0, since is from when on, and the error is the reason: the end of the
// last term, or the error of an attempt since then. Health then has the next term opened in
// the background.
//
//	there is                                       the error
//	a live term, still the current one             nil
//	none, and Close was called                     driver.ErrClosed
//	none, and an attempt has failed since the end  the error of the newest one
//	none, and no attempt has failed                the cause of the end
//	a term that ends at this moment                its cause if it is known, else ErrUnavailable
//
// A term that was opened during the call is looked at once more.
func (s *Terms) Health() (left time.Duration, since time.Time, err error) {
	s.mu.Lock()
	before := s.cur
	s.mu.Unlock()
	t, _, err := s.next()
	if t != nil {
		left = t.Left()
	}
	ending := driver.ErrUnavailable
	if before != nil {
		ending = cmp.Or(before.Ended(), ending)
	}
	s.mu.Lock()
	if s.cur != nil && s.cur != t && s.cur != before { // opened a moment ago
		s.mu.Unlock()
		return s.Health()
	}
	defer s.mu.Unlock()
	switch {
	case left > 0 && s.cur == t:
		return left, s.since, nil
	case err != nil:
	case s.failed != nil:
		err = s.failed
	case s.lost != nil:
		err = s.lost
	default: // the term is ending at this moment
		err = ending
	}
	return 0, s.since, err
}

// Read calls f with a service session that can read: that of the live term, or an observer,
// which is opened if need be. So a read needs no live term, and tools work also where the
// service takes no new sessions. f may be called again with another one. It gets ctx as
// Bounded returns it.
func (s *Terms) Read(ctx context.Context, f func(context.Context, driver.Session) error) error {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	t := s.Current()
	if t != nil {
		err := f(ctx, t.drv)
		if !errors.Is(err, driver.ErrSessionOver) {
			return err
		}
	}
	return s.observer.do(ctx, f)
}

// next returns the live term. If there is none, it returns the attempt to wait for, and
// starts one if none is under way: attempts are made only while a caller needs a term.
func (s *Terms) next() (*Term, *attempt, error) {
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
		return nil, nil, driver.ErrClosed
	case s.cur != nil && s.cur != t: // another caller was faster
		return s.cur, nil, nil
	case s.opening == nil:
		s.opening = &attempt{done: make(chan struct{})}
		a, pause := s.opening, s.pause
		s.wg.Go(func() { s.attempt(a, pause) })
	}
	return nil, s.opening, nil
}

// The backoff between attempts to open a term.
const (
	minBackoff = 40 * time.Millisecond
	maxBackoff = time.Second
)

// attempt opens a term, after a pause if the last attempt has failed. It serves all callers
// that wait, so no caller's context bounds it: its own timeout does, and Close.
//
// The term is current before opening is nil, and both before done is closed. So a caller that comes
// between finds one of the two, and starts no second attempt; and one that waits finds the term.
//
//nolint:contextcheck // see above
func (s *Terms) attempt(a *attempt, pause time.Duration) {
	if pause > 0 {
		driver.Sleep(s.ctx, s.clock, pause)
	}
	ctx, cancel := driver.WithTimeout(s.ctx, s.clock, max(s.cfg.TTL, openTimeout))
	defer cancel()
	a.term, a.err = open(ctx, s)
	if s.ctx.Err() == nil { // an attempt that Close has cut off shows nothing of the service
		s.log(a.err)
	}
	if a.err == nil {
		s.install(a.term)
	}

	s.mu.Lock()
	s.opening, s.pause = nil, 0
	if a.err == nil {
		s.backoff.Reset()
	} else {
		s.failed = a.err
		s.pause = s.backoff.Next(s.clock)
	}
	s.mu.Unlock()
	close(a.done)
}

// log logs the outcome of an attempt if that is due.
func (s *Terms) log(err error) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		due, d := s.outage.Over(now)
		if due {
			s.cfg.Logger.Warn("fairlock: the service is reachable again", "service", s.info.Service, "after", d)
		}
		return
	}
	due, d := s.outage.Failed(now)
	if due {
		s.cfg.Logger.Warn("fairlock: cannot open a session", "service", s.info.Service, "for", d, "err", err)
	}
}

// install makes t the current term, unless Close came first or t has ended already. A term can end
// before it is current, and its drop finds nothing to drop then: so install reads the clock again, and
// drops it itself.
func (s *Terms) install(t *Term) {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.cur, s.since, s.lost, s.failed = t, s.clock.Wall(), nil, nil
	}
	s.mu.Unlock()
	switch {
	case closed:
		t.End(Closed, nil)
	case t.Left() == 0: // it may have ended before it was current
		s.drop(t, t.Ended())
	}
}

// drop forgets a term that has ended.
func (s *Terms) drop(t *Term, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur == t {
		s.cur, s.since, s.lost = nil, s.clock.Wall(), cause
	}
}

// track runs f in a goroutine that Close waits for. After Close it runs nothing: what f
// would remove expires at the service.
func (s *Terms) track(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.drained {
		s.wg.Go(f)
	}
}

// Close ends the live term. It waits until all that is owed is released, for up to the
// margin, and closes the service session. When it returns, the goroutines of all terms
// have ended. After an error the service has not acknowledged the end of the session, which
// expires there. Close is called once.
//
// The order matters. First closed is set, so that no attempt begins. Then the term is shut, and the one
// that an attempt may still bring. Then the observer is closed, which needs no term. At last drained
// is set, so that track adds nothing to the goroutines that Close waits for.
func (s *Terms) Close() error {
	s.mu.Lock()
	s.closed = true // no attempt begins any more, and install ends what one has opened
	t, a := s.cur, s.opening
	s.mu.Unlock()
	s.cancel(driver.ErrClosed)
	var err error
	if t != nil {
		err = t.shut()
	}
	if a != nil { // a term may have been opened all the same
		<-a.done
		if a.term != nil {
			err = driver.JoinErrors(err, a.term.shut())
		}
	}
	err = driver.JoinErrors(err, s.observer.close())
	s.mu.Lock()
	s.drained = true // a WaitGroup must not grow from 0 while Wait is called
	s.mu.Unlock()
	s.wg.Wait()
	return err
}
