package etcdbackend

import (
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/lease"
	"github.com/fairlock/fairlock/etcdbackend/internal/watch"
	"github.com/fairlock/fairlock/session/driver"
)

// queues is what a session remembers of its queues: how old a read of each may be, what
// the newest read has shown, and which entries and keys are the session's own. It sends
// nothing. It is safe for concurrent use.
type queues struct {
	lay   layout
	lease int64

	mu      sync.Mutex
	byName  map[string]*queue
	busy    int   // how many of them have own entries
	base    int   // the lowest index that a new queue uses: all that were retired are lower
	dropped int64 // the highest floor of a queue that was forgotten
}

// queue is what is remembered of one queue. The mutex of queues guards all that changes.
// A queue without own entries may be forgotten while a pointer to it is in use: so what
// was learned of a queue is recorded by its name.
type queue struct {
	name   string
	prefix string // of the keys of entries
	side   string // of the keys of records and details

	floor int64 // no read may be older; 0: the session knows nothing of the queue
	found int64 // how many entries an answer has counted, most recently
	asks  bool  // the entry ahead of the newest own one is followed

	own      map[int64]*own // entries of this session, by place
	unused   []int          // the indexes of those that are gone, whose keys can be used again
	next     int            // the lowest index that was never used
	reserved int            // how many indexes are in use

	viewed int64                  // the revision of the newest read
	view   map[int64]driver.Marks // by place, entries in that read, and their marks
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
	data  []byte     // without marks; nil if the entry is valued, which takes none
	marks driver.Marks

	followed bool // others can wait behind it that need to know whether it was first
	detail   cell // without a key there is none
	reserved bool // the entry is there, or is being made
	retired  bool // a delete of the key without a condition may still arrive, or its detail may stay
	unsure   bool // a request to delete the entry was not answered
	doubt    bool // an Update whose outcome is not known may still write the entry
	gone     bool // a watch has reported the end of the entry
}

// minQueues is the least number of queues without own entries that are forgotten.
const minQueues = 8

func newQueues(lay layout, lease int64) *queues {
	return &queues{lay: lay, lease: lease, byName: make(map[string]*queue)}
}

// get finds a queue or makes it. The caller holds the mutex.
func (qs *queues) get(name string) *queue {
	if q := qs.byName[name]; q != nil {
		return q
	}
	qs.tidy()
	q := &queue{name: name, prefix: qs.lay.prefix(name), side: qs.lay.side(name), floor: qs.dropped, next: qs.base, own: make(map[int64]*own)}
	qs.byName[name] = q
	return q
}

// tidy forgets the queues without own entries, if more than half are. The caller holds the
// mutex.
func (qs *queues) tidy() {
	if len(qs.byName) < 2*qs.busy+minQueues {
		return
	}
	for name, q := range qs.byName {
		if q.reserved == 0 {
			qs.dropped = max(qs.dropped, q.floor)
			delete(qs.byName, name)
		}
	}
}

// lookup returns a queue, its floor, and how many entries it had when they were last
// counted. Only the fields of the queue that never change may be used.
func (qs *queues) lookup(name string) (q *queue, floor, found int64) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q = qs.get(name)
	return q, q.floor, q.found
}

// floor returns the revision that no read of a queue may be older than.
func (qs *queues) floor(name string) int64 {
	_, floor, _ := qs.lookup(name)
	return floor
}

// learn raises the floor of a queue: the session's caller is about to see the queue as of
// that revision.
func (qs *queues) learn(name string, rev int64) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.get(name)
	q.floor = max(q.floor, rev)
}

// count takes in how many entries a queue has.
func (qs *queues) count(name string, n int64) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.get(name).found = n
}

// maxSeen is how many entries of a read are remembered: those nearest to its own one.
const maxSeen = 16

// remember learns a revision, and keeps the entries that a read at that revision has
// shown with their marks: the caller is likely to watch them next, and then they need not
// be read.
func (qs *queues) remember(name string, rev int64, kvs []*mvccpb.KeyValue, es []driver.Entry) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.get(name)
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

// reserve reserves a key for an entry that is to be made. It returns how many entries the
// queue had when they were last counted.
func (qs *queues) reserve(req *driver.JoinRequest) (o *own, found int64) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.get(req.Queue)
	k := entryKey{lease: qs.lease, index: q.next, mode: req.Mode, valued: req.Valued}
	switch req.Mode {
	case driver.Weighted:
		k.weight = req.Weight
	case driver.Exclusive:
		k.writer = req.Family == driver.FamilyReadWrite
	case driver.Shared:
	}
	if n := len(q.unused); n > 0 {
		k.index, q.unused = q.unused[n-1], q.unused[:n-1]
	} else {
		q.next++
	}
	o = &own{entryKey: k, cell: cell{key: k.append([]byte(q.prefix))}, q: q, reserved: true}
	if o.ref = (driver.Ref{Queue: q.name, Key: string(o.key)}); !req.Valued {
		o.data = req.Data
	}
	if q.reserved++; q.reserved == 1 {
		qs.busy++
	}
	return o, q.found
}

