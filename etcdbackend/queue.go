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
//
// A queue is remembered while the session has an entry in it, and for a while after. What must
// outlive it is kept here, for all queues together: dropped and base.
type queues struct {
	lay   layout
	lease int64

	mu     sync.Mutex // guards all below, and what changes in each queue and each own
	byName map[string]*queue
	busy   int // how many of them have keys in use, see queue.inUse

	// base is the lowest index that a new queue uses. All that were ever retired are lower,
	// so none of them is used again after its queue was forgotten.
	base int

	// dropped is the highest floor of a queue that was forgotten, and the first floor of each
	// new one: so a queue that comes back is not read as of an older revision than before.
	dropped int64
}

// queue is what is remembered of one queue. The mutex of queues guards all that changes.
// A queue without own entries may be forgotten while a pointer to it is in use: so what
// was learned of a queue is recorded by its name.
type queue struct {
	name   string
	prefix string // of the keys of entries
	side   string // of the keys of records and details

	// floor is the revision that no read of the queue may be older than: the newest of all
	// answers and events about it that the session's caller was given, or is about to be. 0:
	// the session knows nothing of the queue. It only rises.
	floor int64

	// found is how many entries an answer has counted, most recently. It can be wrong at any
	// time: it only decides whether a join sorts.
	found int64

	// watchesFirst: the waiters of this session watch the first key of the entry ahead, see
	// first.go. It is as of the newest own entry.
	watchesFirst bool

	// own are the entries of this session, by place. One that is being made is not there yet.
	own map[int64]*own

	// An index below next is in use by an own entry, in unused, or retired. inUse is how many
	// are in use, by entries that are there or are being made.
	next   int
	unused []int
	inUse  int

	// view has, by place, entries of the newest read with the marks that it has shown. viewed
	// is the revision of that read. It lets a watch be armed without a read of its own.
	view   map[int64]driver.Marks
	viewed int64
}

// own is an entry of this session, or one that is being made.
//
// The index in its key may be used again only when it is certain that the key is gone,
// and that no request can still make or delete it. If that is never certain, the index is
// retired. Keys are used again because etcd keeps every key name until it compacts.
//
// What can become of an index:
//
//	unused, or next   nothing is there, and no request is under way
//	reserved          a join may make the key, or the entry is there
//	unused again      the entry is certainly gone, and nothing can still touch the key
//	retired           the entry is gone; a delete without a condition, or a detail that
//	                  stayed, would hit the next entry with the key
type own struct {
	entryKey
	cell // the key of the entry. written is 0 until the entry is made; marks and data raise it
	q    *queue
	ref  driver.Ref // Place is 0 until the entry is made, and does not change after that

	// data is what the entry was made with, without marks; nil if it is valued: a valued entry
	// takes no marks, so nothing has to be written again with them.
	data  []byte
	marks driver.Marks // those that an Update has certainly added; no mark is ever removed

	// writesFirst: the release of the entry writes its first key, see first.go.
	writesFirst bool

	// detail is the cell next to the entry; without a key there is none.
	detail cell

	reserved bool // the entry is there, or is being made; false once it is certainly gone
	retired  bool // the index is not used again, see above; never false again
	unsure   bool // a request to delete the entry was not answered: if it is gone, Leave is Unclear
	gone     bool // a watch has reported the end of the entry: a plain delete could hit another's

	// doubt: an Update whose outcome is not known may still write the entry. So that its key
	// was written shows nothing of a later Update. The next one that is carried out ends it.
	// Only calls about the entry use it, and they come one at a time.
	doubt bool
}

// minQueues is the least number of queues without own entries that are forgotten.
const minQueues = 8

func newQueues(lay layout, lease int64) *queues {
	return &queues{lay: lay, lease: lease, byName: make(map[string]*queue)}
}

// get finds a queue or makes it. The caller holds the mutex.
func (qs *queues) get(name string) *queue {
	q := qs.byName[name]
	if q != nil {
		return q
	}
	qs.tidy()
	q = &queue{name: name, prefix: qs.lay.prefix(name), side: qs.lay.side(name), floor: qs.dropped, next: qs.base, own: make(map[int64]*own)}
	qs.byName[name] = q
	return q
}

