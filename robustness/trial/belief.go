package trial

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/session/driver"
)

// Poll is how often a hold is asked whether it is still there.
const Poll = 2 * time.Millisecond

// Now is the time on the clock that all processes of this machine share, and that
// goes on while a process is stopped.
func Now() history.Instant { return history.Instant(driver.SystemClock().Now()) }

// Belief is a hold, asked all the time whether it is still there. What it says
// goes into the record of an attempt.
type Belief struct {
	hold Hold
	stop chan struct{}
	done chan struct{}

	mu sync.Mutex
	a  history.Attempt
}

// Believe asks from now on, in a goroutine that ends with Release or Leave. The
// record begins as a, of the attempt that gave the hold.
func Believe(h Hold, a history.Attempt) *Belief {
	b := &Belief{hold: h, a: a, stop: make(chan struct{}), done: make(chan struct{})}
	go b.ask()
	return b
}

// Attempt is the record as it is now.
func (b *Belief) Attempt() history.Attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.a
}

// Over says whether the hold has said that it is over, by an answer or by the end
// of its context.
func (b *Belief) Over() bool {
	a := b.Attempt()
	return a.Over != 0 || a.Told != 0
}

// Leave stops asking, and leaves the hold as it is.
func (b *Belief) Leave() history.Attempt {
	b.end()
	return b.Attempt()
}

// Release stops asking, gives the hold back, and says how that went. What goes
// wrong is in the record as Pending: it may have happened or not.
func (b *Belief) Release(ctx context.Context) history.Attempt {
	b.end()
	b.update(func(a *history.Attempt) { a.Back = Now() })
	outcome, err := b.hold.Release(ctx)
	if err != nil && outcome == history.NotReleased {
		outcome = history.Pending
	}
	b.update(func(a *history.Attempt) {
		a.Outcome, a.Done = outcome, Now()
		if err != nil {
			a.Fault += " release: " + err.Error()
		}
	})
	return b.Attempt()
}

func (b *Belief) end() {
	select {
	case <-b.stop:
	default:
		close(b.stop)
	}
	<-b.done
}

func (b *Belief) ask() {
	defer close(b.done)
	told := b.hold.Told()
	pace := time.NewTicker(Poll)
	defer pace.Stop()
	for {
		asked := Now()
		held := b.hold.Held()
		b.answer(asked, held, Now())
		select {
		case <-b.stop:
			return
		case <-told:
			b.update(func(a *history.Attempt) { a.Told = Now() })
			told = nil // once
		case <-pace.C:
		}
	}
}

// answer takes in one answer. Held is when the question was put and Over when the
// answer was there, so neither errs in favour of the lock.
func (b *Belief) answer(asked history.Instant, held bool, answered history.Instant) {
	b.update(func(a *history.Attempt) {
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

func (b *Belief) update(f func(*history.Attempt)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.a)
}
