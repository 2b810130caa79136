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

	// unseen: no timer waits for its end, because no client observes it. Only for a kind that is
	// Observed.
	unseen bool
}

// grant makes a lease. From now on at most one timer waits for its end.
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
	at, seen := s.due(l)
	l.unseen = !seen
	if !seen {
		return // observe goes on
	}
	s.sched.After("lease "+l.id, max(0, at-s.sched.Now()), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.alive(l) {
			return
		}
		at, seen := s.due(l)
		if !seen || s.sched.Now() < at {
			s.expireLater(l)
			return
		}
		s.end(l)
		s.sched.Expired(l.id)
	})
}

// due returns when a lease ends if it is not renewed before:
//
//	the kind of service  the lease has              it ends
//	not Observed         anything                   at its time
//	Observed             no entry and no record     at its time: no client can see whether it is there
//	Observed             some, in watched queues    when the first connected client has seen no renewal for a TTL
//	Observed             some, in others            never; seen is false
func (s *service) due(l *lease) (at time.Duration, seen bool) {
	visible := false
	for _, q := range s.queues {
		visible = visible || q.has(l)
	}
	if !s.o.Observed || !visible {
		return l.expires, true
	}
	for target, watches := range s.watches {
		if !s.queue(target.Queue).has(l) {
			continue
		}
		for _, w := range watches {
			ends := max(l.expires, w.since+l.ttl)
			if w.s.c.connected() && (!seen || ends < at) {
				at, seen = ends, true
			}
		}
	}
	return at, seen
}

// has reports whether a queue has an entry or a bound record of a lease.
func (q *queue) has(l *lease) bool {
	for _, r := range q.records {
		if r.lease == l {
			return true
		}
	}
	return slices.ContainsFunc(q.entries, func(e *entry) bool { return e.lease == l })
}

// observe is called when the answer of due for a lease that is unseen may be another one.
func (s *service) observe() {
	for _, id := range slices.Sorted(maps.Keys(s.leases)) {
		if s.leases[id].unseen {
			s.expireLater(s.leases[id])
		}
	}
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
