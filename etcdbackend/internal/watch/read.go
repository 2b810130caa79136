package watch

import (
	"github.com/fairlock/fairlock/session/driver"
)

// This file reads entries whose watch is live, and of which it is not known whether they were
// there when it began. A watch from an older revision would report what happened before, but
// the server would read everything that was written since then, in a loop that runs every
// 100 ms.

// maxBatch is the most entries that are read at once: a transaction takes 128
// operations.
const maxBatch = 64

// readSoon starts reading the entries in unread. While created notices are due, it waits, so
// that many entries are read together: until one read is full, or until the next tick, because
// in a busy session a notice is always due.
func (h *Hub) readSoon() {
	if h.stream == nil || h.stream.awaited == 0 || len(h.unread) >= maxBatch {
		h.readNow()
	}
}

// readNow starts reading the entries in unread.
func (h *Hub) readNow() {
	if len(h.unread) == 0 || h.reading {
		return
	}
	h.reading = true
	h.wg.Go(func() { // ends when no entry is to be read, or with h.ctx
		h.mu.Lock()
		defer h.mu.Unlock()
		for len(h.unread) > 0 && !h.closed {
			h.readBatch()
		}
		h.unread, h.reading = nil, false // an empty slice would keep its array, and the subs in it
	})
}

// readBatch reads the next entries. It unlocks the mutex meanwhile, so anything can have
// happened when the answer comes:
//
//	the read failed             the entry stays as it is, and stream.repair tries again
//	the sub is armed, or done   nothing: an event has shown more than the answer
//	the entry is not there      Gone
//	it is there, and the watch  it was there at the revision of the answer: arm decides anew
//	is live
//	it is there, the watch is   the same, when the watch is live again
//	not live
func (h *Hub) readBatch() {
	batch := h.unread[:min(len(h.unread), maxBatch)]
	h.unread = h.unread[len(batch):]
	refs, rev := make([]driver.Ref, len(batch)), int64(0)
	for i, x := range batch {
		refs[i], rev = x.Ref, max(rev, x.w.rev, x.Shown)
	}
	h.mu.Unlock()
	states, err := h.States(h.ctx, refs, rev)
	h.mu.Lock()
	for i, x := range batch {
		x.unread = false
		switch {
		case err != nil || x.armed || x.done:
		case !states[i].There:
			h.put(x, driver.Gone, states[i].Rev)
		default:
			x.Known, x.Marks = states[i].Rev, x.Marks|states[i].Marks
			if x.w.live {
				h.arm(x)
			}
		}
	}
	clear(batch) // the array would keep the subs, and what their callbacks refer to
	h.mu.Unlock()
	h.drain()
	h.mu.Lock()
}
