package membackend

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// errNoLease is how the service says that it does not have the session.
var errNoLease = fmt.Errorf("no such session: %w", driver.ErrSessionOver)

// attempt is one Join, however many copies of it travel.
type attempt struct {
	reqs  []driver.JoinRequest
	void  bool // it was settled
	made  []driver.Ref
	token int64
}

// join is the service's part of Join: all entries are made, at one revision, or none.
func (st *Store) join(l *lease, a *attempt) ([]driver.Joined, error) {
	switch {
	case a.void:
		return nil, driver.ErrGone
	case !st.alive(l):
		return nil, errNoLease
	}
	joined := make([]driver.Joined, len(a.reqs))
	for i, req := range a.reqs {
		err := st.taken(req)
		if err == nil {
			joined[i].Ops, err = st.conditions(req.Queue, req.Ops, l)
		}
		if err != nil {
			return nil, err
		}
	}
	st.rev++
	a.token = st.rev
	for i, req := range a.reqs {
		j := &joined[i]
		j.View = st.ahead(req)
		e := st.own(l, req)
		a.made = append(a.made, e.Ref)
		j.Entry = st.shown(e, true, true)
		st.operate(req.Queue, req.Ops, j.Ops, l)
		j.View.Records = st.queue(req.Queue).named(req.Records...)
	}
	return joined, nil
}

// taken returns the error of a request with IfEmpty for a queue that is not empty.
func (st *Store) taken(req driver.JoinRequest) error {
	all := st.queue(req.Queue).entries
	switch {
	case !req.IfEmpty || len(all) == 0:
		return nil
	case st.o.Terse:
		return &driver.TakenError{Queue: req.Queue, Count: -1}
	}
	return &driver.TakenError{Queue: req.Queue, First: st.shown(all[0], true, true), Count: len(all)}
}

// ahead is what a Join shows of the queue to whose end it adds.
func (st *Store) ahead(req driver.JoinRequest) driver.View {
	all := st.queue(req.Queue).entries
	shown := all
	switch {
	case st.o.Terse, !st.o.Near && len(all) > 1:
		shown = nil
	case req.Nearest > 0:
		shown = all[max(0, len(all)-req.Nearest):]
	}
	v := driver.View{Count: len(all), Complete: len(shown) == len(all)}
	for _, e := range shown {
		v.Entries = append(v.Entries, st.shown(e, false, false))
	}
	return v
}

// settle makes a Join void: its entries and the records that it made are deleted, and
// are refused if a copy of the request arrives later.
func (st *Store) settle(a *attempt) {
	a.void = true
	if failpoint.On(failpoint.LateJoin) {
		a.void = false
	}
	st.rev++
	for i, ref := range a.made {
		e := st.find(ref)
		if e == nil {
			continue
		}
		st.remove(e, false)
		for _, op := range a.reqs[i].Ops {
			if op.If.Kind == driver.IfAbsent && st.queue(ref.Queue).records[op.Record].Token == a.token {
				st.write(ref.Queue, op.Record, nil, nil)
			}
		}
	}
}

// leave is the service's part of Leave: it deletes entries at one revision.
func (st *Store) leave(l *lease, reqs []driver.LeaveRequest) ([]driver.Left, error) {
	for _, req := range reqs {
		if e := st.find(req.Ref); e != nil && !req.Any && (l == nil || e.lease != l) {
			return nil, fmt.Errorf("entry %q is another owner's: %w", req.Ref.Key, driver.ErrRefused)
		}
	}
	st.rev++
	all := make([]driver.Left, len(reqs))
	for i, req := range reqs {
		ops := slices.Clone(req.Ops)
		if e := st.find(req.Ref); e != nil {
			st.remove(e, req.First)
		} else {
			all[i] = driver.WasGone
			ops = slices.DeleteFunc(ops, func(op driver.Op) bool { return !op.Bound })
		}
		for i := range ops {
			ops[i].Optional = true
		}
		results, _ := st.conditions(req.Ref.Queue, ops, l) // no error: all are optional
		st.operate(req.Ref.Queue, ops, results, l)
	}
	return all, nil
}

// update is the service's part of Update, the number-th of all.
func (st *Store) update(l *lease, number int64, req driver.UpdateRequest) ([]driver.Result, error) {
	e := st.find(req.Entry)
	switch {
	case l != nil && !st.alive(l):
		return nil, errNoLease
	case req.Entry.Zero():
	case e == nil || l == nil || e.lease != l:
		return nil, driver.ErrGone
	case req.Marks != 0 && e.Valued, req.Data != nil && !e.Valued, // what the contract rules out
		req.Marks.Has(driver.MarkAdmitted) && e.Mode != driver.Weighted,
		(req.Marks.Has(driver.MarkShared) || req.Data != nil) && st.queue(e.Queue).entries[0] != e:
		return nil, fmt.Errorf("change of entry %q: %w", e.Key, driver.ErrRefused)
	}
	results, err := st.conditions(req.Queue, req.Ops, l)
	if err != nil {
		return nil, err
	}
	st.rev++
	if e != nil {
		st.updateEntry(e, number, req)
	}
	st.operate(req.Queue, req.Ops, results, l)
	return results, nil
}

