package driver

import "time"

// outageEvery is the least time between two log lines about one outage.
const outageEvery = time.Minute

// outageSplit is more than an attempt and the backoff after it take, unless the TTL is longer.
const outageSplit = 10 * time.Minute

// Outage decides which of the attempts at reaching a service are logged: the first
// that fails, one a minute after that, and the one that succeeds. The zero value is
// ready for use. It is not safe for concurrent use.
type Outage struct {
	on     bool
	began  Instant
	logged Instant
	last   Instant // when the newest attempt failed
}

// Failed takes in an attempt that failed and reports whether to log it, and how
// long attempts have been failing. After outageSplit without an attempt it takes the
// failure for that of another outage: where a session is opened only for a request, the
// service may have answered meanwhile.
func (o *Outage) Failed(now Instant) (log bool, since time.Duration) {
	last := o.last
	o.last = now
	if !o.on || now.Sub(last) > outageSplit {
		o.on, o.began, o.logged = true, now, now
		return true, 0
	}
	if now.Sub(o.logged) < outageEvery {
		return false, 0
	}
	o.logged = now
	return true, now.Sub(o.began)
}

// Over takes in an attempt that succeeded and reports whether attempts before it
// failed, and for how long.
func (o *Outage) Over(now Instant) (log bool, lasted time.Duration) {
	was := *o
	*o = Outage{}
	if now.Sub(was.last) > outageSplit {
		now = was.last
	}
	return was.on, now.Sub(was.began)
}
