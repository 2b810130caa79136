package driver

import (
	"context"
	"math/rand/v2"
	"time"
)

// Instant is a moment on a Clock: time since an origin that the clock keeps to
// itself. It cannot be mixed up with wall time.
type Instant time.Duration

// Add returns the moment d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Clock measures time for leases. It never goes back, and should go on while
// the machine is suspended, because the service's clock does.
type Clock interface {
	// Now is the present moment.
	Now() Instant

	// AfterFunc calls f in its own goroutine when d has passed, and possibly much later
	// where the machine was suspended or the process is starved. stop reports whether it
	// kept f from being called.
	AfterFunc(d time.Duration, f func()) (stop func() bool)

	// Wall is the time of day, to be shown to people only.
	Wall() time.Time
}

// Jitter returns a random part of d, so that clients that wait equally long do not act at
// the same moment. If the Clock has a method of that name, it decides: a simulation draws
// from a seed of its own.
func Jitter(c Clock, d time.Duration) time.Duration {
	if j, ok := c.(interface {
		Jitter(d time.Duration) time.Duration
	}); ok {
		return j.Jitter(d)
	}
	return rand.N(d)
}

// SystemClock is the clock of real services. On Linux it is CLOCK_BOOTTIME, which goes
// on while the machine sleeps; elsewhere it is Go's monotonic clock, and there a lease
// can be trusted for too long after a suspension. Neither notices that a virtual
// machine was paused: tokens cover that case.
func SystemClock() Clock { return systemClock{} }

type systemClock struct{}

func (systemClock) Now() Instant { return bootTime() }

func (systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

func (systemClock) Wall() time.Time { return time.Now() }

// WithTimeout is context.WithTimeout on a Clock. The context's cause is
// context.DeadlineExceeded when the time has passed.
func WithTimeout(ctx context.Context, c Clock, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := c.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// Sleep waits for d or for the end of ctx, and reports whether d has passed.
func Sleep(ctx context.Context, c Clock, d time.Duration) bool {
	done := make(chan struct{})
	stop := c.AfterFunc(d, func() { close(done) })
	select {
	case <-done:
		return true
	case <-ctx.Done():
		stop()
		return false
	}
}
