package supervise

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session/driver"
)

const s = time.Second

// tenSeconds returns a policy with a deadline after ten seconds, a grace of two, and at
// least eight seconds left at a renewal.
func tenSeconds() (*policy, view) {
	c := newPolicy(Spec{Grace: 2 * s, Least: 8 * s}, 0)
	v := view{left: 10 * s}
	return c, v
}

// at returns v at a later time.
func (v view) at(now time.Duration) view {
	v.left -= driver.Instant(now).Sub(v.now)
	v.now = driver.Instant(now)
	return v
}

func (v view) dead() view {
	v.exited, v.empty = true, true
	return v
}

func TestTheGroupIsStoppedAtTheGraceAndKilledAtTheDeadline(t *testing.T) {
	c, v := tenSeconds()

	assert.Equal(t, wait, c.next(v.at(0)))
	assert.Equal(t, wait, c.next(v.at(8*s-1)))
	assert.Equal(t, stop, c.next(v.at(8*s)))
	assert.Equal(t, wait, c.next(v.at(8*s+1)), "once")
	assert.Equal(t, wait, c.next(v.at(10*s-1)))
	assert.Equal(t, kill, c.next(v.at(10*s)))
	assert.Equal(t, kill, c.next(v.at(11*s)), "until all are dead")
	assert.Equal(t, end, c.next(v.at(11*s).dead()))
	assert.True(t, c.lost)
}

func TestARenewalMovesTheDeadline(t *testing.T) {
	c, v := tenSeconds()
	c.next(v)
	v = v.at(7 * s)
	v.left = 10 * s

	assert.Equal(t, wait, c.next(v))
	assert.Equal(t, wait, c.next(v.at(15*s-1)))
	assert.Equal(t, stop, c.next(v.at(15*s)))
}

func TestARenewalAfterTheSignalToStopIsTooLate(t *testing.T) {
	c, v := tenSeconds()
	c.next(v)
	assert.Equal(t, stop, c.next(v.at(8*s)))
	v = v.at(9 * s)
	v.left = 10 * s

	assert.Equal(t, wait, c.next(v))
	assert.Equal(t, kill, c.next(v.at(10*s)), "the deadline at the signal counts")
	assert.Equal(t, end, c.next(v.at(10*s).dead()))
	assert.True(t, c.lost)
}

func TestAfterASleepPastTheDeadlineTheGroupIsKilledFirst(t *testing.T) {
	c, v := tenSeconds()
	c.next(v)

	late := v.at(3600 * s)
	late.left = 0
	assert.Equal(t, kill, c.next(late), "without the signal to stop before")
	assert.Equal(t, Lost, c.state(late))
}

func TestAnExitFoundAfterTheDeadlineIsALoss(t *testing.T) {
	c, v := tenSeconds()
	c.next(v)

	late := v.at(3600 * s).dead()
	late.left = 0
	assert.Equal(t, kill, c.next(late))
	assert.Equal(t, end, c.next(late))
	assert.True(t, c.lost)
}

// The list of processes may lack one that was forked while the list was read.
func TestAGroupThatSeemsDeadIsKilledBeforeTheEnd(t *testing.T) {
	for name, change := range map[string]func(*policy, *view){
		"SIGTERM":          func(c *policy, _ *view) { c.mustEnd = true },
		"signal to stop":   func(c *policy, _ *view) { c.stopped = true },
		"deadline":         func(_ *policy, v *view) { v.left = 0 },
		"time to stop":     func(c *policy, _ *view) { c.mustEnd, c.killAt = true, 1 },
		"context is over":  func(c *policy, _ *view) { c.stopped, c.ended = true, true },
		"SIGTERM, keep on": func(c *policy, _ *view) { c.mustEnd, c.keepOn = true, true },
	} {
		c, v := tenSeconds()
		v = v.at(1 * s).dead()
		change(c, &v)
		before := c.state(v)

		assert.Equal(t, kill, c.next(v), name)
		assert.Zero(t, c.wake(v), "%s: nothing to wait for", name)
		if v.left > 0 {
			assert.Equal(t, before, c.state(v), "%s: no new state", name)
		}
		v.empty = false
		assert.Equal(t, kill, c.next(v), "%s: the child was found", name)
		assert.Equal(t, pollInterval, c.wake(v), name)
		assert.Equal(t, end, c.next(v.dead()), name)
	}
}

func TestWithoutAGraceTheGroupIsKilledAtOnce(t *testing.T) {
	c, v := tenSeconds()
	c.grace = 0
	c.next(v)
	v = v.at(1 * s)
	v.over = true

	assert.Equal(t, stop, c.next(v))
	assert.Zero(t, c.wake(v))
	assert.Equal(t, kill, c.next(v))
}

func TestTheRestOfTheGroupIsKilledAtTheDeadline(t *testing.T) {
	c, v := tenSeconds()
	c.next(v)

	v.exited = true
	assert.Equal(t, kill, c.next(v.at(10*s)))
}

func TestALossBeforeTheDeadlineLeavesOneSecondToStop(t *testing.T) {
	c, v := tenSeconds()
	c.next(v)

	v.gone = true
	assert.Equal(t, stop, c.next(v.at(1*s)))
	assert.Equal(t, wait, c.next(v.at(2*s-1)))
	assert.Equal(t, kill, c.next(v.at(2*s)))
	assert.True(t, c.lost)
}

func TestALossWhileStoppingLeavesOneSecond(t *testing.T) {
	c, v := tenSeconds()
	c.next(v)
	v.over = true
	assert.Equal(t, stop, c.next(v.at(1*s)))

	v.gone = true
	assert.Equal(t, wait, c.next(v.at(1500*time.Millisecond)))
	assert.Equal(t, kill, c.next(v.at(2500*time.Millisecond)))
}

