package election

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

const (
	// stepEvery is how long a candidate waits at least from one step to the next.
	stepEvery = time.Second

	// stepWait is how long a candidate that is granted during a step waits for its new place.
	stepWait = 5 * time.Second

	// minSettle is the least default of Options.Settle.
	minSettle = 10 * time.Second
)

// candidate is one call of Campaign that knows its place in the queue. Its states:
//
//	waits   it has an entry, further back, or has lost it and joins again
//	next    one entry is ahead: Options.Next runs, and Front shows what is behind
//	steps   a second request joins behind a newer candidate, while the first keeps its place
//	leads   Campaign returns the hold, and Run has handOver watch
//
// A step is over when the second entry has its place: then the first one leaves. If the first was
// granted meanwhile, it is released unused, so that a step costs no change of the leader. If the second
// cannot join, the first keeps its place.
//
// The caller's goroutine runs campaign and has all the state. The others are one for each bid, one for
// each place, which ends with the bid or the entry, and one for Next. campaign waits for all of them;
// afterwards nothing is left but the hold that it returns, and perhaps the release of one that was
// not used.
type candidate struct {
	e      *Election
	ctx    context.Context //nolint:containedctx // of the one call
	cancel context.CancelFunc
	value  string

	work sync.WaitGroup
	news chan news

	last    news           // of the present entry
	stepped driver.Instant // when the last step began; 0: never
	cool    func()         // ends Options.Next and waits for that; nil unless it was called

	// wake has an element when a step may be due that had to wait; stopWake stops the timer of that, and
	// is nil if there is none.
	wake     chan struct{}
	stopWake func() bool
}

// bid is one request for the leadership.
type bid struct {
	ctx    context.Context //nolint:containedctx // of the one request
	cancel context.CancelFunc

	ended chan struct{} // closed when the request has ended, with a hold or an error
	h     *session.Hold
	err   error

	unfollow func() // ends what follows the place before; nil if there was none
}

// news is what is known of the place of a bid.
type news struct {
	of    *bid
	at    int // in the queue; -1: not yet, or no longer, the first or the next one
	first []engine.Candidate
}

