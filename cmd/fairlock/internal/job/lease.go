package job

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// lease gives a supervisor the deadline of a hold.
type lease struct {
	hold  *session.Hold
	clock driver.Clock
	end   driver.Instant // the deadline at the last call of left
}

// left returns the time to the deadline. If the hold is lost for another reason than the
// deadline, such as an eviction, it excludes no other holder any more. Then left returns
// the time to the last known deadline, so that the command has a moment to stop.
//
//nolint:contextcheck // the hold's own context, which ends with the hold
func (l *lease) left() time.Duration {
	now := l.clock.Now()
	v := l.hold.Remaining()
	if v > 0 {
		l.end = now.Add(v)
		return v
	}
	var lost *session.LostError
	if errors.As(context.Cause(l.hold.Context()), &lost) && lost.Reason != session.ReasonDeadline {
		return max(0, l.end.Sub(now))
	}
	return 0
}
