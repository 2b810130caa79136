package session

import "time"

// report takes in the outcome of an attempt at opening a session and logs it if it
// is due.
func (s *Session) report(err error) {
	now := s.clock.Now()
	var log bool
	var d time.Duration
	s.mu.Lock()
	if err != nil {
		log, d = s.outage.Failed(now)
	} else {
		log, d = s.outage.Over(now)
	}
	s.mu.Unlock()
	switch {
	case !log:
	case err != nil:
		s.opts.Logger.Warn("fairlock: cannot open a session", "service", s.info.Service, "for", d, "err", err)
	default:
		s.opts.Logger.Warn("fairlock: the service is reachable again", "service", s.info.Service, "after", d)
	}
}
