package job

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// lease is a hold as a supervisor sees it.
type lease struct {
	hold  *session.Hold
	clock driver.Clock
	end   driver.Instant // the deadline when it was last asked for
}

// left is the time to the deadline. A hold that was taken away in health, by an
// operator for example, is good for nothing from then on; but the deadline goes
// on to say when the session could have been given away at the earliest, and
// until then the command has a moment to stop.
//
//nolint:contextcheck // the hold's own context, which ends with the hold
func (l *lease) left() time.Duration {
	now := l.clock.Now()
	if v := l.hold.Remaining(); v > 0 {
		l.end = now.Add(v)
		return v
	}
	var lost *session.LostError
	if errors.As(context.Cause(l.hold.Context()), &lost) && lost.Reason != session.ReasonDeadline {
		return max(0, l.end.Sub(now))
	}
	return 0
}

// window is how long a session is good for right after a renewal, as far as that
// was seen.
type window struct {
	mu sync.Mutex
	d  time.Duration
}

func (w *window) saw(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.d = max(w.d, d)
}

func (w *window) most() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.d
}

// renewEvery is how often renewals are made at least, when all is well.
func (w *window) renewEvery() time.Duration { return w.most() / 3 }
