package yield

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// Watch reads the yield requests for some locks whenever they may have changed. One
// goroutine at a time may use it.
type Watch struct {
	d     driver.Session
	clock driver.Clock
	log   *slog.Logger
	names []string
	again time.Duration // about how long Next waits for an event before it reads without one

	news []atomic.Bool // by lock: its queue is to be read
	wake chan struct{}
	stop []func() // of the watches at the service
}

// NewWatch watches the yield requests for locks. They are to be read at once, and again
// when the watches are armed, because no event reports what happened before.
func NewWatch(d driver.Session, clock driver.Clock, log *slog.Logger, again time.Duration, names []string) *Watch {
	w := &Watch{d: d, clock: clock, log: log, names: names, again: again, news: make([]atomic.Bool, len(names)), wake: make(chan struct{}, 1)}
	w.readAll()
	for i, name := range names {
		target := driver.Target{Kind: driver.OfQueue, Queue: driver.AskQueue(name)}
		w.stop = append(w.stop, d.Watch(target, func(e driver.Event) {
			if e.Kind == driver.Lost {
				return // the watch is armed again, or the session ends
			}
			w.news[i].Store(true)
			select {
			case w.wake <- struct{}{}:
			default:
			}
		}))
	}
	return w
}

// readAll has all queues read.
func (w *Watch) readAll() {
	for i := range w.news {
		w.news[i].Store(true)
	}
}

// Close ends the watches.
func (w *Watch) Close() {
	for _, stop := range w.stop {
		stop()
	}
}

// The backoff of Next after failed reads, which doubles each time. After an event Next
// waits for minBackoff, so that a busy queue is not read all the time.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// Next blocks until the yield requests for a lock may have changed, and returns all that
// there are. It returns an error when ctx has ended, and where waiting cannot help.
func (w *Watch) Next(ctx context.Context) (name string, all []Request, err error) {
	for backoff := minBackoff; ctx.Err() == nil; {
		i := 0
		for i < len(w.news) && !w.news[i].Swap(false) {
			i++
		}
		if i == len(w.news) {
			w.wait(ctx)
			continue
		}
		v, err := w.d.Read(ctx, All(w.names[i]))
		switch {
		case err == nil:
			return w.names[i], In(v), nil
		case driver.Incurable(err):
			return "", nil, err //nolint:wrapcheck // the backend's own error
		}
		w.news[i].Store(true)
		w.log.Debug("fairlock: cannot read the yield requests", "name", w.names[i], "err", err)
		driver.Sleep(ctx, w.clock, backoff)
		backoff = min(2*backoff, maxBackoff)
	}
	return "", nil, context.Cause(ctx)
}

// wait blocks until an event comes, ctx ends, or it is time to read without an event.
func (w *Watch) wait(ctx context.Context) {
	inner, cancel := driver.WithTimeout(ctx, w.clock, w.again-w.again/4+driver.Jitter(w.clock, w.again/2))
	defer cancel()
	select {
	case <-w.wake:
		driver.Sleep(ctx, w.clock, minBackoff)
	case <-inner.Done():
		w.readAll()
	}
}
