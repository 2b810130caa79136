package term

import (
	"context"
	"errors"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// janitor removes what requests and holds have left at the service. Each job is a goroutine
// that repeats the removal until it succeeds, or until the service session is closed, which
// removes everything.
//
// A job uses a place among the attempts only while it sends. So jobs that cannot succeed,
// for example because a permission was revoked, never delay the others.
type janitor struct {
	ctx  context.Context // ends when the jobs are given up
	stop context.CancelFunc
	busy chan struct{} // one for each attempt that is under way
}

// The limits of a janitor: how many attempts go on at once, how long one may take, and
// the backoff of a job after a failure. It doubles each time, up to maxCleanBackoff, or
// to refusedBackoff while the service refuses the request.
const (
	maxAttempts     = 32
	cleanTimeout    = 5 * time.Second
	minCleanBackoff = 20 * time.Millisecond
	maxCleanBackoff = time.Second
	refusedBackoff  = 10 * time.Second
)

func newJanitor() janitor {
	ctx, stop := context.WithCancel(context.Background())
	return janitor{ctx: ctx, stop: stop, busy: make(chan struct{}, maxAttempts)}
}

// Clean has f called, in the background, until it returns nil. f removes something that may
// be left at the service, and must be idempotent. f is given up when the term is lost, or
// the service session closed: what it would remove ends with that. Until then it works also
// when Close has ended the term.
func (t *Term) Clean(f func(context.Context) error) { t.job(0, f, func() {}) }

// ReleaseLater has f called after a wait, as Clean does, and then calls Released: when f has
// succeeded, or is given up. Unlike for Clean, Close waits for it.
func (t *Term) ReleaseLater(wait time.Duration, f func(context.Context) error) {
	t.job(wait, f, t.Released)
}

// Cleaning returns the context of the jobs, which ends when they are given up.
func (t *Term) Cleaning() context.Context { return t.janitor.ctx }

// job starts a job. done is called when the job is over: it has succeeded, or the janitor
// has given it up.
func (t *Term) job(wait time.Duration, f func(context.Context) error, done func()) {
	job := func() {
		defer done()
		backoff := minCleanBackoff
		for wait == 0 || driver.Sleep(t.janitor.ctx, t.clock, wait) {
			err := t.attempt(f)
			if err == nil || errors.Is(err, driver.ErrClosed) { // nothing can be sent any more
				return
			}
			t.cfg.Logger.Debug("fairlock: cleaning up, not certain yet", "session", t.id, "err", err)
			longest := maxCleanBackoff
			if driver.Incurable(err) {
				longest = refusedBackoff
			}
			wait, backoff = min(backoff, longest), min(2*backoff, longest)
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

// attempt calls f as soon as fewer than maxAttempts are under way.
//
//nolint:contextcheck // what is left behind outlives the request
func (t *Term) attempt(f func(context.Context) error) error {
	ctx := t.janitor.ctx
	select {
	case t.janitor.busy <- struct{}{}:
		defer func() { <-t.janitor.busy }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := driver.WithTimeout(ctx, t.clock, cleanTimeout)
	defer cancel()
	return f(ctx)
}

// giveUp ends all jobs. An attempt that is under way finds its context cancelled.
func (t *Term) giveUp() {
	t.mu.Lock()
	t.janitor.stop()
	t.mu.Unlock()
}
