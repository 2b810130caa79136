package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/session/driver"
)

// describeTimeout is how long a caller whose ctx has ended is kept for the sake of a
// better error, and of an entry that is gone when it returns.
const describeTimeout = 25 * time.Millisecond

// giveUp leaves the queues for a caller whose ctx has ended, and returns what was in the
// way. The deletion goes on in the background if it takes longer: no caller waits for a service that
// does not answer. Entries that are granted meanwhile leave all the same.
func (es *entries) giveUp(ctx context.Context) error {
	e := gaveUp(ctx)
	name, ahead := es.waitsIn()
	e.Ahead = ahead
	gone := make(chan struct{})
	es.later(func(ctx context.Context) error {
		if err := es.drop(ctx); err != nil {
			return err
		}
		close(gone)
		return nil
	})
	short, cancel := driver.WithTimeout(es.qs.t.Context(), es.qs.clock, describeTimeout)
	defer cancel()
	//nolint:contextcheck // ctx has ended, that is why this was called
	first := es.qs.firstEntry(short, name)
	if !es.own(first.Ref) { // its own may be the first by now
		e = es.qs.behind(e, first)
	}
	select {
	case <-gone:
	case <-short.Done():
	}
	return e
}

// own reports whether that is one of the entries.
func (es *entries) own(ref driver.Ref) bool {
	return slices.ContainsFunc(es.group.Entries, func(en *queue.Entry) bool { return en.Ref == ref })
}

// waitsIn returns the name of the first queue in which an entry waits, and how many are ahead of
// it there; the first of all queues and -1 if none waits. It reports to hooks what that one waits
// for.
func (es *entries) waitsIn() (name string, ahead int) {
	if es.hooks != nil {
		es.reportBlocker()
	}
	es.qs.mu.Lock()
	defer es.qs.mu.Unlock()
	en := es.group.Waiter()
	if en != nil {
		return en.Queue, en.Ahead()
	}
	return es.rs[0].Name, -1
}

// reportBlocker reports to hooks what the request waits for, or has waited for last.
func (es *entries) reportBlocker() {
	es.qs.mu.Lock()
	var blocker *driver.Entry
	b := es.group.Blocker()
	if b != nil {
		blocker = new(*b) // the picture's can get marks
	}
	es.qs.mu.Unlock()
	if blocker != nil {
		es.hooks.WaitsFor(blocker)
	}
}
