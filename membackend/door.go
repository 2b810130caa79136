package membackend

import (
	"maps"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session/driver"
)

// Inside is this package as the tests of this module see it. Users cannot get one.
type Inside = memory.Door[Store]

// Engine returns the inner side of this package, for the tests of this module. Users
// cannot call it.
func Engine(door.Key) Inside {
	return Inside{
		New:          newWith,
		Entries:      (*Store).entries,
		Records:      (*Store).records,
		PutForeign:   (*Store).putForeign,
		PutReader:    (*Store).putReader,
		Overwrite:    (*Store).overwrite,
		DeleteRecord: (*Store).deleteRecord,
		NewLife:      (*Store).newLife,
	}
}

// memory.Door specifies the methods below. They act at the service directly, as another program or
// an operator would: no network, no fault and no lease is in their way, and watches are notified of
// what they change.

func (st *Store) entries(name string) []driver.Entry {
	st.mu.Lock()
	defer st.mu.Unlock()
	var all []driver.Entry
	for _, e := range st.queue(name).entries {
		all = append(all, st.shown(e, true, true))
	}
	return all
}

func (st *Store) putForeign(name, key string, leased bool) (driver.Ref, bool) {
	if st.act(name, key, func(*entry) {}) {
		return driver.Ref{}, false
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	e := &entry{Entry: driver.Entry{Ref: driver.Ref{Queue: name, Key: key}, Foreign: true, Unleased: !leased, Data: []byte{}}}
	if leased {
		e.Session = "x"
	}
	st.rev++
	st.put(e)
	return e.Ref, true
}

func (st *Store) putReader(writer driver.Ref, key string) (driver.Ref, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	e := &entry{Entry: driver.Entry{
		Ref: driver.Ref{Queue: writer.Queue, Key: key}, Mode: driver.Shared, Foreign: true, Session: "x", Data: []byte{},
	}}
	switch {
	case writer.Place == 0:
		st.rev++
		st.put(e)
	case st.find(writer) == nil:
		return driver.Ref{}, false
	default:
		st.rev++
		st.putAt(e, writer.Place)
	}
	return e.Ref, true
}

func (st *Store) overwrite(name, key string, data []byte) bool {
	return st.act(name, key, func(e *entry) {
		st.change(e, func(e *entry) {
			if data != nil {
				e.Data = slices.Clone(data)
			}
		})
	})
}

func (st *Store) deleteRecord(name, record string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.rev++
	st.write(name, record, nil, nil)
}

func (st *Store) newLife(quarantine time.Duration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(st.leases)) {
		st.end(st.leases[id])
	}
	st.rev++
	st.since = st.rev
	st.until = st.sched.Now() + quarantine
}
