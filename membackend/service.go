package membackend

import (
	"errors"

	"github.com/fairlock/fairlock/session/driver"
)

// errNoLease is how the service says that it does not have the session.
var errNoLease = errors.New("no such session")

// join is the service's part of Join. It acts once for each attempt.
func (st *Store) join(l *lease, a *attempt, req driver.JoinRequest) {
	if a.decided {
		return
	}
	a.decided = true
	if st.leases[l.id] != l {
		a.err = errNoLease
		return
	}
	ln := st.lines[req.Line]
	if ln != nil && req.IfEmpty {
		a.err = &driver.TakenError{First: ln.entries[0].Entry, Count: len(ln.entries)}
		return
	}
	if ln != nil {
		a.joined.Ahead = len(ln.entries)
		a.joined.Known = []driver.Entry{ln.entries[0].Entry}
	}
	if ln != nil && st.o.Near {
		end := driver.LookRequest{Line: req.Line, Upto: st.rev, Nearest: req.Nearest}
		a.joined.Known, a.joined.Near = st.look(end).Entries, true
	}
	a.made = st.own(l, req)
	a.joined.Entry, a.joined.Rev = a.made.Entry, st.rev
}

// leave is the service's part of Leave. It acts once for each departure.
func (st *Store) leave(l *lease, d *departure, req driver.LeaveRequest) {
	if d.done {
		return
	}
	d.done = true
	e := st.find(req.Ref)
	if e == nil || e.lease != l {
		d.err = driver.ErrGone
		return
	}
	st.rev++
	d.left.Rev = st.rev
	if !req.Probe.Zero() {
		d.left.Probed = true
		probe := st.find(req.Probe)
		d.left.Alive = probe != nil && probe.lease == l
	}
	st.remove(e)
	if ln := st.lines[e.Line]; ln != nil && req.Held {
		ln.word = e.Ref
	}
}

// held says whether an entry that is gone has left word that it held.
func (st *Store) held(ref driver.Ref) bool {
	ln := st.lines[ref.Line]
	return ln != nil && ln.word == ref
}

// look is the service's part of Look.
func (st *Store) look(req driver.LookRequest) driver.View {
	v := driver.View{Rev: st.rev, Complete: true}
	ln := st.lines[req.Line]
	if ln == nil {
		return v
	}
	end, own := ln.at(req.Upto)
	start := 0
	if req.Nearest > 0 {
		start = max(0, end-req.Nearest)
	}
	if own {
		end++
	}
	v.Complete = start == 0
	for _, e := range ln.entries[start:end] {
		v.Entries = append(v.Entries, e.Entry)
	}
	return v
}
