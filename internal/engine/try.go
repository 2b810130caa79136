package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// tryTimeout is how long a try goes on while the service does not answer.
const tryTimeout = 5 * time.Second

// errMustWait: a try would have to wait.
var errMustWait = errors.New("another entry is ahead")

// try is acquire for requests that are not to wait. A timeout is not
// session.ErrNotAcquired, nor is the end of ctx before there is an answer: it is not known
// whether the lock is free. So the cause of ctx is not in the chain of the error: it can be the
// session.ErrNotAcquired of another try, if an errgroup ended ctx with that.
func (c *call) try(ctx context.Context) (*session.Hold, error) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	clock := Core().Of(c.s).Clock()
	stop := clock.AfterFunc(tryTimeout, cancel)
	defer func() { stop() }()
	delayed := false
	c.delays = func(d time.Duration) {
		if d == 0 && !delayed {
			return
		}
		delayed = d > 0
		stop()
		stop = clock.AfterFunc(d+tryTimeout, cancel)
	}
	h, err := c.acquire(inner)
	e, ok := errors.AsType[*session.NotAcquiredError](err)
	if !ok || e.Err == nil {
		return h, err
	}
	ended, unavailable := ctx.Err() != nil, errors.Is(e.Err, session.ErrUnavailable)
	switch {
	case ended && delayed: // the service has answered: the delay was what it waited for
		return nil, err
	case ended && unavailable: // its text has the cause of ctx, and why no session could be opened
		return nil, fmt.Errorf("%w: %w: %s", session.ErrUnavailable, ctx.Err(), e.Err.Error())
	case ended:
		return nil, driver.ContextError(ctx)
	case unavailable:
		return nil, fmt.Errorf("no answer within %s: %w", tryTimeout, e.Err)
	}
	return nil, fmt.Errorf("%w: no answer within %s", session.ErrUnavailable, tryTimeout)
}

// mustWait finds out by a read whether a try has to wait, so that nothing is written if so,
// and returns why. Nil promises nothing: others may join before.
func mustWait(ctx context.Context, t term, r Request) error {
	req := driver.ReadRequest{Queue: r.Name, Marks: true}
	if r.Rule.Limited {
		req.Records = []string{rule.RecordLimit}
	}
	v, err := t.Driver().Read(ctx, req)
	if err != nil || len(v.Entries) == 0 {
		return err //nolint:wrapcheck // the backend's own error
	}
	limit, err := rule.LimitOf(r.Name, v.Records[rule.RecordLimit])
	if err != nil {
		return err
	}
	ahead := rule.Ahead{Complete: true, Count: len(v.Entries), Limit: limit}
	switch {
	case !r.Rule.Limited:
	case ahead.Limit == 0:
		return nil // the join makes it
	case ahead.Limit != r.Limit && !r.Follow:
		return &rule.LimitError{Limit: ahead.Limit, Asked: r.Limit}
	}
	for i := range v.Entries {
		ahead.Entries = append(ahead.Entries, &v.Entries[i])
	}
	mine := driver.Entry{Ref: driver.Ref{Queue: r.Name, Place: math.MaxInt64}, Mode: r.Mode, Weight: r.Weight}
	switch d := r.Rule.Decide(ahead, &mine); {
	case d.Never:
		return errWeight(r.Weight, ahead.Limit)
	case d.Hold:
		return nil
	}
	return &driver.TakenError{Queue: r.Name, First: v.Entries[0], Count: len(v.Entries)}
}

// shown returns the first entry of a queue as errors show it; a zero one stays zero.
func shown(first driver.Entry) session.Entry {
	if first.Zero() {
		return session.Entry{}
	}
	return Core().Entry(1, true, first)
}

// first is a read of the first entry of a queue for errors. A thousand requests that give
// up at once share one.
type first struct {
	done  chan struct{} // closed when it has returned
	entry driver.Entry  // zero if it is not known; set then
	until driver.Instant
}

// firstKept is how long an answer is good enough for an error's text.
const firstKept = 100 * time.Millisecond

// firstEntry returns the first entry of a queue, a zero one if that cannot be learned before
// ctx or the term ends.
func (e *engine) firstEntry(ctx context.Context, q *queue) driver.Entry {
	e.mu.Lock()
	f := q.head
	if f == nil || f.until != 0 && f.until <= e.clock.Now() {
		f = &first{done: make(chan struct{})}
		q.head = f
		e.t.Go(func(ctx context.Context) {
			ctx, cancel := driver.WithTimeout(ctx, e.clock, time.Second)
			defer cancel()
			entry, err := readFirst(ctx, e.s, q.name, false)
			e.mu.Lock()
			defer e.mu.Unlock()
			f.entry, f.until = entry, e.clock.Now().Add(firstKept)
			if err != nil || entry.Zero() {
				q.head = nil
			}
			close(f.done)
		})
	}
	e.mu.Unlock()
	select {
	case <-f.done:
		return f.entry
	case <-ctx.Done():
	case <-e.t.Context().Done():
	}
	return driver.Entry{}
}

// readFirst reads the first entry of a queue, a zero one if the queue is empty; as it is
// now, if fresh.
func readFirst(ctx context.Context, s driver.Session, name string, fresh bool) (driver.Entry, error) {
	v, err := s.Read(ctx, driver.ReadRequest{Queue: name, Nearest: 1, Marks: true, Detail: true, Fresh: fresh})
	if err != nil || len(v.Entries) == 0 {
		return driver.Entry{}, err //nolint:wrapcheck // the backend's own error
	}
	return v.Entries[0], nil
}
