package term

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// janitor removes what requests and holds have left at the service. Each job is a goroutine
// that repeats the removal until it succeeds, or until the service session is closed, which
// removes everything.
//
// A job uses a place among the attempts only while it sends. So jobs that cannot succeed,
// for example because a permission was revoked, never delay the others.
//
// A job ends in one of three ways, and its goroutine with it:
//
//	f has returned nil         what was to be removed is gone
//	f has returned ErrClosed   nothing can be sent any more, and the service session expires
//	giveUp                     the term was lost, or its service session is being closed
//
// ErrSessionOver ends no job: the term learns of that too, and gives up all jobs then.
type janitor struct {
	// ctx ends when the jobs are given up: with a term that is lost, and of one that Close has ended
	// when its service session is closed. It ends under the mutex of the Term.
	ctx  context.Context
	stop context.CancelFunc

	// One for each attempt that is under way. Close waits for releases, so they have places of
	// their own: it can find thousands of waiters, whose entries all leave then.
	cleaning, releasing chan struct{}
}

// The limits of a janitor: how many attempts of each sort go on at once, how long one may take, and
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
	return janitor{ctx: ctx, stop: stop, cleaning: make(chan struct{}, maxAttempts), releasing: make(chan struct{}, maxAttempts)}
}

// Clean has f called, in the background, until it returns nil. f removes something that may
// be left at the service, and must be idempotent. f is given up when the term is lost, or
// the service session closed: what it would remove ends with that. Until then it works also
// when Close has ended the term.
func (t *Term) Clean(f func(context.Context) error) {
	t.job(t.janitor.cleaning, 0, f, func() {})
}

// ReleaseLater has f called after a wait, as Clean does, and then calls Released: when f has
// succeeded, or is given up. Unlike for Clean, Close waits for it.
func (t *Term) ReleaseLater(wait time.Duration, f func(context.Context) error) {
	t.job(t.janitor.releasing, wait, f, t.Released)
}

// Keep is ReleaseLater for a lock that was released, and only stays for a while. A Close that does not
// wait as long reports that, and does not warn.
func (t *Term) Keep(name string, wait time.Duration, f func(context.Context) error) {
	t.mu.Lock()
	t.kept = append(t.kept, &name)
	t.mu.Unlock()
	t.job(t.janitor.releasing, wait, f, func() {
		t.mu.Lock()
		t.kept = slices.DeleteFunc(t.kept, func(o *string) bool { return o == &name })
		t.mu.Unlock()
		t.Released()
	})
}

// Cleaning returns the context of the jobs, which ends when they are given up.
func (t *Term) Cleaning() context.Context { return t.janitor.ctx }

// job starts a job, whose attempts have places in busy. done is called once, when the job is over: it
// has succeeded, or the janitor has given it up. A janitor that has given up before starts nothing, and
// then the caller's own goroutine calls done: so the caller holds no mutex that done takes.
func (t *Term) job(busy chan struct{}, wait time.Duration, f func(context.Context) error, done func()) {
	job := func() {
		defer done()
		backoff := driver.Backoff{Least: minCleanBackoff}
		for wait == 0 || driver.Sleep(t.janitor.ctx, t.clock, wait) {
			err := t.attempt(busy, f)
			if err == nil || errors.Is(err, driver.ErrClosed) { // nothing can be sent any more
				return
			}
			t.cfg.Logger.Debug("fairlock: cleaning up, not certain yet", "session", t.id, "err", err)
			backoff.Most = maxCleanBackoff
			if driver.Incurable(err) {
				backoff.Most = refusedBackoff
			}
			wait = backoff.Next(t.clock)
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

// attempt calls f as soon as fewer than maxAttempts are under way in busy.
//
//nolint:contextcheck // what is left behind outlives the request
func (t *Term) attempt(busy chan struct{}, f func(context.Context) error) error {
	ctx := t.janitor.ctx
	select {
	case busy <- struct{}{}:
		defer func() { <-busy }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // also if there was a place at the same moment
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
