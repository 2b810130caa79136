package trial

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

// participant is a client of a trial, with one request for the queue.
type participant struct {
	c        Client
	queue    history.Queue
	req      Request
	id       int
	keep     time.Duration // how long it holds; until release if negative
	resource *Resource     // what the queue protects

	follows bool // see history.Attempt.Follows
	stays   bool // as a leader, its work goes on after a loss until release
	begun   bool // start was called; only the script's goroutine uses it

	cancel     context.CancelFunc // of the request's context
	releaseNow chan struct{}      // closed to make it release the lock
	once       sync.Once
	got        chan struct{} // closed when the request has returned
	again      chan struct{} // closed when it leads a second time
	leadsAgain func()        // closes again
	done       chan struct{} // closed when its hold is released, or its request has failed

	mu      sync.Mutex
	ends    history.Instant
	monitor *Monitor // nil if the request failed, or has not returned
	err     error
	a       history.Attempt   // set when the request has failed, or the hold is released
	nested  []history.Attempt // made inside the hold, or after it by a candidate
	fault   string
}

func newParticipant(id int, c Client, queue history.Queue, resource *Resource, req Request, keep time.Duration) *participant {
	again := make(chan struct{})
	return &participant{
		c: c, queue: queue, resource: resource, req: req, id: id, keep: keep, cancel: func() {},
		releaseNow: make(chan struct{}), got: make(chan struct{}), done: make(chan struct{}),
		again: again, leadsAgain: sync.OnceFunc(func() { close(again) }),
	}
}

// start requests the lock in a goroutine. The goroutine releases the lock after keep or
// after release, whichever comes first, and ends soon after end and release.
//
//nolint:contextcheck // the request outlives the step of the script that makes it
func (p *participant) start() {
	p.begun = true
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(p.done)
		defer p.cancel()
		p.run(ctx)
	}()
}

func (p *participant) run(ctx context.Context) {
	if p.req.Generation > 0 {
		p.lead(ctx)
		return
	}
	m, err := acquire(ctx, p.c, p.queue, p.req, history.Attempt{Client: p.id})
	acc := p.granted(m, err)
	if err != nil {
		return
	}
	inner, nested := p.reenter(ctx, m)
	p.hold(p.keep, nil)
	acc.Write()
	// ctx does not bound the release: the trial may have ended it. What the trial does to
	// the connections ends in time.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if inner != nil {
		nested = append(nested, inner.Release(bounded))
	}
	a := m.Release(bounded)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.a, p.nested = a, nested
}

// granted notes what the request has returned, and reads the resource if that is a hold.
func (p *participant) granted(m *Monitor, err error) (acc *Access) {
	if err == nil {
		acc = p.resource.Read(m.Attempt())
	}
	p.mu.Lock()
	p.monitor, p.err = m, err
	var f *failedAttempt
	if errors.As(err, &f) {
		p.a = f.a
		p.a.Failed = err.Error()
	}
	p.mu.Unlock()
	close(p.got)
	return acc
}

// lead is run for a candidate. It leads for keep, or for againTime if it has led before, or until release. It
// campaigns again if the leadership has ended before that. The first leadership is that of attempt; the records
// of the others are in nested.
func (p *participant) lead(ctx context.Context) {
	asks := history.Attempt{Client: p.id, Queue: p.queue.Name, Weight: p.req.Weight, Asked: Now()} // of the campaign that has not returned
	again := func(a history.Attempt) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ends != 0 && p.ends < a.Got {
			a.Ends = p.ends
		}
		p.nested = append(p.nested, a)
	}
	req := p.req
	req.Lead = func(ctx context.Context, h Hold, handsOver func() bool) {
		m := monitorHold(h, asks, req)
		asks.Asked = 0
		first, keep := !p.returned(), p.keep
		var acc *Access
		if first {
			acc = p.granted(m, nil)
		} else {
			acc = p.resource.Read(m.Attempt())
			keep = againTime
			p.leadsAgain()
		}
		resigns := p.hold(keep, ctx.Done())
		switch {
		case resigns:
		case handsOver():
			m.update(func(a *history.Attempt) { a.HandsOver = Now() })
			await(context.WithoutCancel(ctx), nil, workTime)
		case p.stays:
			<-p.releaseNow
			resigns = true
		}
		acc.Write()
		a := m.Resign(context.WithoutCancel(ctx))
		if !first {
			again(a)
		}
		if resigns {
			p.cancel()
			return
		}
		asks.Asked = Now()
	}
	_, err := p.c.Acquire(ctx, p.queue, req)
	if asks.Asked == 0 {
		return
	}
	asks.Got = Now()
	if !p.returned() {
		p.granted(nil, &failedAttempt{a: asks, err: err})
		return
	}
	asks.Failed = err.Error()
	again(asks)
}

