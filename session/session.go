package session

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/internal/report"
	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// Session is what a program opens once and keeps for months. It serves any number of
// goroutines, and of locks as many as the service allows (see package zkbackend), and
// survives the loss of its service session. It is safe for concurrent use.
type Session struct {
	engine  *engine.Engine
	backend driver.Backend
	info    driver.Info
	clock   driver.Clock
	opts    Options // with defaults; its logger is the user's
	reports *report.Queue[Event]
	logger  *slog.Logger // of reports: it never blocks
	closed  atomic.Bool

	hooked   bool          // hooks are called for requests
	requests atomic.Uint64 // how many have started, see Event.ID
}

// open opens a Session on a backend, see Inside.Open.
func open(ctx context.Context, b driver.Backend, o *Options) (*Session, error) {
	info := b.Info()
	opts, err := o.checked(info)
	if err != nil {
		return nil, driver.JoinErrors(fmt.Errorf("session: open: %w", err), b.Close())
	}
	s := &Session{
		backend: b, info: info, clock: info.Clock, opts: opts, hooked: opts.Hooks.requests(), reports: report.New[Event](opts.Logger),
	}
	s.logger = s.reports.Logger()
	margin := info.Margin
	if o != nil && o.Margin != 0 {
		margin = func(time.Duration) time.Duration { return opts.Margin }
	}
	s.engine = engine.New(s.config(margin))
	if err := s.engine.Open(ctx); err != nil {
		err = driver.JoinErrors(fmt.Errorf("session: open: %w", err), b.Close())
		s.reports.Finish()
		return nil, err
	}
	s.reports.Flush()
	return s, nil
}

// config returns what the engine of the Session is made with.
//
//nolint:contextcheck // hooks for service sessions get no context
func (s *Session) config(margin func(ttl time.Duration) time.Duration) engine.Config {
	hooks := &s.opts.Hooks
	opened, renewed := withoutContext(hooks.SessionOpened), withoutContext(hooks.SessionRenewed)
	lost, closed := withoutContext(hooks.SessionLost), withoutContext(hooks.SessionClosed)
	ctx := context.Background()
	event := func(id string, left time.Duration, err error) Event {
		return Event{At: s.clock.Wall(), Session: id, Left: left, Err: err}
	}
	meta := owner.Meta{PID: os.Getpid(), Label: s.opts.Label, Holds: s.opts.Holds, TTL: s.opts.TTL}
	meta.Host, _ = os.Hostname() // for people; without a name the pid still differs
	return engine.Config{
		Backend: s.backend, TTL: s.opts.TTL, Margin: margin, Logger: s.logger, ForTools: s.opts.forTools,
		Meta: meta, Trace: hooks.Trace, Lost: lostError,
		Opened:  func(id string, left time.Duration) { s.reports.Must(ctx, opened, event(id, left, nil)) },
		Renewed: func(id string, left time.Duration) { s.reports.Add(ctx, renewed, event(id, left, nil)) },
		Ended: func(id string, why term.End, cause error) {
			if why == term.Closed {
				s.reports.Must(ctx, closed, event(id, 0, nil))
			} else {
				s.reports.Must(ctx, lost, event(id, 0, cause))
			}
		},
	}
}

// withoutContext returns a hook for service sessions as one for requests.
func withoutContext(hook func(Event)) func(context.Context, Event) {
	if hook == nil {
		return nil
	}
	return func(_ context.Context, e Event) { hook(e) }
}

// opened reports whether the Session was made by Open. A nil Session and the zero Session
// behave like a closed one.
func (s *Session) opened() bool { return s != nil && s.backend != nil }

// inner returns the engine of the Session, the zero one if it was never opened.
func (s *Session) inner() *engine.Engine {
	if !s.opened() {
		return &engine.Engine{}
	}
	return s.engine
}

// Options returns the options in force, with defaults filled in, except the Logger.
func (s *Session) Options() Options {
	if !s.opened() {
		return Options{}
	}
	return s.opts
}

// Close ends the Session. It cancels the contexts of all holds, with ReasonClosed, and
// waiting requests return ErrClosed. It then waits, for up to the margin, until holders
// have called Unlock, and until pending releases, and removals of what requests for robust
// locks have left, are finished. Then it closes the service session, which releases all
// locks. After an error the service has not acknowledged that, and entries stay until the
// TTL has passed. Further calls do nothing.
func (s *Session) Close() error {
	if !s.opened() || s.closed.Swap(true) {
		return nil
	}
	err := driver.JoinErrors(s.engine.Close(), s.backend.Close())
	s.reports.Finish()
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
	left, since, err := s.engine.Health()
	return Health{Ready: left > 0, Since: since, Left: left, Err: err}
}
