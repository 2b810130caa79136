package membackend

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// lease is a session at the service. It lives for as long as leases has it, and ends once: by its
// time, by Close, or by Expire.
type lease struct {
	id  string
	ttl time.Duration // never changes: the service grants what was asked for, and at least MinTTL

	// expires is by the service's time. It only moves forward, with each renewal that arrives.
	expires time.Duration
}

// grant makes a lease. From now on one timer waits for its end, and never a second one.
func (s *service) grant(ttl time.Duration) *lease {
	s.opened++
	l := &lease{id: fmt.Sprintf("m%d", s.opened), ttl: ttl, expires: s.sched.Now() + ttl}
	s.leases[l.id] = l
	s.expireLater(l)
	return l
}

// renew lets a lease live for its TTL from now on, and reports whether it is there. It counts from
// the arrival of the renewal, and the client counts from the sending, so its deadline is never the
// later one.
func (s *service) renew(l *lease) bool {
	l.expires = s.sched.Now() + l.ttl
	return s.alive(l)
}

// alive reports whether the service has a session.
func (s *service) alive(l *lease) bool { return l != nil && s.leases[l.id] == l }

// expireLater ends a lease when its time is over. A renewal only sets another time: the timer that
// comes too early then waits for the rest. So a renewal stops and starts no timer.
func (s *service) expireLater(l *lease) {
	s.sched.After("lease "+l.id, l.expires-s.sched.Now(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case !s.alive(l):
		case s.sched.Now() < l.expires:
			s.expireLater(l)
		default:
			s.end(l)
			s.sched.Expired(l.id)
		}
	})
}

// end removes a lease with all its entries and bound records, in one revision as etcd
// does. It reports whether the lease was there.
//
// The events of the entries are separate ones all the same, and may arrive in any order with
// Disorder. It goes by sorted names, so that every replay has the same order.
func (s *service) end(l *lease) bool {
	if !s.alive(l) {
		return false
	}
	delete(s.leases, l.id)
	s.rev++
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		q := s.queues[name]
		for _, e := range slices.Clone(q.entries) {
			if e.lease == l {
				s.remove(e, false)
			}
		}
		for _, of := range slices.Sorted(maps.Keys(q.records)) {
			if q.records[of].lease == l {
				s.write(name, of, nil, nil)
			}
		}
	}
	return true
}
