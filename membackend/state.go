package membackend

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session/driver"
)

// state is what the service stores: queues of entries, and their records. A change is made
// at the revision rev, which its caller has raised before, and notifies the watches.
//
// Its methods take no mutex: that of the service is held.
type state struct {
	o     memory.Options
	sched memory.Schedule // decides when things happen at the service

	// rev is the revision of the last change. It only rises. All changes of one request have one
	// revision. Tokens are taken from it, so they rise over all queues, and so are places, unless
	// o.Sequences is set.
	rev int64

	// queues has the queues that have an entry, have or had a record, or, for a kind that is Stale,
	// had an entry.
	queues map[string]*queue

	// places has the last place of each queue, if o.Sequences. Here it never begins anew, although
	// the contract allows that for a queue that was empty.
	places map[string]int64

	// watches are those that are armed, by target. No slice in it is empty. A watch on an entry
	// goes with the entry, before a key and a place can name another one.
	watches map[driver.Target][]*watch
}

// queue is one name's entries and records from a revision on. For a kind that is Stale it
// is not changed after that revision, but replaced.
type queue struct {
	name string

	// rev is the revision of its last change, and since the service's time of that.
	rev   int64
	since time.Duration

	// before is the one that it has replaced; nil if there is none that a read may still show, and
	// for a kind that is not Stale.
	before *queue

	// entries are in order of place. An entry is not changed but replaced, so that an older queue
	// keeps its own. Only a detail is changed in place: no event reports it.
	entries []*entry

	// records are also those that were deleted: their versions go on, so that a condition At never
	// takes a new record for an older one of that name.
	records map[string]record
}

// entry is one place in a queue, as the service keeps it.
type entry struct {
	driver.Entry

	// lease is that of its session. The entry ends with it, at the latest. nil: an entry of another
	// program, which nothing here ends.
	lease *lease

	// slot makes its key. No two entries of a session in a queue have the same at one time.
	slot int

	// wrote is the number of the newest Update that has written its data or its detail; 0: none.
	wrote int64
}

// record is a value next to a queue. A nil Value means that it was deleted. Its version rises by
// one with each write and each deletion, and its token is the revision of the last one.
type record struct {
	driver.Record
	lease *lease // with which it ends, if it is bound; else nil
}

// shown returns an entry as an answer shows it, which shares no memory with the service. Where
// places are tokens, the answer always shows token and session, as a key of etcd's does.
func (st *state) shown(e *entry, marks, detail bool) driver.Entry {
	shown := e.Entry
	if !marks {
		shown.Marks = 0
	}
	shown.Data, shown.Detail = slices.Clone(e.Data), slices.Clone(e.Detail)
	if !detail {
		shown.Data, shown.Detail = nil, nil
	}
	if !detail && (st.o.Sequences || st.o.Terse) {
		shown.Session, shown.Token = "", 0
	}
	return shown
}

// behind returns the index of the first entry behind a place.
func (q *queue) behind(place int64) int {
	i, _ := slices.BinarySearchFunc(q.entries, place, func(e *entry, p int64) int { return cmp.Or(cmp.Compare(e.Place, p), -1) })
	return i
}

// index returns the index of an entry, -1 if it is not there. A key that was used again names
// another entry, and another program's may have the same place.
func (q *queue) index(ref driver.Ref) int {
	for i := q.behind(ref.Place - 1); i < len(q.entries) && q.entries[i].Place == ref.Place; i++ {
		if q.entries[i].Ref == ref {
			return i
		}
	}
	return -1
}

// nearest returns the index of the first of the n entries before end, or of more: a view has
// all entries of one place or none.
func (q *queue) nearest(n, end int) int {
	start := max(0, end-n)
	for start > 0 && start < end && q.entries[start-1].Place == q.entries[start].Place {
		start--
	}
	return start
}

// record returns a record, and whether it is there.
func (q *queue) record(name string) (driver.Record, bool) {
	r := q.records[name].Record
	if r.Value == nil {
		return driver.Record{}, false
	}
	r.Value = slices.Clone(r.Value)
	return r, true
}

// named returns the records with these names that exist. A name that ends in a slash is a
// prefix, and a slash alone is that of all.
func (q *queue) named(names ...string) map[string]driver.Record {
	found := make(map[string]driver.Record)
	for name := range q.records {
		r, there := q.record(name)
		if there && slices.ContainsFunc(names, func(n string) bool {
			return n == name || n == "/" || strings.HasSuffix(n, "/") && strings.HasPrefix(name, n)
		}) {
			found[name] = r
		}
	}
	return found
}

// queue returns the present queue of a name, to be read only. One that does not exist is empty, as
// the contract demands of reads.
func (st *state) queue(name string) *queue {
	q := st.queues[name]
	if q != nil {
		return q
	}
	return &queue{name: name}
}

