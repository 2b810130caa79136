package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fairlock/fairlock/next/driver"
)

// janitor removes what requests and holds have left at the service. It tries each
// job until the job succeeds, or until the service session is being closed, which
// removes everything.
//
// A job that fails gives its worker back, and is tried again after a backoff of its
// own, behind the jobs that are ready by then. So jobs that cannot succeed, for
// example because a permission was revoked, never keep the others waiting.
type janitor struct {
	ctx  context.Context // ends when the jobs are given up
	stop context.CancelFunc

	mu      sync.Mutex
	ready   []*job
	resting map[*job]func() bool // jobs that are not due, each with the stop of its timer
	workers int
	over    bool // no job is taken in any more
}

// job is one removal.
type job struct {
	try  func(context.Context) error
	done func() // called once, when the job has succeeded or is given up
	rest time.Duration
}

// The limits of a janitor: how many jobs run at once, how long one attempt may
// take, and how long a job rests after a failure: from minRest on, twice as long
// each time, up to maxRest, or to refusedRest while the service refuses it.
const (
	maxWorkers   = 32
	cleanTimeout = 5 * time.Second
	minRest      = 20 * time.Millisecond
	maxRest      = time.Second
	refusedRest  = 10 * time.Second
)

// Clean has f called, in the background, until it returns nil. f removes
// something that may be left at the service and is idempotent. Nothing of it
// outlives the term.
func (t *term) Clean(f func(context.Context) error) {
	if t.ctx.Err() == nil {
		t.tidy(f, func() {})
	}
}

// tidy is Clean for a job that goes on while Session.Close waits, with a function
// that is called when the job is over.
func (t *term) tidy(f func(context.Context) error, done func()) { t.tidyAfter(0, f, done) }

// tidyAfter is tidy, not before a time has passed.
func (t *term) tidyAfter(wait time.Duration, f func(context.Context) error, done func()) {
	j, o := &t.janitor, &job{try: f, done: done, rest: minRest}
	j.mu.Lock()
	over := j.over
	switch {
	case over:
	case wait > 0:
		j.resting[o] = t.s.clock.AfterFunc(wait, func() { t.rested(o) })
	default:
		t.enqueue(o)
	}
	j.mu.Unlock()
	if over {
		done()
	}
}

// enqueue puts a job behind those that are ready. The caller holds the janitor's
// mutex.
func (t *term) enqueue(o *job) {
	j := &t.janitor
	j.ready = append(j.ready, o)
	if j.workers < maxWorkers {
		j.workers++
		t.workers.Go(t.sweep)
	}
}

// sweep works through the jobs that are ready, and ends when there are none.
func (t *term) sweep() {
	j := &t.janitor
	for {
		j.mu.Lock()
		if len(j.ready) == 0 {
			j.workers--
			j.mu.Unlock()
			return
		}
		o := j.ready[0]
		j.ready = j.ready[1:]
		j.mu.Unlock()
		if t.attempt(o) {
			o.done()
		}
	}
}

// attempt tries a job, and reports whether the job is over. One that is not is
// tried again when it has rested.
func (t *term) attempt(o *job) bool {
	j := &t.janitor
	ctx, cancel := driver.WithTimeout(j.ctx, t.s.clock, cleanTimeout)
	err := o.try(ctx)
	cancel()
	if err == nil || errors.Is(err, driver.ErrClosed) { // nothing can be sent any more
		return true
	}
	t.s.opts.Logger.Debug("fairlock: cleaning up, not certain yet", "session", t.drv.ID(), "err", err)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over {
		return true
	}
	most := maxRest
	if driver.Incurable(err) {
		most = refusedRest
	}
	j.resting[o] = t.s.clock.AfterFunc(min(o.rest, most), func() { t.rested(o) })
	o.rest = min(2*o.rest, most)
	return false
}

// rested makes a job ready again.
func (t *term) rested(o *job) {
	j := &t.janitor
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.resting[o]; ok {
		delete(j.resting, o)
		t.enqueue(o)
	}
}

// giveUp ends all jobs. Those under way find their context cancelled.
func (j *janitor) giveUp() {
	j.mu.Lock()
	j.over = true
	left := j.ready
	for o, stop := range j.resting {
		stop()
		left = append(left, o)
	}
	j.ready, j.resting = nil, nil
	j.mu.Unlock()
	j.stop()
	for _, o := range left {
		o.done()
	}
}