func newCandidate(ctx context.Context, e *Election, value string) *candidate {
	c := &candidate{e: e, value: value, news: make(chan news), wake: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// campaign is Campaign.
func (c *candidate) campaign() (*session.Hold, error) {
	defer c.work.Wait()
	defer c.cancel()
	defer func() {
		if c.stopWake != nil {
			c.stopWake()
		}
	}()
	now := c.bid()
	var step *bid
	var stepEnded chan struct{}
	for {
		moves := false
		select {
		case n := <-c.news:
			moves = n.of == step
			if n.of == now {
				c.last = n
			}
		case <-c.wake:
			c.stopWake = nil
		case <-stepEnded:
			moves = step.h != nil // the first entry was lost
			if !moves {           // it cannot join: the place stays
				step, stepEnded = nil, nil
			}
		case <-now.ended:
			moves = now.h != nil && step != nil && c.placed(step)
			if !moves {
				c.next(false)
				if step != nil {
					c.withdraw(step)
				}
				return now.h, now.err
			}
		}
		switch {
		case moves:
			c.withdraw(now)
			now, step, stepEnded, c.last = step, nil, nil, news{at: -1}
			c.e.inner().Logger().Info("fairlock: a candidate has stepped behind a newer one", "name", c.e.name, "generation", c.e.opts.Generation)
		case step == nil && c.steps():
			step = c.bid()
			stepEnded = step.ended
		}
		c.next(c.last.at == 1 && step == nil)
	}
}

// bid starts a request for the leadership.
func (c *candidate) bid() *bid {
	b := &bid{ended: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancel(c.ctx)
	c.work.Go(func() {
		defer close(b.ended)
		b.h, b.err = c.e.acquire(b.ctx, c.value, func(p engine.Place) { c.follow(b, p) })
	})
	return b
}

// withdraw ends a request. If it was granted, its hold is released unused. campaign does not wait for
// that, because it returns as soon as its context has ended.
func (c *candidate) withdraw(b *bid) {
	b.cancel()
	go func() { // ends with the request, or with Unlock, which waits for a second at most
		<-b.ended
		if b.h != nil {
			_ = b.h.Unlock() // without an answer, the session repeats it
		}
	}()
}

// follow reports the place that a bid has now, and what becomes of it.
func (c *candidate) follow(b *bid, p engine.Place) {
	if b.unfollow != nil {
		b.unfollow()
	}
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan struct{})
	b.unfollow = func() { cancel(); <-ended }
	report := func(at int, first []engine.Candidate) {
		select {
		case c.news <- news{b, at, first}:
		case <-ctx.Done():
		}
	}
	c.work.Go(func() {
		defer close(ended)
		defer cancel()
		report(-1, nil)
		p.Front(ctx, report)
		report(-1, nil)
	})
}

// placed waits until a step has its place, and reports whether it has.
func (c *candidate) placed(step *bid) bool {
	ctx, cancel := driver.WithTimeout(c.ctx, c.e.inner().Clock(), stepWait)
	defer cancel()
	for {
		select {
		case n := <-c.news:
			if n.of == step {
				return true
			}
		case <-step.ended:
			return step.h != nil
		case <-ctx.Done():
			return false
		}
	}
}

// steps reports whether a step begins now: the candidate is next, a newer one is behind, and the leader
// ahead is not newer. If the last step was too short a time ago, campaign asks again later.
func (c *candidate) steps() bool {
	q := c.last.first
	if c.last.at != 1 || c.e.newer(q[0]) || !slices.ContainsFunc(q[2:], c.e.newer) {
		return false
	}
	clock := c.e.inner().Clock()
	since := clock.Now().Sub(c.stepped)
	if c.stepped != 0 && since < stepEvery {
		if c.stopWake == nil {
			c.stopWake = clock.AfterFunc(stepEvery-since, func() { c.wake <- struct{}{} })
		}
		return false
	}
	c.stepped = clock.Now()
	return true
}

// next has Options.Next run while the candidate is the next one.
func (c *candidate) next(is bool) {
	switch {
	case c.e.opts.Next == nil:
	case is && c.cool == nil:
		ctx, cancel := context.WithCancel(c.ctx)
		done := make(chan struct{})
		c.cool = func() { cancel(); <-done }
		c.work.Go(func() {
			defer close(done)
			c.e.opts.Next(ctx)
		})
	case !is && c.cool != nil:
		c.cool()
		c.cool = nil
	}
}

// newer reports whether another candidate is of a higher generation.
func (e *Election) newer(o engine.Candidate) bool {
	return e.opts.Generation > 0 && o.Generation > e.opts.Generation
}

// handedTo has the generations to which a Run has handed over.
type handedTo map[int64]bool

// handOver ends a leadership with ErrHandOver when the same newer candidate has been the next one for
// Settle, unless the Run has handed over to that generation before. It returns when ctx ends.
func (e *Election) handOver(ctx context.Context, h *session.Hold, given handedTo, end context.CancelCauseFunc) {
	clock := e.inner().Clock()
	var next driver.Ref
	var to atomic.Int64
	stop := func() bool { return true }
	session.Engine(door.Key{}).Hold(h).Place().Front(ctx, func(_ int, first []engine.Candidate) {
		var newer engine.Candidate
		if len(first) > 1 && e.newer(first[1]) && !given[first[1].Generation] {
			newer = first[1]
		}
		if newer.Ref == next {
			return
		}
		stop()
		next = newer.Ref
		if next.Zero() {
			return
		}
		settle := e.opts.Settle
		if settle == 0 {
			settle = max(minSettle, newer.TTL*5/4)
		}
		stop = clock.AfterFunc(settle, func() {
			to.Store(newer.Generation)
			end(ErrHandOver)
		})
	})
	stop()
	if errors.Is(context.Cause(ctx), ErrHandOver) {
		given[to.Load()] = true
		e.inner().Logger().Info("fairlock: the leadership is handed over", "name", e.name, "generation", e.opts.Generation, "to", to.Load())
	}
}
