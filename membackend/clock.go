package membackend

import (
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// clock is a client's clock: package time's, except that a stalled process
// runs no timers.
type clock struct{ c *Client }

func (k clock) Now() driver.Instant {
	if k.c.wire != nil {
		return k.c.wire.Now()
	}
	// An hour ahead of zero, so that no Instant is mistaken for "never".
	return driver.Instant(time.Since(k.c.st.origin) + time.Hour)
}

func (k clock) Wall() time.Time {
	if k.c.wire != nil {
		return k.c.wire.Wall()
	}
	return time.Now()
}

// Jitter makes chance the schedule's where there is one, see driver.Jitter.
func (k clock) Jitter(d time.Duration) time.Duration {
	if k.c.wire != nil {
		return driver.Jitter(k.c.wire, d)
	}
	return driver.Jitter(driver.SystemClock(), d)
}

func (k clock) AfterFunc(d time.Duration, f func()) func() bool {
	if k.c.wire != nil {
		return k.c.wire.AfterFunc(d, f)
	}
	t := k.after(d, f)
	return func() bool {
		k.c.st.mu.Lock()
		defer k.c.st.mu.Unlock()
		return t.stop()
	}
}

// timer calls a function once, unless it is stopped before.
type timer struct {
	t    *time.Timer
	done bool        // called or stopped; guarded by the Store's mutex
	end  func() bool // stops a schedule's timer, which is nothing else
}

// after is AfterFunc for who has the mutex. While the client is stalled, f is
// kept back, and can be stopped all the same.
func (k clock) after(d time.Duration, f func()) *timer {
	c, t := k.c, &timer{}
	if c.wire != nil {
		t.end = c.wire.AfterFunc(d, f)
		return t
	}
	t.t = time.AfterFunc(d, func() {
		c.st.mu.Lock()
		if c.stalled {
			c.held = append(c.held, func() {
				if t.take() {
					go f()
				}
			})
			c.st.mu.Unlock()
			return
		}
		run := t.take()
		c.st.mu.Unlock()
		if run {
			f()
		}
	})
	return t
}

// take gives the timer's end to one caller: who calls f, or who stopped it.
func (t *timer) take() bool {
	first := !t.done
	t.done = true
	return first
}

// stop needs the mutex. A nil timer is stopped.
func (t *timer) stop() bool {
	if t == nil {
		return false
	}
	if t.end != nil {
		return t.end()
	}
	t.t.Stop()
	return t.take()
}
