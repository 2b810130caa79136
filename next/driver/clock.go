package driver

import (
	"context"
	"time"

	old "github.com/fairlock/fairlock/session/driver"
)

// Instant is a moment on a Clock.
type Instant = old.Instant

// Clock measures time for leases. It never goes back, and should go on while the machine
// is suspended, because the service's clock does.
type Clock = old.Clock

// Jitter returns a random part of d.
func Jitter(c Clock, d time.Duration) time.Duration { return old.Jitter(c, d) }

// SystemClock is the clock of real services.
func SystemClock() Clock { return old.SystemClock() }

// WithTimeout is context.WithTimeout on a Clock.
func WithTimeout(ctx context.Context, c Clock, d time.Duration) (context.Context, context.CancelFunc) {
	return old.WithTimeout(ctx, c, d)
}

// Sleep waits for d or for the end of ctx, and reports whether d has passed.
func Sleep(ctx context.Context, c Clock, d time.Duration) bool { return old.Sleep(ctx, c, d) }

// Outage decides which of the attempts at reaching a service are logged. See its methods.
type Outage = old.Outage
