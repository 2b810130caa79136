package session

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// janitor removes what requests have left at the service, until that is certain
// or the term is over: then everything dies with the service session.
type janitor struct {
	mu      sync.Mutex
	queue   []func(context.Context) error
	workers int
}

// The janitor's manners: how many removals run at once, how long one try may
// take, and how long it rests after a failure.
const (
	maxWorkers   = 32
	cleanTimeout = 5 * time.Second
	minRest      = 20 * time.Millisecond
	maxRest      = time.Second
)

// Clean has f called, in the background, until it returns nil. f removes
// something that may be left at the service and is idempotent. Nothing of it
// outlives the term.
func (t *Term) Clean(f func(context.Context) error) {
	j := &t.janitor
	j.mu.Lock()
	defer j.mu.Unlock()
	if t.ctx.Err() != nil {
		return
	}
	j.queue = append(j.queue, f)
	if j.workers < maxWorkers {
		j.workers++
		t.Go(t.sweep)
	}
}

// sweep works through the queue. It ends when the queue is empty or the term is
// over.
func (t *Term) sweep(ctx context.Context) {
	j := &t.janitor
	for {
		j.mu.Lock()
		if len(j.queue) == 0 || ctx.Err() != nil {
			j.queue = nil
			j.workers--
			j.mu.Unlock()
			return
		}
		f := j.queue[0]
		j.queue = j.queue[1:]
		j.mu.Unlock()
		t.insist(ctx, f)
	}
}

// insist calls f until it succeeds or the term is over.
func (t *Term) insist(ctx context.Context, f func(context.Context) error) {
	rest := minRest
	for ctx.Err() == nil {
		try, cancel := driver.WithTimeout(ctx, t.s.clock, cleanTimeout)
		err := f(try)
		cancel()
		if err == nil {
			return
		}
		t.s.opts.Logger.Debug("fairlock: cleaning up, not certain yet", "session", t.drv.ID(), "err", err)
		if !driver.Sleep(ctx, t.s.clock, rest) {
			return
		}
		rest = min(2*rest, maxRest)
	}
}
