package session

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// janitor removes what requests and holds have left at the service. Each job is a
// goroutine that attempts the removal until it succeeds, or until the service session is
// closed, which removes everything.
//
// A job that rests after a failure keeps no slot. So jobs that cannot succeed, for
// example because a permission was revoked, never keep the others waiting.
type janitor struct {
	ctx   context.Context // ends when the jobs are given up
	stop  context.CancelFunc
	slots chan struct{} // one for each attempt that is under way
}

// The limits of a janitor: how many attempts go on at once, how long one may take, and
// how long a job rests after a failure: minRest at first, twice as long each time, up to
// maxRest, or to refusedRest while the service refuses the request.
const (
	maxAttempts  = 32
	cleanTimeout = 5 * time.Second
	minRest      = 20 * time.Millisecond
	maxRest      = time.Second
	refusedRest  = 10 * time.Second
)

func newJanitor() janitor {
	ctx, stop := context.WithCancel(context.Background())
	return janitor{ctx: ctx, stop: stop, slots: make(chan struct{}, maxAttempts)}
}

// Clean implements door.Term.
func (t *term) Clean(f func(context.Context) error) {
	if t.ctx.Err() == nil {
		t.tidy(0, f, func() {})
	}
}

// tidy is Clean after a wait, for a job that goes on while Session.Close waits. done is
// called when the job is over: it has succeeded, or the janitor has given it up.
func (t *term) tidy(wait time.Duration, f func(context.Context) error, done func()) {
	job := func() {
		defer done()
		rest := minRest
		for wait == 0 || driver.Sleep(t.janitor.ctx, t.s.clock, wait) {
			err := t.attempt(f)
			if err == nil || errors.Is(err, driver.ErrClosed) { // nothing can be sent any more
				return
			}
			t.s.opts.Logger.Debug("fairlock: cleaning up, not certain yet", "session", t.id, "err", err)
			most := maxRest
			if driver.Incurable(err) {
				most = refusedRest
			}
			wait, rest = min(rest, most), min(2*rest, most)
		}
	}
	t.mu.Lock()
	over := t.janitor.ctx.Err() != nil
	if !over { // under the mutex: after giveUp no job begins
		t.workers.Go(job)
	}
	t.mu.Unlock()
	if over {
		done()
	}
}

// attempt calls f as soon as there is a slot.
//
//nolint:contextcheck // what is left behind outlives the request
func (t *term) attempt(f func(context.Context) error) error {
	ctx := t.janitor.ctx
	select {
	case t.janitor.slots <- struct{}{}:
		defer func() { <-t.janitor.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := driver.WithTimeout(ctx, t.s.clock, cleanTimeout)
	defer cancel()
	return f(ctx)
}

// giveUp ends all jobs. An attempt that is under way finds its context cancelled.
func (t *term) giveUp() {
	t.mu.Lock()
	t.janitor.stop()
	t.mu.Unlock()
}
