package trial

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

// player is one client of a trial, with one request for the line.
type player struct {
	c    Client
	line history.Queue
	ask  Ask
	id   int
	keep time.Duration // how long it holds by itself; forever if negative
	at   *resource     // that the line protects

	begun bool // it was started; only the script asks

	cancel context.CancelFunc // of the request's context
	free   chan struct{}      // closed to have it give back
	once   sync.Once
	got    chan struct{} // closed when the request has returned
	gone   chan struct{} // closed when all is over

	mu     sync.Mutex
	ends   history.Instant
	belief *Belief // nil if the request failed, or has not returned
	err    error
	a      history.Attempt   // when it failed, and when it is over
	nested []history.Attempt // inside of it
	fault  string
}

func newPlayer(id int, c Client, line history.Queue, at *resource, ask Ask, keep time.Duration) *player {
	return &player{
		c: c, line: line, at: at, ask: ask, id: id, keep: keep, cancel: func() {},
		free: make(chan struct{}), got: make(chan struct{}), gone: make(chan struct{}),
	}
}

// start asks for the lock in a goroutine, which gives back when it is told to, or
// has held for long enough. It ends soon after end and let.
//
//nolint:contextcheck // the request outlives the step of the script that makes it
func (p *player) start() {
	p.begun = true
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(p.gone)
		defer p.cancel()
		p.play(ctx)
	}()
}

func (p *player) play(ctx context.Context) {
	b, err := acquire(ctx, p.c, p.line, p.ask, history.Attempt{Client: p.id})
	var at *visit
	if err == nil {
		at = p.at.read(b.Attempt())
	}
	p.mu.Lock()
	p.belief, p.err = b, err
	var f *failed
	if errors.As(err, &f) {
		p.a = f.a
		p.a.Failed = err.Error()
	}
	p.mu.Unlock()
	close(p.got)
	if err != nil {
		return
	}
	inner := p.enter(ctx, b)
	p.stay()
	at.write()
	// It is on its own now: what a trial does to its connections ends in time.
	giving, cancel := context.WithTimeout(context.WithoutCancel(ctx), givingBack)
	defer cancel()
	var nested []history.Attempt
	if inner != nil {
		nested = append(nested, inner.Release(giving))
	}
	a := b.Release(giving)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.a, p.nested = a, nested
}

// givingBack bounds a release; ours is bounded by itself.
const givingBack = 15 * time.Second

// enter goes inside the own hold once more, where that can be done.
func (p *player) enter(ctx context.Context, b *Belief) *Belief {
	if p.line.Recipe != history.Reentrant {
		return nil
	}
	ask := p.ask
	ask.Within = b.hold
	inner, err := acquire(ctx, p.c, p.line, ask, history.Attempt{Client: p.id})
	if err != nil {
		return nil // the hold was over at once
	}
	return inner
}

func (p *player) stay() {
	if p.keep < 0 {
		<-p.free
		return
	}
	enough := time.NewTimer(p.keep)
	defer enough.Stop()
	select {
	case <-enough.C:
	case <-p.free:
	}
}

// let has it give back, now or as soon as it holds.
func (p *player) let() { p.once.Do(func() { close(p.free) }) }

// end ends the context of its request.
func (p *player) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ends == 0 {
		p.ends = Now()
		p.cancel()
	}
}

// started says whether it has asked for the lock.
func (p *player) started() bool { return p.begun }

// returned says whether its request has.
func (p *player) returned() bool { return isClosed(p.got) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// holds says whether it has a hold, and has not been told that it has not.
func (p *player) holds() bool {
	b := p.now()
	return b != nil && !b.Over() && b.Attempt().Back == 0
}

// over says whether it was told that its hold is over.
func (p *player) over() bool {
	b := p.now()
	return b != nil && b.Over()
}

func (p *player) now() *Belief {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.belief
}

// attempt is its record as it is now, zero if the request has not returned.
func (p *player) attempt() history.Attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.a
	if a.Asked == 0 && p.belief != nil {
		a = p.belief.Attempt()
	}
	a.Fault = p.fault + a.Fault
	// An end that came when it had returned is none.
	if p.ends != 0 && (a.Got == 0 || p.ends < a.Got) {
		a.Ends = p.ends
	}
	return a
}

// attempts are its records when all is over.
func (p *player) attempts() []history.Attempt {
	own := p.attempt()
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]history.Attempt{own}, p.nested...)
}

// harm notes what is done to it.
func (p *player) harm(kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = kind
}

// useless says that its request failed because its session was over, which it was
// told.
func (p *player) useless() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Is(p.err, ErrUseless)
}

// await waits for something to be closed, for a time.
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

// until asks again and again until something is so, for a time.
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

// untilSeen is until with a question to the service, which can fail; then it says
// why.
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
