package supervise

import (
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// goneGrace is the longest that a command gets to stop when others may go on
// already.
const goneGrace = time.Second

// alarm is the longest between two looks at the clock. Timers stand still while
// a machine sleeps, and the clock does not.
const alarm = 250 * time.Millisecond

// patience is how long until the next look at a group that was killed: of those
// in it that are not our children the kernel does not tell us.
const patience = 10 * time.Millisecond

// act is what is to be done.
type act int

const (
	wait act = iota
	stop     // tell the group to stop
	kill     // kill it
	end      // nothing is left to do
)

// view is what is seen at one moment.
type view struct {
	now    driver.Instant
	left   time.Duration // read after now, so that now + left is not too late
	gone   bool          // Spec.Lost is closed
	over   bool          // the caller's context has ended
	exited bool          // the command itself has ended
	empty  bool          // and nothing else of its group lives
}

// finished says that there is nobody to do anything to.
func (v view) finished() bool { return v.exited && v.empty }

// course decides what happens to a command, and when.
type course struct {
	grace, maxRun, renewEvery time.Duration
	keepOn                    bool
	began                     driver.Instant

	deadline, moved driver.Instant // as it was when it rose last, and when that was

	asked   bool           // somebody sent it a signal that ends programs
	told    bool           // we told it to stop
	killed  bool           // we killed it
	killAt  driver.Instant // when we will, unless it has gone; 0 while it may stop in its own time
	lost    bool
	tooLong bool
	ended   bool // we told it because the caller's context has ended
}

func newCourse(s Spec, now driver.Instant) *course {
	return &course{
		grace: s.Grace, maxRun: s.MaxRun, renewEvery: s.RenewEvery, keepOn: s.KeepOn,
		began: now, moved: now,
	}
}

// next says what to do now. The order of the questions is the point: whatever
// else has happened, a group whose time is over is killed before anything else
// is done to it, or believed of it.
func (c *course) next(v view) act {
	c.follow(v)
	c.lost = c.lost || v.gone || v.left <= 0
	switch {
	case !v.finished() && (c.killed || c.due(v)):
		c.killed = true
		return kill // again, until nobody is left
	case v.finished(), v.exited && !c.asked && !c.told:
		return end
	case v.exited:
		c.killBy(v.now.Add(c.grace)) // the command has stopped, and the rest was told as well
	case !c.told && c.mustStop(v):
		c.told = true
		return stop
	case c.told && v.gone && !c.keepOn:
		c.killBy(v.now.Add(min(c.grace, goneGrace)))
	}
	return wait
}

// due says that the group must be dead by now.
func (c *course) due(v view) bool {
	return v.left <= 0 && !c.keepOn || c.killAt != 0 && v.now >= c.killAt
}

// mustStop says whether the command is to be told to stop, and settles until
// when it may take.
func (c *course) mustStop(v view) bool {
	switch {
	case v.gone && !c.keepOn:
		c.killBy(v.now.Add(min(c.grace, goneGrace)))
	case v.left <= c.grace && !c.keepOn:
		c.lost = true // it will not run to its end
		c.killBy(v.now.Add(v.left))
	case v.over:
		c.ended = true
		c.killBy(v.now.Add(c.grace))
	case c.maxRun > 0 && v.now >= c.began.Add(c.maxRun):
		c.tooLong = true
		c.killBy(v.now.Add(c.grace))
	default:
		return false
	}
	return true
}

// killBy sets when the group is killed, unless that is to be earlier.
func (c *course) killBy(t driver.Instant) {
	if c.killAt == 0 || t < c.killAt {
		c.killAt = t
	}
}

// follow keeps the deadline. It does not take for a rise what is only the time
// between two readings of the clock.
func (c *course) follow(v view) {
	const noise = 5 * time.Millisecond
	if d := v.now.Add(v.left); v.left > 0 && d > c.deadline.Add(noise) {
		c.deadline, c.moved = d, v.now
	}
}

// state is what to show.
func (c *course) state(v view) State {
	switch {
	case c.lost && (v.left <= 0 || v.gone):
		return Lost
	case c.told || c.killed:
		return Stopping
	case c.renewEvery > 0 && v.now >= c.overdue():
		return Suspect
	}
	return Held
}

// overdue is when a rise is missed that should have come.
func (c *course) overdue() driver.Instant { return c.moved.Add(c.renewEvery * 3 / 2) }

// wake is how long nothing will be to do if nothing happens.
func (c *course) wake(v view) time.Duration {
	if c.killed {
		return patience
	}
	d := alarm
	before := func(t time.Duration) {
		if t > 0 {
			d = min(d, t)
		}
	}
	before(v.left)
	before(v.left - c.grace)
	before(c.killAt.Sub(v.now))
	before(c.overdue().Sub(v.now))
	if c.maxRun > 0 {
		before(c.began.Add(c.maxRun).Sub(v.now))
	}
	return d
}