func TestMaxRunAndCancellationLeaveTheGrace(t *testing.T) {
	c, v := tenSeconds()
	c.maxRun = 3 * s
	c.next(v)

	assert.Equal(t, stop, c.next(v.at(3*s)))
	assert.Equal(t, wait, c.next(v.at(5*s-1)))
	assert.Equal(t, kill, c.next(v.at(5*s)))
	assert.True(t, c.tooLong)
	assert.False(t, c.lost)

	c, v = tenSeconds()
	v.over = true
	assert.Equal(t, stop, c.next(v.at(1*s)))
	assert.Equal(t, kill, c.next(v.at(3*s)))
	assert.False(t, c.lost)
}

func TestTheRestOfTheGroupIsWaitedFor(t *testing.T) {
	c, v := tenSeconds()
	v.exited = true
	assert.Equal(t, wait, c.next(v.at(1*s)))
	assert.Equal(t, Held, c.state(v.at(1*s)))
	assert.False(t, c.rests(v.at(2*s-1)))
	assert.True(t, c.rests(v.at(2*s)))
	assert.Equal(t, end, c.next(v.at(3*s).dead()), "without a kill: nothing wants it to end")
	assert.False(t, c.lost)
}

func TestTheRestOfTheGroupIsStoppedAsTheCommand(t *testing.T) {
	for name, change := range map[string]func(*policy, *view){
		"near the deadline":   func(_ *policy, v *view) { v.left = 2 * s },
		"after a loss":        func(_ *policy, v *view) { v.gone = true },
		"when ctx has ended":  func(_ *policy, v *view) { v.over = true },
		"after the --max-run": func(c *policy, _ *view) { c.maxRun = 1 },
	} {
		c, v := tenSeconds()
		v.exited = true
		v = v.at(1 * s)
		c.next(v)
		change(c, &v)

		assert.Equal(t, stop, c.next(v), name)
		assert.Equal(t, wait, c.next(v), name)
		assert.False(t, c.rests(v.at(9*s)), name)
		assert.Equal(t, kill, c.next(v.at(3*s)), "%s: after the grace, or at the deadline", name)
	}
}

func TestWithLeaveTheRestOfTheGroupIsLeft(t *testing.T) {
	c, v := tenSeconds()
	c.leave = true
	v.exited = true
	assert.Equal(t, end, c.next(v.at(1*s)))
}

func TestTheRestOfTheGroupIsKilledAfterSIGTERM(t *testing.T) {
	c, v := tenSeconds()
	c.mustEnd = true
	assert.Equal(t, wait, c.next(v.at(1*s)), "SIGTERM sets no time limit for the command")
	v.exited = true
	assert.Equal(t, wait, c.next(v.at(5*s)))
	assert.Equal(t, kill, c.next(v.at(7*s)))
	assert.Equal(t, end, c.next(v.at(7*s).dead()))
	assert.False(t, c.lost)
}

func TestWithKeepOnALossIsOnlyReported(t *testing.T) {
	c, v := tenSeconds()
	c.keepOn = true
	c.next(v)

	assert.Equal(t, wait, c.next(v.at(9*s)))
	late := v.at(11 * s)
	late.left, late.gone = 0, true
	assert.Equal(t, wait, c.next(late))
	assert.Equal(t, Lost, c.state(late))
	assert.Equal(t, end, c.next(late.dead()))
	assert.True(t, c.lost)
}

func TestTheStateIsSuspectWhileARenewalIsOverdue(t *testing.T) {
	c, v := tenSeconds()
	state := func(v view) State {
		c.next(v)
		return c.state(v)
	}

	assert.Equal(t, Held, state(v))
	assert.Equal(t, Held, state(v.at(4*s-1)))
	assert.Equal(t, Suspect, state(v.at(4*s)))
	v = v.at(5 * s)
	v.left = 10 * s
	assert.Equal(t, Held, state(v))
	assert.Equal(t, Stopping, state(v.at(13*s)))
	assert.Equal(t, Lost, state(v.at(15*s)))
}

// The first renewal of a session in a ZooKeeper ensemble comes after most of what is between
// the opening and the deadline; the next ones come soon after it.
func TestAFirstRenewalThatComesLateIsInTime(t *testing.T) {
	const least = 6 * s
	c := newPolicy(Spec{Grace: least / 2, Least: least}, 0)
	v := view{left: 13500 * time.Millisecond}

	for renewal := 7500 * time.Millisecond; renewal < 60*s; renewal += 2500 * time.Millisecond {
		for now := time.Duration(v.now); now <= renewal; now += 50 * time.Millisecond {
			assert.Equal(t, wait, c.next(v.at(now)), now)
			assert.Equal(t, Held, c.state(v.at(now)), now)
		}
		v = v.at(renewal)
		v.left += 2500 * time.Millisecond
	}
}

func TestWakeIsTheTimeToTheNextDecision(t *testing.T) {
	c, v := tenSeconds()
	c.maxRun = 5 * s
	c.next(v)

	assert.Equal(t, maxWait, c.wake(v), "at most: a timer does not run while a machine sleeps")
	assert.Equal(t, 100*time.Millisecond, c.wake(v.at(3900*time.Millisecond)), "suspect")
	assert.Equal(t, 100*time.Millisecond, c.wake(v.at(4900*time.Millisecond)), "max-run")
	assert.Equal(t, 100*time.Millisecond, c.wake(v.at(7900*time.Millisecond)), "the grace")
	c.next(v.at(8 * s))
	assert.Equal(t, 100*time.Millisecond, c.wake(v.at(9900*time.Millisecond)), "the deadline")
}
