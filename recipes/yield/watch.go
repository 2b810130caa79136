package yield

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/session/driver"
)

// watch reads the yield requests for the locks of a hold whenever they may have changed. One
// goroutine uses it.
type watch struct {
	d     driver.Session
	clock driver.Clock
	log   *slog.Logger
	names []string
	again time.Duration // about how long next waits for an event before it reads without one

	news []atomic.Bool // by lock: its queue is to be read
	wake chan struct{} // has an element if one of news was set since the last wait
	stop []func()      // of the watches at the service
}

// newWatch watches the yield requests for the locks of a hold. They are to be read at once, and
// again when the watches are armed, because no event reports what happened before.
func newWatch(h *engine.Handle) *watch {
	e, names := h.Engine(), h.Names()
	w := &watch{
		d: h.Term().Driver(), clock: e.Clock(), log: e.Logger(), names: names, again: max(e.TTL(), 10*time.Second),
		news: make([]atomic.Bool, len(names)), wake: make(chan struct{}, 1),
	}
	w.readAll()
	for i, name := range names {
		target := driver.Target{Kind: driver.OfQueue, Queue: driver.AskQueue(name)}
		w.stop = append(w.stop, w.d.Watch(target, func(e driver.Event) {
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
func (w *watch) readAll() {
	for i := range w.news {
		w.news[i].Store(true)
	}
}

// close ends the watches.
func (w *watch) close() {
	for _, stop := range w.stop {
		stop()
	}
}

// The backoff of next after failed reads. After an event next
// waits for minBackoff, so that a busy queue is not read all the time.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// next blocks until the yield requests for a lock may have changed, and returns all that
// there are. It returns an error when ctx has ended, and where waiting cannot help.
func (w *watch) next(ctx context.Context) ([]stored, error) {
	backoff := driver.Backoff{Least: minBackoff, Most: maxBackoff}
	for ctx.Err() == nil {
		i := 0
		for i < len(w.news) && !w.news[i].Swap(false) {
			i++
		}
		if i == len(w.news) {
			w.wait(ctx)
			continue
		}
		v, err := w.d.Read(ctx, all(w.names[i]))
		switch {
		case err == nil:
			return in(w.names[i], v), nil
		case driver.Incurable(err):
			return nil, err //nolint:wrapcheck // the backend's own error
		}
		w.news[i].Store(true)
		w.log.Debug("fairlock: cannot read the yield requests", "name", w.names[i], "err", err)
		backoff.Sleep(ctx, w.clock)
	}
	return nil, context.Cause(ctx)
}

// wait blocks until an event comes, ctx ends, or it is time to read without an event.
func (w *watch) wait(ctx context.Context) {
	inner, cancel := driver.WithTimeout(ctx, w.clock, w.again-w.again/4+driver.Jitter(w.clock, w.again/2))
	defer cancel()
	select {
	case <-w.wake:
		driver.Sleep(ctx, w.clock, minBackoff)
	case <-inner.Done():
		w.readAll()
	}
}
