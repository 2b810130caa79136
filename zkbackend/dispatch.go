package zkbackend

import (
	"context"
	"sync"
)

// dispatcher calls back one at a time, in the order of posting. It has a
// goroutine only while there is something to call.
type dispatcher struct {
	over <-chan struct{} // nothing is called any more when it is closed

	mu      sync.Mutex
	queue   []func()
	running bool
	closed  bool
	wg      sync.WaitGroup
}

// post has f called. It never blocks.
func (d *dispatcher) post(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.isOver() {
		return
	}
	d.queue = append(d.queue, f)
	if !d.running {
		d.running = true
		d.wg.Go(d.run)
	}
}

// flush waits until all that was posted before has been called, and says whether
// that is so: not if ctx ended first, or nothing is called any more. It must not
// be called by what is being called.
func (d *dispatcher) flush(ctx context.Context) bool {
	d.mu.Lock()
	switch {
	case d.closed || d.isOver():
		d.mu.Unlock()
		return false
	case !d.running:
		d.mu.Unlock()
		return true
	}
	called := make(chan struct{})
	d.queue = append(d.queue, func() { close(called) })
	d.mu.Unlock()
	select {
	case <-called:
		return true
	case <-ctx.Done():
	case <-d.over:
	}
	return false
}

func (d *dispatcher) isOver() bool {
	select {
	case <-d.over:
		return true
	default:
		return false
	}
}

// run calls until nothing is left to call.
func (d *dispatcher) run() {
	for {
		d.mu.Lock()
		batch := d.queue
		d.queue = nil
		if len(batch) == 0 {
			d.running = false
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		for _, f := range batch {
			if !d.isOver() {
				f()
			}
		}
	}
}

// wait lets nothing more be posted, and waits for what is being called.
func (d *dispatcher) wait() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.wg.Wait()
}