// updateEntry changes an entry at the revision st.rev. A request that comes late, when a
// later call has written data or detail, writes neither.
func (st *Store) updateEntry(e *entry, number int64, req driver.UpdateRequest) {
	marks := req.Marks &^ e.Marks
	if failpoint.On(failpoint.DowngradeAnew) && marks.Has(driver.MarkShared) {
		st.remove(e, false)
		e = st.own(e.lease, driver.JoinRequest{Queue: e.Queue, Mode: e.Mode, Data: e.Data, Detail: e.Detail})
	}
	if number > e.wrote && req.Detail != nil && len(req.Detail) <= maxDetail && !st.o.NoOptional {
		e.Detail, e.wrote = slices.Clone(req.Detail), number // no event
	}
	written := number >= e.wrote && req.Data != nil
	if !written && marks == 0 {
		return
	}
	st.change(e, func(e *entry) {
		e.Marks |= marks
		if written {
			e.Data, e.wrote = slices.Clone(req.Data), number
		}
	})
}

// conditions returns which Ops of a request are to be done, and what the records are; or
// why the request is refused.
func (st *Store) conditions(name string, ops []driver.Op, l *lease) ([]driver.Result, error) {
	results := make([]driver.Result, len(ops))
	for i, op := range ops {
		r, there := st.queue(name).record(op.Record)
		equal := there && bytes.Equal(r.Value, op.If.Value)
		met := false
		switch op.If.Kind {
		case driver.IfAbsent:
			met = !there
		case driver.IfEqual:
			met = equal
		case driver.IfEqualOrAbsent:
			met = equal || !there
		case driver.IfAt:
			met = there && r.Version == op.If.Version
		}
		if failpoint.On(failpoint.LimitCopied) && op.If.Kind == driver.IfAt {
			met = true
		}
		if op.Optional && st.o.NoOptional || op.Bound && !st.alive(l) {
			met, r = false, driver.Record{}
		}
		if !met && st.o.Terse {
			r = driver.Record{}
		}
		if !met && !op.Optional {
			return nil, &driver.RefusedError{Queue: name, Op: op, Record: r, Known: !st.o.Terse}
		}
		results[i] = driver.Result{Done: met, Record: r}
	}
	return results, nil
}

// operate does the Ops that are to be done, at the revision st.rev.
func (st *Store) operate(name string, ops []driver.Op, results []driver.Result, l *lease) {
	for i, op := range ops {
		if !results[i].Done || op.If.Kind == driver.IfEqualOrAbsent && results[i].Record.Version != 0 {
			continue
		}
		bound := l
		if !op.Bound {
			bound = nil
		}
		st.write(name, op.Record, op.Value, bound)
		results[i].Record, _ = st.queue(name).record(op.Record)
	}
}

// read is the service's part of Read. The view is not older than the revision floor; its
// own revision is returned, too.
func (st *Store) read(req driver.ReadRequest, floor int64) (driver.View, int64) {
	q := st.queue(req.Queue)
	if failpoint.On(failpoint.OldLook) && !req.Fresh {
		floor = 0
	}
	beside := q
	for q.before != nil && q.rev > floor && q.since > st.sched.Now()-st.o.Stale {
		q = q.before
	}
	if !st.o.Later {
		beside = q
	}
	if failpoint.On(failpoint.LimitFirst) {
		for old := beside.before; old != nil; old = old.before {
			if _, there := old.record("limit"); there {
				beside = old
			}
		}
	}
	v := driver.View{Records: beside.named(req.Records...)}
	start, end := 0, len(q.entries)
	switch {
	case req.Upto != 0:
		end = q.behind(req.Upto)
		if req.Nearest > 0 {
			start = max(0, min(end, q.behind(cmp.Or(req.From, req.Upto)-1))-req.Nearest)
		}
		v.Count, v.Complete = end, start == 0
	case req.Nearest > 0:
		end = min(end, req.Nearest)
		fallthrough
	default:
		v.Count, v.Complete = len(q.entries), end == len(q.entries)
	}
	for _, e := range q.entries[start:end] {
		shown := st.shown(e, req.Marks, req.Detail)
		if st.o.Later {
			if now := st.find(e.Ref); now != nil {
				shown = st.shown(now, req.Marks, req.Detail)
			} else if shown = st.shown(e, false, false); req.Detail {
				shown.Session, shown.Token = "", 0
			}
		}
		v.Entries = append(v.Entries, shown)
	}
	if st.o.Terse {
		v.Count = -1
	}
	return v, q.rev
}

// names returns, sorted, the queues with entries whose names begin with prefix.
func (st *Store) names(prefix string) []string {
	var all []string
	for name, q := range st.queues {
		if _, asks := driver.AskedQueue(name); strings.HasPrefix(name, prefix) && !asks && len(q.entries) > 0 {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
