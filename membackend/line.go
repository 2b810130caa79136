package membackend

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// line is one name's entries. A line without entries does not exist.
type line struct {
	entries []*entry   // in order of place
	word    driver.Ref // who gave back a hold, if nobody has joined since
}

// entry is one place in a line, as the service keeps it.
type entry struct {
	driver.Entry // as answers tell it
	value        []byte
	valued       bool  // value is the user's, and Meta lies beside the line
	made         int64 // the revision at which the key was made
	changed      int64 // the revision of the last change
	wrote        int64 // which call wrote the value
	lease        *lease
	slot         int
	was          driver.Ref // before Share, where that moves it
	number       int        // from Claim, counted from 1; 0 is none
	numbered     int64      // the revision of that
}

// brief is an entry as those answers tell it that are about places: without
// its value, which may be large.
func (e *entry) brief() driver.Entry {
	shown := e.Entry
	shown.Value = nil
	return shown
}

// write sets an entry's value. One that cannot be read costs the entry its
// Meta, never its place.
func (e *entry) write(value []byte) {
	e.value = value
	if e.Foreign || e.valued {
		e.Value = value
		return
	}
	e.Meta, _ = driver.DecodeMeta(value)
}

// lease is a session at the service.
type lease struct {
	id      string
	ttl     time.Duration
	expires time.Time
	timer   *time.Timer
	entries map[driver.Ref]*entry
	slots   map[string][]bool // by line: which slots are in use
}

// at returns the index of the first entry at or behind a place, and whether it
// stands there.
func (ln *line) at(place int64) (int, bool) {
	return slices.BinarySearchFunc(ln.entries, place, func(e *entry, p int64) int {
		return cmp.Compare(e.Place, p)
	})
}

// find returns the entry that ref names, or nil. A key that was used again is
// another entry.
func (st *Store) find(ref driver.Ref) *entry {
	ln := st.lines[ref.Line]
	if ln == nil {
		return nil
	}
	if i, ok := ln.at(ref.Place); ok && ln.entries[i].Key == ref.Key {
		return ln.entries[i]
	}
	return nil
}

// put makes an entry at the end of its line, at the revision st.rev. The lease
// may be nil.
func (st *Store) put(e *entry) {
	e.Place, e.Token, e.made, e.changed = st.rev, st.rev, st.rev, st.rev
	ln := st.lines[e.Line]
	if ln == nil {
		ln = &line{}
		st.lines[e.Line] = ln
	}
	ln.entries = append(ln.entries, e)
	ln.word = driver.Ref{}
	if e.lease != nil {
		e.lease.entries[e.Ref] = e
	}
	st.tellLine(e.Line, driver.OfLine, 0)
}

// own makes an entry of a session. Its key is the session's lowest free slot
// on the line, so that keys are used again as soon as they can be.
func (st *Store) own(l *lease, req driver.JoinRequest) *entry {
	used := l.slots[req.Line]
	slot := slices.Index(used, false)
	if slot < 0 {
		slot = len(used)
		used = append(used, false)
	}
	used[slot] = true
	l.slots[req.Line] = used
	e := &entry{lease: l, slot: slot, Entry: driver.Entry{
		Ref:     driver.Ref{Line: req.Line, Key: fmt.Sprintf("%s#%s.%d", req.Line, l.id, slot)},
		Mode:    req.Mode,
		Weight:  req.Weight,
		Session: l.id,
		Movable: st.o.Moves && req.Kin == driver.KinReadWrite && req.Mode == driver.Exclusive,
	}}
	if req.Value == nil {
		e.write(req.Meta.Encode())
	} else {
		e.Meta, _ = driver.DecodeMeta(req.Meta.Encode())
		e.valued = true
		e.write(slices.Clone(req.Value))
	}
	st.put(e)
	return e
}

// remove deletes one entry at the revision st.rev and tells its watchers.
func (st *Store) remove(e *entry) {
	ln := st.lines[e.Line]
	i, _ := ln.at(e.Place)
	ln.entries = slices.Delete(ln.entries, i, i+1)
	if len(ln.entries) == 0 {
		delete(st.lines, e.Line)
	}
	if l := e.lease; l != nil && l.entries[e.Ref] == e {
		delete(l.entries, e.Ref)
		if used := l.slots[e.Line]; used != nil {
			used[e.slot] = false
			if !slices.Contains(used, true) {
				delete(l.slots, e.Line)
			}
		}
	}
	st.tellGone(e.Ref)
	st.tellLine(e.Line, driver.OfLine, 0)
	if e.Admitted || st.o.Ends {
		st.tellLine(e.Line, driver.OfAdmitted, e.Place)
	}
}

// grant makes a lease.
func (st *Store) grant(ttl time.Duration) *lease {
	st.opened++
	l := &lease{
		id:      fmt.Sprintf("m%d", st.opened),
		ttl:     ttl,
		expires: st.now().Add(ttl),
		entries: make(map[driver.Ref]*entry),
		slots:   make(map[string][]bool),
	}
	st.leases[l.id] = l
	st.expireLater(l)
	return l
}

// renew lets a lease live for its TTL from now on.
func (st *Store) renew(l *lease) {
	l.expires = st.now().Add(l.ttl)
	if l.timer != nil {
		l.timer.Reset(l.ttl)
	}
}

// end removes a lease and all its entries, in one revision as etcd does.
func (st *Store) end(l *lease) {
	if st.leases[l.id] != l {
		return
	}
	delete(st.leases, l.id)
	if l.timer != nil {
		l.timer.Stop()
	}
	all := make([]*entry, 0, len(l.entries))
	for _, e := range l.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Line, b.Line)) // JoinAll's have one place
	})
	if len(all) > 0 {
		st.rev++
	}
	for _, e := range all {
		st.remove(e)
	}
}