// made records that an entry was made, whether with a detail, and how many others were
// there.
func (qs *queues) made(o *own, place int64, described bool, ahead int64) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	o.ref.Place, o.written = place, place
	if described {
		o.detail = cell{key: o.q.detailKey(o.ref.Key), written: place}
	}
	o.q.own[place] = o
	// With three entries ahead, it is asked of the nearest whether it was first, and that one
	// has joined behind two at least. With fewer, watches on all that are ahead are faster.
	o.followed = ahead > 1 && o.mode != driver.Weighted
	o.q.asks = ahead > 2 && o.mode != driver.Weighted
	o.q.found, o.q.floor = ahead, max(o.q.floor, place)
}

// release forgets an own entry that is certainly gone, and lets its key be used again
// unless that is retired. The end of an entry may be learned twice.
func (qs *queues) release(o *own) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if !o.reserved {
		return
	}
	delete(o.q.own, o.ref.Place)
	if o.reserved = false; o.retired {
		qs.base = max(qs.base, o.index+1) // also when this queue is forgotten
	} else {
		o.q.unused = append(o.q.unused, o.index)
	}
	if o.q.reserved--; o.q.reserved == 0 {
		qs.busy--
		qs.tidy()
	}
}

// find returns the entry of this session that ref names, nil if there is none, and whether
// a watch has reported its end.
func (qs *queues) find(ref driver.Ref) (o *own, gone bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if o := qs.ownOf(ref); o != nil {
		return o, o.gone
	}
	return nil, false
}

// ownOf is find for callers that hold the mutex.
func (qs *queues) ownOf(ref driver.Ref) *own {
	if q := qs.byName[ref.Queue]; q != nil {
		if o := q.own[ref.Place]; o != nil && o.ref == ref {
			return o
		}
	}
	return nil
}

// wrote takes in that marks were added to an own entry.
func (qs *queues) wrote(o *own, marks driver.Marks) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	o.marks |= marks
}

// reported learns the revision of an event that is about to reach the caller of a watch.
func (qs *queues) reported(t *watch.Target, k driver.EventKind, rev int64) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.get(t.Queue)
	q.floor = max(q.floor, rev)
	if o := qs.ownOf(t.Ref); o != nil && k == driver.Gone {
		o.gone = true
	}
}

// target returns what to watch at the server. For an entry that is written only once,
// writes are left out: each would be one of a later entry with the same key. All own
// entries of a queue share one watch, without writes too: this session makes them, and
// reports them itself.
func (qs *queues) target(t driver.Target) watch.Target {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if t.Kind == driver.OfEntry {
		t.Queue = t.Ref.Queue
	}
	q := qs.get(t.Queue)
	w := watch.Target{Queue: t.Queue, Shown: q.floor, Spec: watch.Spec{Key: q.prefix, End: string(prefixEnd(q.prefix)), Puts: true}}
	switch t.Kind {
	case driver.OfRecord:
		w.Spec.Key, w.Spec.End = q.side+t.Record, ""
	case driver.OfHolders:
		w.Spec.Prev, w.Concerns = true, ofHolder
	case driver.OfEntry:
		k, ours := parseEntryKey(strings.TrimPrefix(t.Ref.Key, q.prefix))
		w.Ref, w.Spec = t.Ref, watch.Spec{Key: t.Ref.Key, Puts: !ours || k.valued || k.takes() != 0}
		if ours && q.asks {
			w.First = string(q.firstKey(t.Ref.Key))
		}
		if m, ok := q.view[t.Ref.Place]; ok {
			w.Known, w.Marks = q.viewed, m
		}
		if o := qs.ownOf(t.Ref); o != nil {
			w.First, w.Marks = "", w.Marks|o.marks
			from := q.prefix + lease.Name(qs.lease)
			w.Spec = watch.Spec{Key: from + ".", End: from + "/"} // "/" is the byte after "."
		}
	case driver.OfQueue:
	}
	return w
}

// ofHolder reports whether a change of a queue can be that of an entry with the mark
// Admitted: such an entry is one that was written again.
func ofHolder(ev *mvccpb.Event) bool {
	kv := ev.Kv
	if ev.Type == mvccpb.Event_DELETE {
		kv = ev.PrevKv
	}
	return kv == nil || kv.Version > 1 // nil: it was compacted already
}

// firstKey returns the key that is written when an entry leaves that was first.
func (q *queue) firstKey(entry string) []byte {
	return []byte(q.side + firstFolder + entry[len(q.prefix):])
}

// detailKey returns the key of the detail of an entry.
func (q *queue) detailKey(entry string) []byte {
	return []byte(q.side + detailFolder + entry[len(q.prefix):])
}
