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
//
// Nothing in it reads a clock: callers pass what they have read. The mutex of the Term guards it.
type window struct {
	// end is the deadline; it means nothing before renewed is set.
	end driver.Instant

	// length is from the sending of the renewal that was acknowledged last to the deadline that it
	// gives. It changes only if the service gives another TTL.
	length time.Duration

	// sent is when the newest acknowledged renewal was sent. It only rises, also when the window is
	// over: it shows that the service had the session, which is a fact by itself.
	sent driver.Instant

	renewed bool // a renewal was acknowledged; before that the window is not open. Never reset
	over    bool // the deadline has passed, or the term has ended. Never reset
}

// renew extends the window by a renewal that was acknowledged at now, and returns the time
// to the deadline. A renewal that is acknowledged after the deadline is too late, even if it
// was sent before: contexts of holds may have ended already, and work would go on without
// them.
//
//	the renewal                                 the window
//	the first one                               opens; is over at once if its deadline has passed
//	in time, and its deadline is a later one    ends then
//	in time, and its deadline is not later      stays as it is: answers overtake each other
//	too late, or the window is over             is over, and stays so
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

// left returns the time to the deadline. If that has passed, left ends the window: the first caller
// that sees the deadline pass decides for all that come later. A window that no renewal has opened
// ends too. Backends report the first renewal before they return a session, and only then is the
// window of its term read.
func (w *window) left(now driver.Instant) time.Duration {
	left := time.Duration(w.end - now)
	open := w.renewed && !w.over && left > 0
	w.over = !open
	if !open {
		return 0
	}
	return left
}
