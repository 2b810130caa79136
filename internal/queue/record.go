package queue

import (
	"context"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// lasting is how long a hold lasts, after the engine has begun to watch its entry,
// before the engine records at the service when the hold was granted. All in all
// that is a second. Shorter holds cost nothing, and nobody asks for how long they
// have held.
const lasting = time.Second - moment

// Records are optional. So they are sent one after another by few goroutines of
// their own, and never stand in the way of the janitor's removals.
const (
	recorders     = 4
	recordTimeout = 5 * time.Second
)

// recordLater has the grant of a held seat recorded if the seat still holds when
// the hold is a second old. One timer serves all seats that come meanwhile.
func (e *engine) recordLater(s *seat) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.young = append(e.young, s)
	if len(e.young) == 1 {
		e.t.in.Clock().AfterFunc(lasting, e.recordAll)
	}
}

// recordAll records the grants of the seats that still hold, in the background.
func (e *engine) recordAll() {
	e.mu.Lock()
	young := e.young
	e.young = nil
	e.mu.Unlock()
	var mu sync.Mutex
	next := func() (s *seat) {
		mu.Lock()
		defer mu.Unlock()
		if len(young) > 0 {
			s, young = young[0], young[1:]
		}
		return s
	}
	for range min(recorders, len(young)) {
		e.t.Go(func(ctx context.Context) { // ends with the list, or the term
			for s := next(); s != nil && ctx.Err() == nil; s = next() {
				e.record(ctx, s)
			}
		})
	}
}

// record records the grant of one seat, if it still holds. A record that fails is
// tried again a second later, unless the service refuses it. Nothing deletes the
// entry meanwhile: a release would not know of a record that is on its way. So a
// release ends the request first, and then deletes the record with the entry.
func (e *engine) record(ctx context.Context, s *seat) {
	ctx, cancel := driver.WithTimeout(ctx, e.t.in.Clock(), recordTimeout)
	defer cancel()
	s.ln.mu.Lock()
	s.stopRecord = cancel
	s.ln.mu.Unlock()
	defer func() {
		s.ln.mu.Lock()
		s.stopRecord = nil
		s.ln.mu.Unlock()
	}()
	if s.take(ctx) != nil {
		e.recordLater(s)
		return
	}
	defer s.changed()
	s.ln.mu.Lock()
	ref, holds := s.entry.Ref, s.state == held && !s.leaving
	s.ln.mu.Unlock()
	if !holds {
		return
	}
	err := e.t.Driver().Record(ctx, ref, s.granted)
	switch {
	case err == nil:
	case driver.Incurable(err):
		e.mu.Lock()
		first := !e.quiet
		e.quiet = true
		e.mu.Unlock()
		if first {
			e.t.s.Options().Logger.Debug("fairlock: cannot record since when a lock is held", "name", s.ln.name, "err", err)
		}
	default: // an entry that is gone may as well have another key by now, see share
		e.recordLater(s)
	}
}
