package engine

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/internal/term"
	"github.com/fairlock/fairlock/session/driver"
)

// Config is what an Engine is made with. Only Trace may be nil. The functions are called from any
// goroutine, and must not block.
type Config struct {
	// Backend is used until Close has returned, and closed by the caller of that.
	Backend driver.Backend

	// TTL is what the terms are opened with, and Margin the margin of a TTL that the service gives.
	TTL    time.Duration
	Margin func(ttl time.Duration) time.Duration

	// Logger is as in driver.Config: its calls return at once.
	Logger *slog.Logger

	// ForTools: Open succeeds also where the service takes no new sessions, as a full etcd does.
	// The Engine then reads and evicts, and has no term until the service gives it one.
	ForTools bool

	// Meta is what the entries say of their owner; the request adds its own part.
	Meta owner.Meta

	// Trace returns the trace of a request with that context, empty if there is none.
	Trace func(ctx context.Context) string

	// Lost makes the error of a loss, which is the cause of contexts.
	Lost func(Loss) error

	// Opened, Renewed and Ended report on terms, see term.Config.
	Opened, Renewed func(id string, left time.Duration)
	Ended           func(id string, why term.End, cause error)
}

// Engine is what one session.Session does at its service. It is safe for concurrent use. The zero
// Engine is that of a Session that was never opened: its calls return ErrNotOpened.
type Engine struct {
	cfg   Config
	info  driver.Info
	terms *term.Terms // nil only in the zero Engine
}

// New returns an Engine that is not open yet. Nothing is sent.
func New(cfg Config) *Engine {
	e := &Engine{cfg: cfg, info: cfg.Backend.Info()}
	e.terms = term.New(term.Config{
		Backend: cfg.Backend, TTL: cfg.TTL, Margin: cfg.Margin, Logger: cfg.Logger, ForTools: cfg.ForTools,
		Opened: cfg.Opened, Renewed: cfg.Renewed, Ended: cfg.Ended,
		Cause: func(id string, why term.End, err error) error {
			return cfg.Lost(Loss{Session: id, Why: why, Err: err})
		},
	})
	return e
}

// Open opens the first term, see term.Terms.Open.
func (e *Engine) Open(ctx context.Context) error { return e.terms.Open(ctx) } //nolint:wrapcheck // package session does

// Close ends the live term, see term.Terms.Close. It is called once.
func (e *Engine) Close() error { return e.terms.Close() } //nolint:wrapcheck // package session does

// Health returns the time to the deadline, since when, and why that is 0, see term.Terms.Health.
func (e *Engine) Health() (left time.Duration, since time.Time, err error) { return e.terms.Health() } //nolint:wrapcheck // package session does

// Live returns the live term, opening one if need be. It waits for as long as ctx lets it while
// the service is unreachable, and gives up at once where waiting cannot help.
func (e *Engine) Live(ctx context.Context) (*term.Term, error) {
	if e.terms == nil {
		return nil, ErrNotOpened
	}
	return e.terms.Live(ctx) //nolint:wrapcheck // it names what it does
}

// Info is that of the backend; zero if there is none.
func (e *Engine) Info() driver.Info { return e.info }

// Clock is the backend's clock; the system's if there is none.
func (e *Engine) Clock() driver.Clock {
	if e.terms == nil {
		return driver.SystemClock()
	}
	return e.info.Clock
}

// Logger gets records for the user's logger, and never blocks.
func (e *Engine) Logger() *slog.Logger {
	if e.terms == nil {
		return slog.New(slog.DiscardHandler)
	}
	return e.cfg.Logger
}

// Meta is what the entries say of their owner, whatever the request.
func (e *Engine) Meta() owner.Meta { return e.cfg.Meta }

// TTL is what the terms are opened with.
func (e *Engine) TTL() time.Duration { return e.cfg.TTL }

// MaxName is the longest name of a lock, in bytes.
const MaxName = 512

// CheckName returns an error that wraps ErrInvalidName if no lock can have that name: it is
// empty, longer than MaxName, not UTF-8, contains a NUL, or the layout of the backend cannot hold
// it. Nothing is sent.
func (e *Engine) CheckName(name string) error {
	switch {
	case e.terms == nil:
		return ErrNotOpened
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidName)
	case len(name) > MaxName:
		return fmt.Errorf("%w: it has %d bytes, more than the maximum of %d", ErrInvalidName, len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w %q: it is not UTF-8", ErrInvalidName, name)
	case strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w %q: it contains a NUL byte", ErrInvalidName, name)
	}
	if err := e.cfg.Backend.CheckName(name); err != nil {
		return fmt.Errorf("%w %q: %w", ErrInvalidName, name, err)
	}
	return nil
}

// Bounded returns a context for a call that does not wait for a lock: ctx, which ends at the
// latest after 5 s if it has no deadline. The Engine is open.
func (e *Engine) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return e.terms.Bounded(ctx)
}

// Do calls f with a service session that can read and evict, whether or not there is a live term,
// see term.Terms.Read: so that tools work also where the service takes no new sessions. f may be
// called twice.
func (e *Engine) Do(ctx context.Context, f func(context.Context, driver.Session) error) error {
	if e.terms == nil {
		return ErrNotOpened
	}
	return e.terms.Read(ctx, f) //nolint:wrapcheck // f's own error
}

// Read reads a queue as it is now. The name was checked, or is not that of a lock.
func (e *Engine) Read(ctx context.Context, req driver.ReadRequest) (v driver.View, err error) {
	req.Fresh = true
	err = e.Do(ctx, func(ctx context.Context, s driver.Session) (err error) {
		v, err = s.Read(ctx, req)
		return err //nolint:wrapcheck // the backend's own error
	})
	return v, err
}

// Limit returns the limit of a semaphore, 0 if it has none yet.
func (e *Engine) Limit(ctx context.Context, name string) (int64, error) {
	if err := e.CheckName(name); err != nil {
		return 0, err
	}
	v, err := e.Read(ctx, driver.ReadRequest{Queue: name, Nearest: 1, Records: []string{rule.RecordLimit}})
	if err != nil {
		return 0, err
	}
	return rule.LimitOf(name, v.Records[rule.RecordLimit]) //nolint:wrapcheck // it names the queue
}

// Holds reports whether there is a live hold of that lock and recipe.
func (e *Engine) Holds(kind, name string) bool {
	if e.terms == nil {
		return false
	}
	t := e.terms.Current()
	return t != nil && t.Binds(func(b term.Bound) bool {
		h, ok := b.(*Hold)
		return ok && h.kind == kind && h.name == name
	})
}
