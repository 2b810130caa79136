package trial

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/session/driver"
)

// Poll is the interval at which a hold is asked whether it still holds.
const Poll = 2 * time.Millisecond

// Now returns the time on the clock that all processes of this machine share. The clock
// goes on while a process is stopped.
func Now() history.Instant { return history.Instant(driver.SystemClock().Now()) }

// Monitor polls a hold, and records its answers in the record of its attempt.
type Monitor struct {
	hold  Hold
	quiet bool
	stop  chan struct{}
	done  chan struct{}

	mu sync.Mutex
	a  history.Attempt
}

// StartMonitor polls h in a goroutine that ends with Release or Leave. The record
// begins as a, the record of the attempt that returned h. A quiet Monitor asks h nothing
// until the context of h has ended. Remaining of a Hold of Fairlock ends the session at the
// deadline, so only a hold that nobody asks depends on the timer of the deadline.
func StartMonitor(h Hold, a history.Attempt, quiet bool) *Monitor {
	m := &Monitor{hold: h, quiet: quiet, a: a, stop: make(chan struct{}), done: make(chan struct{})}
	go m.poll()
	return m
}

// Attempt returns the record as it is now.
func (m *Monitor) Attempt() history.Attempt {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.a
}

// Over reports whether the hold has reported that it is over: as an answer, or by the
// end of its context.
func (m *Monitor) Over() bool {
	a := m.Attempt()
	return a.Over != 0 || a.Told != 0
}

// Leave stops polling and does not release the hold.
func (m *Monitor) Leave() history.Attempt {
	m.end()
	return m.Attempt()
}

// Release stops polling, releases the hold, and records the outcome. A release that
// failed is Pending in the record: it may have happened or not.
func (m *Monitor) Release(ctx context.Context) history.Attempt {
	m.end()
	m.update(func(a *history.Attempt) { a.Back = Now() })
	outcome, err := m.hold.Release(ctx)
	if err != nil && outcome == history.NotReleased {
		outcome = history.Pending
	}
	m.update(func(a *history.Attempt) {
		a.Outcome, a.Done = outcome, Now()
		if err != nil {
			a.Fault += " release: " + err.Error()
		}
	})
	return m.Attempt()
}

// Resign stops polling before an election releases the hold, and records that. Whether the release takes effect
// is not known.
func (m *Monitor) Resign(ctx context.Context) history.Attempt {
	until(ctx, noticeTime, func() bool {
		a := m.Attempt()
		return a.Told != 0 || a.Over == 0 && !isClosed(m.hold.Done())
	})
	m.end()
	m.update(func(a *history.Attempt) {
		a.Back, a.Outcome = Now(), history.Pending
		if a.Told != 0 {
			a.Outcome = history.Lost
		}
	})
	return m.Attempt()
}

func (m *Monitor) end() {
	select {
	case <-m.stop:
	default:
		close(m.stop)
	}
	<-m.done
}

func (m *Monitor) poll() {
	defer close(m.done)
	done, quiet := m.hold.Done(), m.quiet
	pace := time.NewTicker(Poll)
	defer pace.Stop()
	for {
		if !quiet {
			asked := Now()
			held := m.hold.Held()
			m.record(asked, held, Now())
		}
		select {
		case <-m.stop:
			return
		case <-done:
			m.update(func(a *history.Attempt) { a.Told = Now() })
			done, quiet = nil, false // once
		case <-pace.C:
		}
	}
}

// record records one answer. Held is when the hold was asked, and Over is when it had
// answered, so neither errs in favour of the lock.
func (m *Monitor) record(asked history.Instant, held bool, answered history.Instant) {
	m.update(func(a *history.Attempt) {
		switch {
		case held && a.Over == 0:
			a.Held = asked
		case held && a.Lied == 0:
			a.Held, a.Lied = asked, asked
		case held:
			a.Held = asked
		case a.Over == 0:
			a.Over = answered
		}
	})
}

func (m *Monitor) update(f func(*history.Attempt)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.a)
}
