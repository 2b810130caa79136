package session

import (
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock/session/driver"
)

// DefaultTTL is the TTL of a service session unless Options.TTL is set. A shorter one
// passes on the locks of a crashed client sooner; a longer one survives longer outages
// of the service and the network.
const DefaultTTL = 15 * time.Second

// MaxLabel is the longest Options.Label, in bytes.
const MaxLabel = 128

// Options are what every backend's Open takes. The zero value is ready to use.
type Options struct {
	// TTL is how long the service keeps the session of a client that has crashed or is
	// cut off. 0 means DefaultTTL. The backend sets the minimum (2 s on etcd), and
	// on some services a maximum. The service may grant a different TTL; the deadline
	// follows the one that it granted.
	TTL time.Duration

	// Margin is how long before the service can expire the session the contexts of
	// holds are cancelled: the time that a worker has to stop. 0 means the backend's
	// default for the granted TTL (etcd: TTL/10, at least 1 s; ZooKeeper: TTL/10, at
	// least 100 ms). It may be at most three quarters of the TTL, so that a quarter is
	// left for renewals; ZooKeeper, whose renewals are slower, allows 5/8 on one server and
	// at most 3/8 on an ensemble. An etcd cluster whose election timeout is longer than 1 s
	// needs a Margin of at least that timeout.
	Margin time.Duration

	// Label is shown with each entry of the Session, next to host and pid. It has at
	// most MaxLabel bytes of UTF-8.
	Label string

	// Holds are names of locks that a parent process holds while this program runs.
	// They are stored with each entry, together with the locks that the program itself
	// holds, so that deadlocks can be detected.
	Holds []string

	// Hooks are called when an event has happened. Each may be nil.
	Hooks Hooks

	// Logger receives what an operator should read: losses, retries, entries of other
	// programs. If it is nil, warnings and errors go to slog.Default() as of the
	// opening of the session. Use slog.DiscardHandler to log nothing. It is called in a
	// goroutine of the Session, as Hooks are, so that it delays no lock.
	Logger *slog.Logger

	forTools bool // see Inside.ForTools
}

// checked returns a copy with the defaults filled in, except the Logger, or an error that
// names the invalid field.
func (o *Options) checked(p driver.Info) (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.TTL < p.MinTTL {
		return c, fmt.Errorf("%w: TTL %s is below %s, the minimum on %s", ErrInvalidOptions, c.TTL, p.MinTTL, p.Service)
	}
	if p.MaxTTL != 0 && c.TTL > p.MaxTTL {
		return c, fmt.Errorf("%w: TTL %s is above %s, the maximum on %s", ErrInvalidOptions, c.TTL, p.MaxTTL, p.Service)
	}
	if c.Margin < 0 {
		return c, fmt.Errorf("%w: Margin %s is negative", ErrInvalidOptions, c.Margin)
	}
	if c.Margin == 0 {
		c.Margin = p.Margin(c.TTL)
	}
	if c.Margin >= c.TTL {
		return c, fmt.Errorf("%w: Margin %s is not below TTL %s: no time would be left to hold a lock", ErrInvalidOptions, c.Margin, c.TTL)
	}
	if c.Margin > c.TTL*3/4 {
		return c, fmt.Errorf("%w: Margin %s is more than three quarters of TTL %s: too little time would be left for renewals", ErrInvalidOptions, c.Margin, c.TTL)
	}
	if len(c.Label) > MaxLabel || !utf8.ValidString(c.Label) {
		return c, fmt.Errorf("%w: Label must be at most %d bytes of UTF-8", ErrInvalidOptions, MaxLabel)
	}
	return c, nil
}