// releaseTimeout bounds the release of a peer's lock; Fairlock's Unlock bounds itself.
const releaseTimeout = 15 * time.Second

// reenter acquires the lock once more inside its own hold, if it is reentrant. It returns the
// record of a request that failed although the hold was not over.
func (p *participant) reenter(ctx context.Context, m *Monitor) (*Monitor, []history.Attempt) {
	if p.queue.Recipe != history.Reentrant {
		return nil, nil
	}
	req := p.req
	req.Within = m.hold
	inner, err := acquire(ctx, p.c, p.queue, req, history.Attempt{Client: p.id})
	var f *failedAttempt
	if errors.As(err, &f) && !await(ctx, m.hold.Done(), promptly) && ctx.Err() == nil {
		f.a.Failed = err.Error()
		return nil, []history.Attempt{f.a}
	}
	return inner, nil
}

// hold returns true when the participant has held for keep, or was released, and false if over is closed before.
func (p *participant) hold(keep time.Duration, over <-chan struct{}) bool {
	var enough <-chan time.Time // never, if it holds until release
	if keep >= 0 {
		timer := time.NewTimer(keep)
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case <-enough:
	case <-p.releaseNow:
	case <-over:
		return false
	}
	return true
}

// release makes it release the lock, now or as soon as it holds.
func (p *participant) release() { p.once.Do(func() { close(p.releaseNow) }) }

// end ends the context of its request.
func (p *participant) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ends == 0 {
		p.ends = Now()
		p.cancel()
	}
}

// started reports whether start was called.
func (p *participant) started() bool { return p.begun }

// returned reports whether its request has returned.
func (p *participant) returned() bool { return isClosed(p.got) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// holds reports whether it has a hold that has not reported that it is over, and that it
// is not releasing.
func (p *participant) holds() bool {
	m := p.currentMonitor()
	return m != nil && !m.Over() && m.Attempt().Back == 0
}

// over reports whether its hold has reported that it is over.
func (p *participant) over() bool {
	m := p.currentMonitor()
	return m != nil && m.Over()
}

func (p *participant) currentMonitor() *Monitor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.monitor
}

// attempt returns its record as it is now. Until the request returns, only Client, Queue, Ends
// and Fault are set.
func (p *participant) attempt() history.Attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.a
	switch {
	case a.Asked != 0:
	case p.monitor != nil:
		a = p.monitor.Attempt()
	default:
		a.Client, a.Queue = p.id, p.queue.Name
	}
	a.Fault, a.Follows = p.fault+a.Fault, p.follows
	// If the context ended after the request had returned, it ended no request.
	if p.ends != 0 && (a.Got == 0 || p.ends < a.Got) {
		a.Ends = p.ends
	}
	return a
}

// attempts returns all of its records, once it has finished.
func (p *participant) attempts() []history.Attempt {
	own := p.attempt()
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]history.Attempt{own}, p.nested...)
}

// noteFault notes the fault that is aimed at it.
func (p *participant) noteFault(kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = kind
}

// useless reports whether its request failed with ErrUseless.
func (p *participant) useless() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Is(p.err, ErrUseless)
}

// await waits at most d for c to be closed, and reports whether it is.
func await(ctx context.Context, c <-chan struct{}, d time.Duration) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-c:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return isClosed(c)
}

// until polls f for at most d until it returns true, and returns its last answer.
func until(ctx context.Context, d time.Duration, f func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	pace := time.NewTicker(Poll)
	defer pace.Stop()
	for !f() {
		select {
		case <-ctx.Done():
			return f()
		case <-pace.C:
		}
	}
	return true
}

// untilSeen is until for an f that asks the service, which can fail. If f does not return
// true in time, untilSeen returns the last error.
func untilSeen(ctx context.Context, d time.Duration, f func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	pace := time.NewTicker(5 * Poll)
	defer pace.Stop()
	for {
		ok, err := f(ctx)
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not seen within %s: %w", d, errors.Join(ctx.Err(), err))
		case <-pace.C:
		}
	}
}
