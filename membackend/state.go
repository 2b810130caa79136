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
type state struct {
	o       memory.Options
	sched   memory.Schedule // decides when things happen at the service
	rev     int64           // of the last change; tokens are taken from it
	queues  map[string]*queue
	places  map[string]int64 // the last place of each queue, if o.Sequences
	watches map[driver.Target][]*watch
}

// queue is one name's entries and records from a revision on. For a kind that is Stale it
// is not changed after that revision, but replaced.
type queue struct {
	name    string
	rev     int64
	since   time.Duration
	before  *queue            // the one that it has replaced
	entries []*entry          // in order of place; an entry is not changed but replaced
	records map[string]record // those that were deleted, too: their versions go on
}

// entry is one place in a queue, as the service keeps it.
type entry struct {
	driver.Entry
	lease *lease // nil: of another program
	slot  int    // makes its key
	wrote int64  // the Update that wrote data or detail last
}

// record is a value next to a queue. A nil Value means that it was deleted.
type record struct {
	driver.Record
	lease *lease // with which it ends, if it is bound
}

// shown returns an entry as an answer shows it. Where places are tokens, the answer always
// shows token and session, as a key of etcd's does.
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

// queue returns the present queue of a name, to be read only.
func (st *state) queue(name string) *queue {
	q := st.queues[name]
	if q != nil {
		return q
	}
	return &queue{name: name}
}

// edit returns the queue of a name, to be changed at the revision rev.
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

// put adds an entry at the end of its queue.
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

// putAt adds an entry with the place of another one of its queue, in the order of keys.
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
	taken := make([]bool, len(all)+1)
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

// remove deletes one entry. first is LeaveRequest.First.
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

// change replaces an entry by a copy that f has changed.
func (st *state) change(e *entry, f func(e *entry)) {
	q, changed := st.edit(e.Queue), *e
	f(&changed)
	q.entries[q.index(e.Ref)] = &changed
	st.notify(e.Target(), driver.Event{Kind: driver.Changed, Marks: changed.Marks})
	st.changed(&changed)
}

// changed notifies the watches of an entry's queue of a change.
func (st *state) changed(e *entry) {
	st.notify(driver.Target{Kind: driver.OfQueue, Queue: e.Queue}, driver.Event{Kind: driver.Changed})
	if e.Marks.Has(driver.MarkAdmitted) || st.o.Spurious {
		st.notify(driver.Target{Kind: driver.OfHolders, Queue: e.Queue}, driver.Event{Kind: driver.Changed})
	}
	st.sched.Changed(e.Queue)
}

// write gives a record a value, or deletes it if value is nil. Unless bound is nil, the
// record ends with that lease.
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

// notify reports an event to the watches of a target.
func (st *state) notify(t driver.Target, ev driver.Event) {
	for _, w := range st.watches[t] {
		w.report(ev)
	}
}