// edit returns the queue of a name, to be changed at the revision rev. For a kind that is Stale, the
// first change of a revision makes a copy, and later ones of it change that. So every queue that a
// read may show is as a whole request has left it.
func (st *state) edit(name string) *queue {
	q := st.queue(name)
	if st.o.Stale > 0 && q.rev != st.rev {
		q = &queue{name: name, before: q, entries: slices.Clone(q.entries), records: maps.Clone(q.records)}
	}
	if q.records == nil {
		q.records = make(map[string]record)
	}
	q.rev, q.since = st.rev, st.sched.Now()
	for o := q; o != nil; o = o.before {
		if o.since <= q.since-st.o.Stale {
			o.before = nil // no read goes back that far any more
		}
	}
	st.queues[name] = q
	return q
}

// find returns the entry that ref names, or nil.
func (st *state) find(ref driver.Ref) *entry {
	q := st.queue(ref.Queue)
	i := q.index(ref)
	if i >= 0 {
		return q.entries[i]
	}
	return nil
}

// put adds an entry at the end of its queue. Its place is behind all that the queue has ever had:
// this is what makes a set of entries ahead only shrink.
func (st *state) put(e *entry) {
	e.Place, e.Token = st.rev, st.rev
	if st.o.Sequences {
		st.places[e.Queue]++
		e.Place = st.places[e.Queue]
	}
	q := st.edit(e.Queue)
	q.entries = append(q.entries, e)
	st.changed(e)
}

// putAt adds an entry with the place of another one of its queue, in the order of keys. Only another
// program does that. A view has all entries of one place or none, see nearest.
func (st *state) putAt(e *entry, place int64) {
	e.Place, e.Token = place, st.rev
	q := st.edit(e.Queue)
	i := q.behind(place - 1)
	for i < len(q.entries) && q.entries[i].Place == place && q.entries[i].Key < e.Key {
		i++
	}
	q.entries = slices.Insert(q.entries, i, e)
	st.changed(e)
}

// own makes an entry of a session. Its key has the session's lowest free slot in the
// queue, so that keys are used again as soon as they can be.
func (st *state) own(l *lease, req driver.JoinRequest) *entry {
	all := st.queue(req.Queue).entries
	taken := make([]bool, len(all)+1) // one more than there are entries, so one is free
	for _, e := range all {
		if e.lease == l && e.slot < len(taken) {
			taken[e.slot] = true
		}
	}
	slot := slices.Index(taken, false)
	e := &entry{lease: l, slot: slot, Entry: driver.Entry{
		Ref:     driver.Ref{Queue: req.Queue, Key: fmt.Sprintf("%s#%s.%d", req.Queue, l.id, slot)},
		Mode:    req.Mode,
		Weight:  req.Weight,
		Valued:  req.Valued,
		Session: l.id,
		Data:    slices.Clone(req.Data),
		Detail:  slices.Clone(req.Detail),
	}}
	st.put(e)
	return e
}

// remove deletes one entry. first is LeaveRequest.First. Gone is the last event of its watches, which
// are taken out with it. Its records stay: those of the request are deleted by the Ops of a Leave,
// and what is bound ends with the lease.
func (st *state) remove(e *entry, first bool) {
	q := st.edit(e.Queue)
	i := q.index(e.Ref)
	q.entries = slices.Delete(q.entries, i, i+1)
	st.notify(e.Target(), driver.Event{Kind: driver.Gone, First: first && st.o.First})
	delete(st.watches, e.Target())
	st.changed(e)
	if len(q.entries) == 0 && len(q.records) == 0 && st.o.Stale == 0 {
		delete(st.queues, q.name)
	}
}

// change replaces an entry by a copy that f has changed, in its place and with its token. e is not
// in the queue any more afterwards.
func (st *state) change(e *entry, f func(e *entry)) {
	q, changed := st.edit(e.Queue), *e
	f(&changed)
	q.entries[q.index(e.Ref)] = &changed
	st.notify(e.Target(), driver.Event{Kind: driver.Changed, Marks: changed.Marks})
	st.changed(&changed)
}

// changed notifies the watches of an entry's queue of a change. Those of holders are notified only
// if the entry has the mark Admitted after the change, or had it when it was removed.
func (st *state) changed(e *entry) {
	st.notify(driver.Target{Kind: driver.OfQueue, Queue: e.Queue}, driver.Event{Kind: driver.Changed})
	if e.Marks.Has(driver.MarkAdmitted) || st.o.Spurious {
		st.notify(driver.Target{Kind: driver.OfHolders, Queue: e.Queue}, driver.Event{Kind: driver.Changed})
	}
	st.sched.Changed(e.Queue)
}

// write gives a record a value, or deletes it if value is nil. Unless bound is nil, the
// record ends with that lease. Deleting a record that is not there changes nothing, not even its
// version.
func (st *state) write(name, of string, value []byte, bound *lease) {
	r := st.queue(name).records[of]
	if r.Value == nil && value == nil {
		return
	}
	r.Value, r.Token, r.lease = slices.Clone(value), st.rev, bound
	r.Version++
	st.edit(name).records[of] = r
	st.notify(driver.Target{Kind: driver.OfRecord, Queue: name, Record: of}, driver.Event{Kind: driver.Changed})
	st.sched.Changed(name)
}

// notify reports an event to the watches of a target. Only the network decides when it arrives, so
// what is called here runs no code of a caller and changes nothing.
func (st *state) notify(t driver.Target, ev driver.Event) {
	for _, w := range st.watches[t] {
		w.report(ev)
	}
}
