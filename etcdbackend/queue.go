package etcdbackend

import (
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// queue is what a session remembers of a queue. The session's mutex guards all that
// changes.
type queue struct {
	name, prefix, side string

	floor int64          // no read may be older; 0: the session knows nothing of the queue
	found int64          // how many entries were there when that was last seen
	own   map[int64]*own // entries of this session, by place
	free  []*own         // those that are gone, whose keys can be used again
	next  int            // the least index that was never used
	taken int            // how many indexes are in use, or retired

	viewed int64                  // the revision of the newest read
	view   map[int64]driver.Marks // the entries that it has shown, by place
}

// own is an entry of this session, or one that is being made.
//
// The index in its key may be used again only when it is certain that the key is gone,
// and that no request can still make or delete it. If that is never certain, the index is
// retired. Keys are used again because etcd keeps every key name until it compacts.
type own struct {
	entryKey
	cell
	q     *queue
	ref   driver.Ref // Place is 0 until the entry is made
	data  []byte     // without marks
	marks driver.Marks

	detail    cell
	used      bool // the key is taken: for an entry that is there, or is being made
	described bool // there may be a detail
	retired   bool // a delete of the key without a condition may still arrive
	unsure    bool // an earlier request to delete the entry was not answered
	gone      bool // a watch has reported the end of the entry
}

// detailKey returns the key of the detail of an entry.
func (q *queue) detailKey(entry string) []byte {
	return []byte(q.side + detailFolder + entry[len(q.prefix):])
}

// leastQueues is how many queues are remembered before those without own entries are
// forgotten.
const leastQueues = 8

// queue finds a queue or makes it. The caller holds the mutex.
func (s *etcdSession) queue(name string) *queue {
	if q := s.queues[name]; q != nil {
		return q
	}
	if len(s.queues) >= s.sweep {
		for name, q := range s.queues {
			if q.taken == 0 {
				s.dropped = max(s.dropped, q.floor)
				delete(s.queues, name)
			}
		}
		s.sweep = max(leastQueues, 2*len(s.queues))
	}
	q := &queue{name: name, prefix: s.b.lay.prefix(name), side: s.b.lay.side(name), floor: s.dropped, own: make(map[int64]*own)}
	s.queues[name] = q
	return q
}

// lookup is queue for callers without the mutex. It returns how old a read may be, and
// how many entries the queue had when that was last seen.
func (s *etcdSession) lookup(name string) (q *queue, floor, found int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q = s.queue(name)
	return q, q.floor, q.found
}

// learn takes in that the session's caller is about to see the queue as of a revision.
func (s *etcdSession) learn(name string, rev int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(name)
	q.floor = max(q.floor, rev)
}

// take reserves a key for an entry that is to be made. It returns how many entries the
// queue had when that was last seen.
func (s *etcdSession) take(req *driver.JoinRequest) (o *own, found int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(req.Queue)
	k := entryKey{lease: s.lease.ID, index: q.next, mode: req.Mode, valued: req.Valued}
	if req.Mode == driver.Weighted {
		k.weight = req.Weight
	}
	if n := len(q.free); n > 0 {
		o, q.free = q.free[n-1], q.free[:n-1]
		k.index = o.index
	} else {
		o = &own{q: q}
		q.next++
	}
	if o.entryKey != k {
		o.entryKey, o.key = k, k.append([]byte(q.prefix))
		o.ref = driver.Ref{Queue: q.name, Key: string(o.key)}
	}
	o.data, o.used = req.Data, true
	q.taken++
	return o, q.found
}

// made takes in that an entry was made, and how many others were there.
func (s *etcdSession) made(o *own, place int64, described bool, ahead int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.ref.Place, o.written, o.described = place, place, described
	if described {
		o.detail.written = place
	}
	o.q.own[place] = o
	o.q.found, o.q.floor = ahead, max(o.q.floor, place)
}

// unmade takes back what made has taken in, of an entry that no caller will know. Its key
// stays taken.
func (s *etcdSession) unmade(o *own) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(o.q.own, o.ref.Place)
	o.ref.Place, o.cell.written, o.detail, o.described = 0, 0, cell{}, false
}

// release gives the key of an own entry back, which is certainly gone. The end may be
// learned twice.
func (s *etcdSession) release(o *own) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !o.used {
		return
	}
	delete(o.q.own, o.ref.Place)
	if o.used = false; !o.retired {
		*o = own{entryKey: o.entryKey, cell: cell{key: o.key}, q: o.q, ref: driver.Ref{Queue: o.ref.Queue, Key: o.ref.Key}}
		o.q.free = append(o.q.free, o)
		o.q.taken--
	}
}

// find returns the own entry that ref names, nil if there is none, and whether a watch has
// reported its end.
func (s *etcdSession) find(ref driver.Ref) (o *own, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[ref.Queue]; q != nil {
		if o := q.own[ref.Place]; o != nil && o.ref == ref {
			return o, o.gone
		}
	}
	return nil, false
}

// maxSeen is how many entries of a read are remembered: those nearest to the own one.
const maxSeen = 16

// remember keeps what an answer has shown, for watches that are asked for next: the
// entries whose marks it shows.
func (s *etcdSession) remember(q *queue, rev int64, kvs []*mvccpb.KeyValue, es []driver.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.floor = max(q.floor, rev); rev < q.viewed {
		return
	}
	q.viewed, q.view = rev, make(map[int64]driver.Marks, min(len(es), maxSeen))
	for i := max(0, len(es)-maxSeen); i < len(es); i++ {
		if !hides(&es[i], kvs[i]) {
			q.view[es[i].Place] = es[i].Marks
		}
	}
}

// saw notes how many entries a queue has.
func (s *etcdSession) saw(q *queue, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.found = n
}
