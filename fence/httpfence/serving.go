package httpfence

import (
	"sync"

	"github.com/fairlock/fairlock/session"
)

// serving has the resources for which requests are served or wait, and no others, so it does
// not grow with the names that were ever used.
type serving struct {
	mu  sync.Mutex
	all map[string]*turn
}

// turn lets the requests for one resource take turns.
type turn struct {
	sync.RWMutex
	requests int // that are served or wait; guarded by serving.mu
}

// begin waits until a request for a resource may be served. The caller calls done after it.
func (s *serving) begin(resource string, mode session.Mode) (done func()) {
	s.mu.Lock()
	t := s.all[resource]
	if t == nil {
		t = &turn{}
		if s.all == nil {
			s.all = map[string]*turn{}
		}
		s.all[resource] = t
	}
	t.requests++
	s.mu.Unlock()

	lock, unlock := t.Lock, t.Unlock
	if mode == session.Shared {
		lock, unlock = t.RLock, t.RUnlock
	}
	lock()
	return func() {
		unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		t.requests--
		if t.requests == 0 {
			delete(s.all, resource)
		}
	}
}
