package queue

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// first is who stands first in a line, for the errors of those who give up. A
// thousand that give up at once share one read.
type first struct {
	mu    sync.Mutex
	entry driver.Entry
	at    driver.Instant
	asked chan struct{} // closed when the read that is under way has returned
}

// firstKept is for how long an answer is good enough for an error text.
const firstKept = 100 * time.Millisecond

// get returns who is first, zero if that cannot be learned before ctx ends.
func (f *first) get(ctx context.Context, ln *line) driver.Entry {
	t := ln.e.t
	f.mu.Lock()
	if !f.entry.Zero() && t.in.Clock().Now().Sub(f.at) < firstKept {
		defer f.mu.Unlock()
		return f.entry
	}
	asked := f.asked
	if asked == nil {
		asked = make(chan struct{})
		f.asked = asked
		ln.e.t.Go(func(ctx context.Context) {
			ctx, cancel := driver.WithTimeout(ctx, t.in.Clock(), time.Second)
			defer cancel()
			e, err := t.first(ctx, ln.name)
			f.mu.Lock()
			defer f.mu.Unlock()
			if err == nil {
				f.entry, f.at = e, t.in.Clock().Now()
			}
			f.asked = nil
			close(asked)
		})
	}
	f.mu.Unlock()
	select {
	case <-asked:
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.entry
	case <-ctx.Done():
		return driver.Entry{}
	}
}
