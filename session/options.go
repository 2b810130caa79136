package session

import (
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock/session/driver"
)

// DefaultTTL is the time to live of a service session unless Options say
// otherwise. Shorter hands the locks of the dead on sooner; longer survives
// longer troubles of the service and of the network.
const DefaultTTL = 15 * time.Second

// MaxLabel is the most bytes that Options.Label takes.
const MaxLabel = 128

// Options are what every backend's Open takes. The zero value is ready to use.
type Options struct {
	// TTL is how long the service keeps the session of a dead client. 0 means
	// DefaultTTL. The least is the backend's (2 s on etcd). The service may
	// give another; the deadline follows what it gave.
	TTL time.Duration

	// Margin is how long before the service's own expiry the contexts of holds
	// end: the time that a worker has to stop. 0 means the backend's default
	// for the TTL that the service gives (etcd: the larger of TTL/10 and 1 s,
	// ZooKeeper: of TTL/10 and 100 ms). It may be at most three quarters of the
	// TTL, so that a quarter is left to renew in. An etcd cluster whose election
	// timeout is longer than 1 s needs a Margin of at least that timeout.
	Margin time.Duration

	// Label is shown to whoever looks at the line, beside host and pid. At
	// most MaxLabel bytes of UTF-8.
	Label string

	// Holds are names of locks that this program works under and did not take
	// itself, because a parent process holds them. Whoever looks at the line
	// sees them with those that the program holds, and can tell a deadlock.
	Holds []string

	// Hooks are called when something has happened. All may be nil.
	Hooks Hooks

	// Logger gets what an operator should read: losses, retries, foreign
	// entries. If it is nil, warnings and errors go to slog.Default(), as it is
	// when the session is opened. For silence, use slog.DiscardHandler. It is
	// called in a goroutine of the Session's, as Hooks are, so that no lock waits
	// for it.
	Logger *slog.Logger
}

// checked returns a copy with the defaults filled in, or what is wrong.
func (o *Options) checked(p driver.Profile) (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.TTL < p.MinTTL {
		return c, fmt.Errorf("%w: TTL %s is below the least on %s, %s", ErrInvalidOptions, c.TTL, p.Service, p.MinTTL)
	}
	if c.Margin < 0 {
		return c, fmt.Errorf("%w: Margin %s is negative", ErrInvalidOptions, c.Margin)
	}
	if c.Margin == 0 {
		c.Margin = p.Margin(c.TTL)
	}
	if c.Margin >= c.TTL {
		return c, fmt.Errorf("%w: Margin %s is not below TTL %s: no time would be left to hold in", ErrInvalidOptions, c.Margin, c.TTL)
	}
	if c.Margin > c.TTL*3/4 {
		return c, fmt.Errorf("%w: Margin %s is more than three quarters of TTL %s: too little would be left to renew in", ErrInvalidOptions, c.Margin, c.TTL)
	}
	if len(c.Label) > MaxLabel || !utf8.ValidString(c.Label) {
		return c, fmt.Errorf("%w: Label must be at most %d bytes of UTF-8", ErrInvalidOptions, MaxLabel)
	}
	if c.Logger == nil {
		c.Logger = slog.New(warnings{slog.Default().Handler()})
	}
	return c, nil
}
