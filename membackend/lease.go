package membackend

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// lease is a session at the service.
type lease struct {
	id      string
	ttl     time.Duration
	expires time.Duration // by the service's time
}

// grant makes a lease.
func (st *Store) grant(ttl time.Duration) *lease {
	st.opened++
	l := &lease{id: fmt.Sprintf("m%d", st.opened), ttl: ttl, expires: st.sched.Now() + ttl}
	st.leases[l.id] = l
	st.expireLater(l)
	return l
}

// renew lets a lease live for its TTL from now on, and reports whether it is there.
func (st *Store) renew(l *lease) bool {
	l.expires = st.sched.Now() + l.ttl
	return st.alive(l)
}

// alive reports whether the service has a session.
func (st *Store) alive(l *lease) bool { return l != nil && st.leases[l.id] == l }

// expireLater ends a lease when its time is over. A renewal only sets another time.
func (st *Store) expireLater(l *lease) {
	st.sched.After("lease "+l.id, l.expires-st.sched.Now(), func() {
		st.mu.Lock()
		defer st.mu.Unlock()
		switch {
		case !st.alive(l):
		case st.sched.Now() < l.expires:
			st.expireLater(l)
		default:
			st.end(l)
			st.sched.Expired(l.id)
		}
	})
}

// end removes a lease with all its entries and bound records, in one revision as etcd
// does. It reports whether the lease was there.
func (st *Store) end(l *lease) bool {
	if !st.alive(l) {
		return false
	}
	delete(st.leases, l.id)
	st.rev++
	for _, name := range slices.Sorted(maps.Keys(st.queues)) {
		q := st.queues[name]
		for _, e := range slices.Clone(q.entries) {
			if e.lease == l {
				st.remove(e, false)
			}
		}
		for _, of := range slices.Sorted(maps.Keys(q.records)) {
			if q.records[of].lease == l {
				st.write(name, of, nil, nil)
			}
		}
	}
	return true
}
