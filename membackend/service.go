package membackend

import (
	"errors"

	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// errNoLease is how the service says that it does not have the session.
var errNoLease = errors.New("no such session")

// join is the service's part of Join and JoinAll. It acts once for each attempt:
// all entries are made, at one revision, or none.
func (st *Store) join(l *lease, a *attempt, reqs []driver.JoinRequest) {
	if failpoint.On(failpoint.JoinTwice) && a.err == nil {
		a.decided = false
	}
	if a.decided {
		return
	}
	a.decided = true
	if st.leases[l.id] != l {
		a.err = errNoLease
		return
	}
	for _, req := range reqs {
		if a.err = st.refuses(req); a.err != nil {
			return
		}
	}
	st.rev++
	for _, req := range reqs {
		made, joined := st.joinOne(l, req)
		a.made, a.joined = append(a.made, made), append(a.joined, joined)
	}
}

// refuses says why a line does not take a request, or nil.
func (st *Store) refuses(req driver.JoinRequest) error {
	if has := st.beside[req.Line].limit; req.Limit != 0 && has != 0 && has != req.Limit && !req.Follow {
		return &driver.LimitError{Limit: has, Asked: req.Limit}
	}
	if ln := st.lines[req.Line]; ln != nil && req.IfEmpty {
		return &driver.TakenError{First: ln.entries[0].brief(), Count: len(ln.entries)}
	}
	return nil
}

// joinOne makes an entry at the revision st.rev.
func (st *Store) joinOne(l *lease, req driver.JoinRequest) (*entry, driver.Joined) {
	var j driver.Joined
	ln := st.lines[req.Line]
	if ln != nil {
		j.Ahead = len(ln.entries)
		j.Known = []driver.Entry{ln.entries[0].brief()}
	}
	if ln != nil && st.o.Near {
		end := driver.LookRequest{Line: req.Line, Upto: st.rev, Nearest: req.Nearest}
		j.Known, j.Near = st.look(end).Entries, true
	}
	made := st.own(l, req)
	j.Entry, j.Rev = made.brief(), st.rev
	if req.Limit != 0 || req.Follow {
		j.Limit = st.limitOr(req.Line, req.Limit)
	}
	if req.Ledger {
		j.Entered, j.Past = st.enterClean(made)
	}
	return made, j
}

// leave is the service's part of Leave and LeaveAll: it deletes entries at one
// revision. It acts once for each departure.
func (st *Store) leave(l *lease, ds []*departure, reqs []driver.LeaveRequest) {
	first := true
	for i, d := range ds {
		if d.done {
			continue
		}
		d.done = true
		e := st.find(reqs[i].Ref)
		if e == nil || e.lease != l {
			d.err = driver.ErrGone
			continue
		}
		if first {
			st.rev++
			first = false
		}
		d.left = st.leaveOne(l, e, reqs[i])
	}
}

// leaveOne deletes an entry at the revision st.rev.
func (st *Store) leaveOne(l *lease, e *entry, req driver.LeaveRequest) driver.Left {
	left := driver.Left{Rev: st.dated(st.rev)}
	if !req.Probe.Zero() {
		left.Probed = true
		probe := st.find(req.Probe)
		left.Alive = probe != nil && probe.lease == l
	}
	if req.Clean {
		st.strike(e)
	}
	st.remove(e)
	if ln := st.lines[e.Line]; ln != nil && req.Held {
		ln.word = e.Ref
	}
	return left
}

// held says whether an entry that is gone has left word that it held.
func (st *Store) held(ref driver.Ref) bool {
	ln := st.lines[ref.Line]
	return ln != nil && ln.word == ref
}

// look is the service's part of Look.
func (st *Store) look(req driver.LookRequest) driver.View {
	if v, ok := st.lookBack(req); ok {
		return v
	}
	v := driver.View{Rev: st.rev, Complete: true}
	if req.Limit {
		v.Limit = st.beside[req.Line].limit
	}
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
		shown := e.brief()
		shown.Admitted = e.Admitted && req.Limit // who asks for neither reads only the line
		v.Entries = append(v.Entries, shown)
	}
	return v
}
