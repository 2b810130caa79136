package term

import (
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// drift is the share of a TTL by which our clock may run slower than the service's, as a
// divisor: one in a thousand is some ten times the error of a bad quartz.
const drift = 1000

// deadlineOf returns the deadline that one renewal gives. It counts from the sending of the
// request, because the service may have begun to count right then; a client that counts from
// the answer is late. The margin is cut to three quarters of the TTL, because a service may
// give a shorter TTL than the margin was chosen for.
func deadlineOf(sent driver.Instant, ttl, margin time.Duration) driver.Instant {
	return sent.Add(ttl - ttl/drift - min(margin, ttl*3/4))
}

// window is the trust window of a term. Its end, the deadline, only moves forward, in
// whatever order renewals are acknowledged. When the window is over, it stays so: no renewal
// opens it again.
type window struct {
	end     driver.Instant
	length  time.Duration  // from the sending of a renewal to the deadline that it gives
	sent    driver.Instant // when the newest acknowledged renewal was sent
	renewed bool           // a renewal was acknowledged; before that the window is not open
	over    bool
}

// renew extends the window by a renewal that was acknowledged at now, and returns the time
// to the deadline. A renewal that is acknowledged after the deadline is too late, even if it
// was sent before: contexts of holds may have ended already, and work would go on without
// them.
func (w *window) renew(now, sent driver.Instant, ttl, margin time.Duration) time.Duration {
	w.sent = max(w.sent, sent)
	if w.over || w.renewed && w.left(now) == 0 {
		return 0
	}
	d := deadlineOf(sent, ttl, margin)
	w.length = d.Sub(sent)
	if !w.renewed || d > w.end {
		w.end, w.renewed = d, true
	}
	return w.left(now)
}

// left returns the time to the deadline. If that has passed, left ends the window.
func (w *window) left(now driver.Instant) time.Duration {
	left := time.Duration(w.end - now)
	open := w.renewed && !w.over && left > 0
	w.over = !open
	if !open {
		return 0
	}
	return left
}
