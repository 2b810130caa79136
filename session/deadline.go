package session

import (
	"time"

	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/next/driver"
)

// drift is the share of a TTL by which our clock may run slower than the
// service's: one in a thousand is some ten times what bad quartz does.
const drift = 1000

// deadlineOf is the end of belief that one proof gives: counted from when the
// request was sent, because the service may have started to count right then.
// Counting from the answer is what makes other clients late. A service that
// gives less than was asked for gets a smaller margin, so that something is
// left to hold in.
func deadlineOf(sent driver.Instant, ttl, margin time.Duration) driver.Instant {
	return sent.Add(ttl - ttl/drift - min(margin, ttl*3/4))
}

// belief is what a term knows of its deadline. It only moves forward while the
// term lives, and is latched when it has ended: no proof revives it.
type belief struct {
	until  driver.Instant
	proven bool // some proof has come; until then nothing is believed or over
	over   bool
}

// prove takes in a proof at the moment now, and says whether the term is
// believed in after it. A proof that arrives after the deadline comes too late
// whatever it says: holders may have been told already.
func (b *belief) prove(now, sent driver.Instant, ttl, margin time.Duration) bool {
	late := b.over || b.proven && !b.alive(now)
	if failpoint.On(failpoint.LossNotLatched) {
		late = false
	}
	if late {
		return false
	}
	if d := deadlineOf(sent, ttl, margin); !b.proven || d > b.until {
		b.until, b.proven = d, true
	}
	return b.alive(now)
}

// alive says whether the term is believed in at now, and latches if not.
func (b *belief) alive(now driver.Instant) bool {
	if failpoint.On(failpoint.NoDeadline) && b.proven {
		return !b.over
	}
	if failpoint.On(failpoint.LossNotLatched) {
		return !b.over && b.proven && now < b.until
	}
	if b.over || !b.proven || now >= b.until {
		b.over = true
	}
	return !b.over
}

// left is the time to the deadline at now; 0 when it has passed.
func (b *belief) left(now driver.Instant) time.Duration {
	if !b.alive(now) {
		return 0
	}
	return b.until.Sub(now)
}
