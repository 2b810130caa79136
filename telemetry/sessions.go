package telemetry

import (
	"sync"
	"time"

	"github.com/fairlock/fairlock/session"
)

// sessions knows the deadlines of the open service sessions.
type sessions struct {
	mu        sync.Mutex
	deadlines map[string]time.Time // by session
}

// opened adds a new session.
func (s *sessions) opened(e session.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deadlines == nil {
		s.deadlines = map[string]time.Time{}
	}
	s.deadlines[e.Session] = e.At.Add(e.Left)
}

// renewed records the time to the deadline of an event, and returns what was left to
// the deadline before. ok is false if that is not known: the deadline cannot have
// passed, so if it seems to have, the report of an earlier renewal was dropped.
func (s *sessions) renewed(e session.Event) (left time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.deadlines[e.Session]
	if !ok {
		return 0, false // it has ended
	}
	now := e.At.Add(e.Left)
	if now.After(before) {
		s.deadlines[e.Session] = now
	}
	left = before.Sub(e.At)
	return left, left > 0
}

// ended removes a session.
func (s *sessions) ended(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.deadlines, id)
}

// has reports whether a session is open.
func (s *sessions) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.deadlines[id]
	return ok
}

// slack returns the time to the next deadline, in seconds, and false if no session is
// open.
func (s *sessions) slack() (seconds float64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first time.Time
	for _, deadline := range s.deadlines {
		if first.IsZero() || deadline.Before(first) {
			first = deadline
		}
	}
	if first.IsZero() {
		return 0, false
	}
	return max(0, time.Until(first)).Seconds(), true
}
