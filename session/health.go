package session

import "time"

// Health is the state of a Session, for a readiness probe.
type Health struct {
	// Ready reports whether the Session has a live service session, so that locks can
	// be acquired and those that are held are not in danger.
	Ready bool

	// Since is when Ready last changed, by the wall clock; zero for a Session that was
	// never opened.
	Since time.Time

	// Left is the time to the deadline if no further renewal is acknowledged; 0 if the
	// Session is not ready. It is at most the TTL less the margin, and rises with each
	// renewal, so a value near 0 warns of a loss.
	Left time.Duration

	// Err is why the Session is not ready: how the last service session was lost, why
	// the next one could not be opened, or ErrClosed after Close. It is nil if Ready.
	Err error
}

// Health returns the state of the Session. It sends nothing itself and does not block.
// If the service session was lost, Health starts to open the next one in the
// background, as a request would, so a program that answers its readiness probe with
// Health becomes ready again by itself.
func (s *Session) Health() Health {
	if !s.opened() {
		return Health{Err: ErrClosed}
	}
	t, _, err := s.current()
	var h Health
	if t != nil {
		h.Left = t.Left()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.Since = s.since
	switch {
	case h.Left > 0 && s.cur == t:
		h.Ready = true
		return h
	case err != nil:
		h.Err = err
	case s.lastErr != nil:
		h.Err = s.lastErr
	default:
		h.Err = s.loss
	}
	h.Left = 0
	return h
}
