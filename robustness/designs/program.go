package designs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/robustness/designs/lock"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// lockWait waits for d, or until ctx ends.
func lockWait(ctx context.Context, d time.Duration) { lock.Wait(ctx, d) }

// program is one program of a trial, which requests the lock once.
type program struct {
	id       int
	reopen   func() (trial.Client, error) // after a failure from which the client does not recover
	queue    history.Queue
	resource *trial.Resource
	keep     time.Duration // how long it works; until release if negative
	patience time.Duration // for the release

	cancel     context.CancelFunc
	releaseNow chan struct{}
	once       sync.Once
	got, done  chan struct{} // closed when it holds, and when it has released or failed

	begun bool // start was called; only the script uses it

	mu      sync.Mutex
	c       trial.Client   // see using
	monitor *trial.Monitor // nil until it holds
	asked   history.Instant
	failed  error // the newest failure of a request
}

func newProgram(id int, c trial.Client, queue history.Queue, resource *trial.Resource, keep time.Duration) *program {
	return &program{
		id: id, c: c, queue: queue, resource: resource, keep: keep, patience: bound, cancel: func() {},
		releaseNow: make(chan struct{}), got: make(chan struct{}), done: make(chan struct{}),
	}
}

// using returns its client of now.
func (p *program) using() trial.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.c
}

// start requests the lock in a goroutine that ends after release and end.
func (p *program) start() {
	p.begun = true
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(p.done)
		p.run(ctx)
	}()
}

func (p *program) run(ctx context.Context) {
	h := p.acquire(ctx)
	if h == nil {
		return
	}
	a := history.Attempt{Client: p.id, Queue: p.queue.Name, Weight: 1, Asked: p.asked, Got: trial.Now(), Token: h.Token(), Place: h.Place(), Entry: h.Entry()}
	m := trial.StartMonitor(h, a, false)
	access := p.resource.Read(a)
	p.mu.Lock()
	p.monitor = m
	p.mu.Unlock()
	close(p.got)
	p.work(ctx)
	if !m.Over() {
		access.Write()
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.patience)
	defer cancel()
	m.Release(within)
}

// acquire tries until it holds or ctx ends: an error is of the network, or of servers that are down.
func (p *program) acquire(ctx context.Context) trial.Hold {
	p.mu.Lock()
	p.asked = trial.Now()
	p.mu.Unlock()
	for {
		h, err := p.using().Acquire(ctx, p.queue, trial.Request{Weight: 1})
		switch {
		case ctx.Err() != nil && err != nil:
			return nil
		case ctx.Err() != nil: // granted as it gives up
			p.drop(ctx, h)
			return nil
		case err == nil:
			return h
		}
		p.mu.Lock()
		p.failed = err
		p.mu.Unlock()
		if errors.Is(err, trial.ErrUseless) && p.reopen != nil {
			_ = p.using().Close() // it is of no use
			c, openErr := p.reopen()
			if openErr == nil {
				p.mu.Lock()
				p.c = c
				p.mu.Unlock()
			}
		}
		lockWait(ctx, lock.Pause)
	}
}

// drop releases what was granted too late.
func (p *program) drop(ctx context.Context, h trial.Hold) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = h.Release(within)
}

// work works until the program has worked enough or has to release. Part of the work is a request through the
// connections of the lock, if the design has some.
func (p *program) work(ctx context.Context) {
	if c, ok := p.using().(*client); ok {
		if w, ok := c.locker.(lock.Worker); ok && p.keep >= 0 {
			_ = w.Work(ctx) // the lock is what is tried
		}
	}
	if p.keep < 0 {
		<-p.releaseNow
		return
	}
	enough := time.NewTimer(p.keep)
	defer enough.Stop()
	select {
	case <-enough.C:
	case <-p.releaseNow:
	}
}

// release has it release, now or as soon as it holds.
func (p *program) release() { p.once.Do(func() { close(p.releaseNow) }) }

// kill ends the program as a kill does: its connections end, and it sends nothing any more.
func (p *program) kill() {
	p.using().Cut(fault.Both)
	p.using().Reset()
	p.cancel()
}

// attempt returns its record; false if it was never granted.
func (p *program) attempt() (history.Attempt, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.monitor == nil {
		return history.Attempt{}, false
	}
	return p.monitor.Attempt(), true
}

// why returns the newest failure of its requests as the end of a text.
func (p *program) why() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		return ""
	}
	return fmt.Sprintf(" (its newest request failed: %v)", p.failed)
}

// isClosed reports whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
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
	return false
}
