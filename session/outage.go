package session

import (
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// outageEvery is the least time between two log lines about one outage.
const outageEvery = time.Minute

// outage decides which of the attempts at opening a session are logged: the first
// that fails, one a minute after that, and the one that succeeds. The Session's
// mutex guards it.
type outage struct {
	on     bool
	began  driver.Instant
	logged driver.Instant
}

// failed takes in an attempt that failed and reports whether to log it, and how
// long attempts have been failing.
func (o *outage) failed(now driver.Instant) (log bool, since time.Duration) {
	if !o.on {
		o.on, o.began, o.logged = true, now, now
		return true, 0
	}
	if now.Sub(o.logged) < outageEvery {
		return false, 0
	}
	o.logged = now
	return true, now.Sub(o.began)
}

// over takes in an attempt that succeeded and reports whether attempts before it
// failed, and for how long.
func (o *outage) over(now driver.Instant) (log bool, lasted time.Duration) {
	was := *o
	*o = outage{}
	return was.on, now.Sub(was.began)
}

// report takes in the outcome of an attempt and logs it if it is due.
func (s *Session) report(err error) {
	now := s.clock.Now()
	var log bool
	var d time.Duration
	s.mu.Lock()
	if err != nil {
		log, d = s.outage.failed(now)
	} else {
		log, d = s.outage.over(now)
	}
	s.mu.Unlock()
	switch {
	case !log:
	case err != nil:
		s.opts.Logger.Warn("fairlock: cannot open a session", "service", s.profile.Service, "for", d, "err", err)
	default:
		s.opts.Logger.Warn("fairlock: the service is reachable again", "service", s.profile.Service, "after", d)
	}
}