// tidy forgets the queues without own entries, if more than half are. So it costs little for
// each queue, and a session that tries a million names remembers few. The caller holds the
// mutex.
func (qs *queues) tidy() {
	if len(qs.byName) < 2*qs.busy+minQueues {
		return
	}
	for name, q := range qs.byName {
		if q.inUse == 0 {
			qs.dropped = max(qs.dropped, q.floor)
			delete(qs.byName, name)
		}
	}
}

// lookup returns a queue and its floor. Only the fields of the queue that never change may be
// used.
func (qs *queues) lookup(name string) (q *queue, floor int64) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q = qs.get(name)
	return q, q.floor
}

// floor returns the revision that no read of a queue may be older than.
func (qs *queues) floor(name string) int64 {
	_, floor := qs.lookup(name)
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

// count records how many entries a queue has.
func (qs *queues) count(name string, n int64) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	qs.get(name).found = n
}

// maxSeen is how many entries of a read are remembered: those nearest to its own one.
const maxSeen = 16

// remember learns a revision, and keeps the entries that a read at that revision has
// shown with their marks: the caller is likely to watch them next, and then they need not
// be read. An entry whose marks its key hides is left out, because they are not known yet.
func (qs *queues) remember(name string, rev int64, kvs []*mvccpb.KeyValue, es []driver.Entry) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q := qs.get(name)
	q.floor = max(q.floor, rev)
	if rev < q.viewed {
		return // the answer to a later read came first
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
	last := len(q.unused) - 1
	if last >= 0 {
		k.index, q.unused = q.unused[last], q.unused[:last]
	} else {
		q.next++
	}
	o = &own{entryKey: k, cell: cell{key: k.append([]byte(q.prefix))}, q: q, reserved: true}
	o.ref = driver.Ref{Queue: q.name, Key: string(o.key)}
	if !req.Valued {
		o.data = req.Data
	}
	q.inUse++
	if q.inUse == 1 {
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
	o.useFirstKeys(ahead)
	o.q.found, o.q.floor = ahead, max(o.q.floor, place)
}

// free forgets an own entry that is certainly gone, and lets its key be used again
// unless that is retired. The end of an entry may be learned twice.
func (qs *queues) free(o *own) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if !o.reserved {
		return
	}
	o.reserved = false
	delete(o.q.own, o.ref.Place)
	if o.retired {
		qs.base = max(qs.base, o.index+1) // also when this queue is forgotten
	} else {
		o.q.unused = append(o.q.unused, o.index)
	}
	o.q.inUse--
	if o.q.inUse == 0 {
		qs.busy--
		qs.tidy()
	}
}

// find returns the entry of this session that ref names, nil if there is none, and whether
// a watch has reported its end.
func (qs *queues) find(ref driver.Ref) (o *own, gone bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	o = qs.ownOf(ref)
	return o, o != nil && o.gone
}

// ownOf is find for callers that hold the mutex. The key alone names no entry: a later entry
// can have it.
func (qs *queues) ownOf(ref driver.Ref) *own {
	q := qs.byName[ref.Queue]
	if q == nil {
		return nil
	}
	o := q.own[ref.Place]
	if o == nil || o.ref != ref {
		return nil
	}
	return o
}

// wrote records that marks were added to an own entry.
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
	o := qs.ownOf(t.Ref)
	if o != nil && k == driver.Gone {
		o.gone = true
	}
}

// target returns what to watch at the server:
//
//	an own entry              all own entries of the queue, deletes only: one watch for all.
//	                          This session writes them, and reports writes itself
//	an entry that takes no    its key, deletes only: a write would be that of a later entry
//	mark, of this library     with the key
//	any other entry           its key, deletes and writes
//	the holders of a queue    its range, with each key as it was before, to see whose end
//	                          concerns a holder
//	a queue                   its range
//	a record                  its key
//
// What is known of an entry, and as of when, comes with it: then it need not be read.
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
		if ours && q.watchesFirst {
			w.First = string(q.firstKey(t.Ref.Key))
		}
		if m, ok := q.view[t.Ref.Place]; ok {
			w.Known, w.Marks = q.viewed, m
		}
		o := qs.ownOf(t.Ref)
		if o != nil {
			w.First, w.Marks = "", w.Marks|o.marks // the answer to its Leave shows that it was first
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

// detailKey returns the key of the detail of an entry.
func (q *queue) detailKey(entry string) []byte {
	return []byte(q.side + detailFolder + entry[len(q.prefix):])
}
