package supervise

import (
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// goneGrace is the longest time that a command gets to stop after Spec.Lost: the next
// lease may already have begun.
const goneGrace = time.Second

// maxWait is the longest time between two reads of the clock. Timers stop while a machine
// sleeps, and the clock does not.
const maxWait = 250 * time.Millisecond

// restNotice is how long the rest of a group lives after the command until it is reported. A
// reader of the command's output, for example, ends a moment later.
const restNotice = time.Second

// pollInterval is how often a group that was killed is checked: the kernel does not notify
// us of processes in it that are not our children.
const pollInterval = 10 * time.Millisecond

// act is what Run does next.
type act int

const (
	wait act = iota
	stop     // send the group the signal to stop
	kill     // kill the group
	end      // return
)

// view is the state of the command at one moment.
type view struct {
	now    driver.Instant
	left   time.Duration // read after now, so now + left is not after the deadline
	gone   bool          // Spec.Lost is closed
	over   bool          // the caller's context has ended
	exited bool          // the command itself has ended
	empty  bool          // and no other process of its group lives
}

// finished reports whether all of the group is dead.
func (v view) finished() bool { return v.exited && v.empty }

// policy decides what happens to a command, and when.
type policy struct {
	grace, maxRun, suspect time.Duration
	keepOn, leave          bool
	began                  driver.Instant

	deadline driver.Instant // the latest
	exitedAt driver.Instant // when next first saw that the command had ended; 0 before

	mustEnd bool           // we got SIGTERM, which the group got too, or another signal after the command's end
	stopped bool           // we sent the group the signal to stop
	killed  bool           // we killed the group
	killAt  driver.Instant // when we kill the group if it lives; 0 if no time is set
	lost    bool
	tooLong bool
	ended   bool // we sent that signal because the caller's context has ended
}

func newPolicy(s Spec, now driver.Instant) *policy {
	return &policy{grace: s.Grace, maxRun: s.MaxRun, suspect: s.Least * 3 / 4, keepOn: s.KeepOn, leave: s.Leave, began: now}
}

// next returns what to do now. The order of the cases matters: whatever else has
// happened, a group whose deadline has passed is killed before anything else is done, or
// concluded from its state.
func (c *policy) next(v view) act {
	c.follow(v)
	c.lost = c.lost || v.gone || v.left <= 0
	if v.exited && c.exitedAt == 0 {
		c.exitedAt = v.now
	}
	// The list of processes is no snapshot: it can lack the child of a process that forked and
	// exited meanwhile. After a kill no process of the group can fork, and an empty list is true.
	mustDie := c.due(v) || v.finished() && (c.mustEnd || c.stopped)
	switch {
	case c.killed && v.finished():
		return end
	case c.killed || mustDie:
		c.killed = true
		return kill // again, until all are dead
	case v.finished(), v.exited && c.leave && !c.mustEnd && !c.stopped:
		return end
	case v.exited && (c.mustEnd || c.stopped):
		c.killBy(v.now.Add(c.grace)) // the command has stopped, and the rest of the group got the signal too
	case !c.stopped && c.mustStop(v):
		c.stopped = true
		return stop
	case c.stopped && v.gone && !c.keepOn:
		c.killBy(v.now.Add(min(c.grace, goneGrace)))
	}
	return wait
}

// due reports whether the group must be dead by now.
func (c *policy) due(v view) bool {
	return v.left <= 0 && !c.keepOn || c.killAt != 0 && v.now >= c.killAt
}

// mustStop reports whether to send the signal to stop now, and sets how long the command
// may take.
func (c *policy) mustStop(v view) bool {
	switch {
	case v.gone && !c.keepOn:
		c.killBy(v.now.Add(min(c.grace, goneGrace)))
	case v.left <= c.grace && !c.keepOn:
		c.lost = true // it cannot run to its end
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

// rests reports whether the rest of the group has lived for restNotice after the command, and
// may live on.
func (c *policy) rests(v view) bool {
	return v.exited && !v.empty && !c.mustEnd && !c.stopped && !c.killed && v.now >= c.exitedAt.Add(restNotice)
}

// killBy sets when the group is killed, unless an earlier time is set.
func (c *policy) killBy(t driver.Instant) {
	if c.killAt == 0 || t < c.killAt {
		c.killAt = t
	}
}

// follow updates the deadline. It ignores a rise that can come from the time between two
// reads of the clock.
func (c *policy) follow(v view) {
	const noise = 5 * time.Millisecond
	d := v.now.Add(v.left)
	if v.left > 0 && d > c.deadline.Add(noise) {
		c.deadline = d
	}
}

// state returns the state to report.
func (c *policy) state(v view) State {
	switch {
	case c.lost && (v.left <= 0 || v.gone):
		return Lost
	case c.stopped || c.killed && !v.finished():
		return Stopping
	case v.left <= c.suspect:
		return Suspect
	}
	return Held
}

// wake returns how long next has nothing to do if no event comes.
func (c *policy) wake(v view) time.Duration {
	switch {
	case c.killed && v.finished(), !c.killed && c.due(v):
		return 0
	case c.killed:
		return pollInterval
	}
	d := maxWait
	before := func(t time.Duration) {
		if t > 0 {
			d = min(d, t)
		}
	}
	before(v.left)
	before(v.left - c.grace)
	before(c.killAt.Sub(v.now))
	before(v.left - c.suspect)
	if c.maxRun > 0 {
		before(c.began.Add(c.maxRun).Sub(v.now))
	}
	return d
}
