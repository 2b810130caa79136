package membackend

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// service carries out the requests of sessions on its state. Its methods are called with mu. A request
// is carried out as a whole or not at all, but for optional Ops: what can refuse it is tested before
// the first change.
type service struct {
	// mu guards the service, and what sessions know. It is never held while code from
	// outside runs, nor while anything waits. A Client's mutex may be taken under it.
	mu sync.Mutex
	state

	// leases are those that live, by id. One that has ended never comes again: a session that holds
	// it is over, whatever its client knows.
	leases map[string]*lease

	// until is the service's time until which it makes no lease; 0 before its second life.
	until time.Duration

	// since is the revision at the beginning of this life; 0 in the first one.
	since int64

	opened int // sessions and observers so far, for their ids
}

// errNoLease is the service's error if it does not have the session. The request has changed nothing.
var errNoLease = fmt.Errorf("no such session: %w", driver.ErrSessionOver)

// attempt is one Join, of which several copies may be sent. A real service cannot know it, and a
// backend settles with what that service has: a fence key, or a listing. Here it stands for these.
type attempt struct {
	reqs  []driver.JoinRequest
	void  bool         // it was settled: a copy that arrives makes nothing. Never reset
	made  []driver.Ref // the entries; empty until a copy has made them
	token int64        // theirs, and that of the records that were made with them; 0: none
}

// join is the service's part of Join: all entries are made, at one revision, or none.
//
// The view is of the moment before the entry was put, so it has exactly what is ahead. The records
// are of the moment after the Ops, so a limit that the join itself has made is among them.
func (s *service) join(l *lease, a *attempt) ([]driver.Joined, error) {
	switch {
	case a.void:
		return nil, driver.ErrGone
	case !s.alive(l):
		return nil, errNoLease
	}
	joined := make([]driver.Joined, len(a.reqs))
	for i, req := range a.reqs {
		err := s.taken(req)
		if err == nil {
			joined[i].Ops, err = s.conditions(req.Queue, req.Ops, l)
		}
		if err != nil {
			return nil, err
		}
	}
	s.rev++
	a.token = s.rev
	defer s.observe()
	for i, req := range a.reqs {
		j := &joined[i]
		j.View = s.ahead(req)
		e := s.own(l, req)
		a.made = append(a.made, e.Ref)
		j.Entry = s.shown(e, true, true)
		s.operate(req.Queue, req.Ops, j.Ops, l)
		j.View.Records = s.queue(req.Queue).named(req.Records...)
	}
	return joined, nil
}

// taken returns the error of a request with IfEmpty for a queue that is not empty.
func (s *service) taken(req driver.JoinRequest) error {
	all := s.queue(req.Queue).entries
	switch {
	case !req.IfEmpty || len(all) == 0:
		return nil
	case s.o.Terse:
		return &driver.TakenError{Queue: req.Queue, Count: -1}
	}
	return &driver.TakenError{Queue: req.Queue, First: s.shown(all[0], true, true), Count: len(all)}
}

// ahead returns the view of the entries ahead that the answer to a Join contains, for an entry that
// is not in the queue yet:
//
//	the kind of service  entries ahead      the view has
//	Terse                any number         their count
//	not Near             one at most        all of them
//	not Near             more               their count
//	Near                 any number         the nearest, as many as were asked for; 0: all
//
// It shows no marks, so a waiter that goes by marks has to read.
func (s *service) ahead(req driver.JoinRequest) driver.View {
	all := s.queue(req.Queue).entries
	shown := all
	switch {
	case s.o.Terse, !s.o.Near && len(all) > 1:
		shown = nil
	case req.Nearest > 0:
		shown = all[s.queue(req.Queue).nearest(req.Nearest, len(all)):]
	}
	v := driver.View{Count: len(all), Complete: len(shown) == len(all)}
	for _, e := range shown {
		v.Entries = append(v.Entries, s.shown(e, false, false))
	}
	return v
}

// settle makes a Join void: it deletes the entries and the records that the Join has made,
// and a copy that arrives later is refused. A record goes only if nothing has written it since, and
// only with its entry: if that has gone before, another client may have seen the record.
func (s *service) settle(a *attempt) {
	a.void = true
	s.rev++
	defer s.observe()
	for i, ref := range a.made {
		e := s.find(ref)
		if e == nil {
			continue
		}
		s.remove(e, false)
		for _, op := range a.reqs[i].Ops {
			if op.If.Kind == driver.IfAbsent && s.queue(ref.Queue).records[op.Record].Token == a.token {
				s.write(ref.Queue, op.Record, nil, nil)
			}
		}
	}
}

// leave is the service's part of Leave: it deletes entries at one revision. It needs no live lease,
// because an entry whose session has ended is gone already. Of an entry that is gone only the Ops of
// bound records are done: another client may hold by now, and must find that this one did not release.
func (s *service) leave(l *lease, reqs []driver.LeaveRequest) ([]driver.Left, error) {
	for _, req := range reqs {
		e := s.find(req.Ref)
		if e != nil && !req.Any && (l == nil || e.lease != l) {
			return nil, fmt.Errorf("entry %q is another owner's: %w", req.Ref.Key, driver.ErrRefused)
		}
	}
	s.rev++
	defer s.observe()
	all := make([]driver.Left, len(reqs))
	for i, req := range reqs {
		ops := slices.Clone(req.Ops)
		e := s.find(req.Ref)
		if e != nil {
			s.remove(e, req.First)
		} else {
			all[i] = driver.WasGone
			ops = slices.DeleteFunc(ops, func(op driver.Op) bool { return !op.Bound })
		}
		for i := range ops {
			ops[i].Optional = true
		}
		results, _ := s.conditions(req.Ref.Queue, ops, l) // no error: all are optional
		s.operate(req.Ref.Queue, ops, results, l)
	}
	return all, nil
}

// update is the service's part of Update, the number-th of all. The first line that applies decides:
//
//	the session has ended                               errNoLease
//	the request names no entry                          only records are changed
//	the entry is gone, or not of this session           ErrGone
//	marks of a valued entry, or data of another         ErrRefused
//	Admitted on an entry that asks for no permits       ErrRefused
//	Shared or data, and the entry is not the first one  ErrRefused
//	the condition of a required Op is not met           RefusedError
//
// The contract rules out the three lines with ErrRefused. A real service may do them, to the harm of
// other programs in the queue.
func (s *service) update(l *lease, number int64, req driver.UpdateRequest) ([]driver.Result, error) {
	e := s.find(req.Entry)
	switch {
	case l != nil && !s.alive(l):
		return nil, errNoLease
	case req.Entry.Zero():
	case e == nil || l == nil || e.lease != l:
		return nil, driver.ErrGone
	case req.Marks != 0 && e.Valued, req.Data != nil && !e.Valued, // what the contract rules out
		req.Marks.Has(driver.MarkAdmitted) && e.Mode != driver.Weighted,
		(req.Marks.Has(driver.MarkShared) || req.Data != nil) && s.queue(e.Queue).entries[0] != e:
		return nil, fmt.Errorf("change of entry %q: %w", e.Key, driver.ErrRefused)
	}
	results, err := s.conditions(req.Queue, req.Ops, l)
	if err != nil {
		return nil, err
	}
	s.rev++
	defer s.observe()
	if e != nil {
		s.updateEntry(e, number, req)
	}
	s.operate(req.Queue, req.Ops, results, l)
	return results, nil
}

// updateEntry changes an entry. A late copy of a request writes neither data nor detail if
// a later call has written one of them: number is higher for a later call. Marks are facts
// that stay true, so a late copy may add them.
func (s *service) updateEntry(e *entry, number int64, req driver.UpdateRequest) {
	marks := req.Marks &^ e.Marks
	if number > e.wrote && req.Detail != nil && len(req.Detail) <= maxDetail && !s.o.NoOptional {
		e.Detail, e.wrote = slices.Clone(req.Detail), number // no event
	}
	written := number >= e.wrote && req.Data != nil
	if !written && marks == 0 {
		return
	}
	s.change(e, func(e *entry) {
		e.Marks |= marks
		if written {
			e.Data, e.wrote = slices.Clone(req.Data), number
		}
	})
}

// conditions returns for each Op of a request whether its condition is met, and the record;
// or the error with which the request is refused.
//
//	the Op                                  its condition is met
//	Bound, and the session has ended        never
//	Optional, of a kind with NoOptional     never
//	IfAbsent                                if there is no record
//	IfEqual                                 if the record has that value
//	IfEqualOrAbsent                         in both cases
//	IfAt                                    if the record has that version
//
// An optional Op whose condition is not met is left out, and a required one refuses the whole request.
// A kind that is Terse never shows the record that was in the way.
func (s *service) conditions(name string, ops []driver.Op, l *lease) ([]driver.Result, error) {
	results := make([]driver.Result, len(ops))
	for i, op := range ops {
		r, there := s.queue(name).record(op.Record)
		equal := there && bytes.Equal(r.Value, op.If.Value)
		met := [...]bool{
			driver.IfAbsent: !there, driver.IfEqual: equal, driver.IfEqualOrAbsent: equal || !there,
			driver.IfAt: there && r.Version == op.If.Version,
		}[op.If.Kind]
		if op.Optional && s.o.NoOptional || op.Bound && !s.alive(l) {
			met, r = false, driver.Record{}
		}
		if !met && s.o.Terse {
			r = driver.Record{}
		}
		if !met && !op.Optional {
			return nil, &driver.RefusedError{Queue: name, Op: op, Record: r, Known: !s.o.Terse}
		}
		results[i] = driver.Result{Done: met, Record: r}
	}
	return results, nil
}

// operate does the Ops of a request whose conditions are met, with the records as conditions has found
// them: nothing comes between, because both run under the mutex. EqualOrAbsent writes nothing where
// the record is there, so its version stays, and a condition At of another client still holds.
func (s *service) operate(name string, ops []driver.Op, results []driver.Result, l *lease) {
	for i, op := range ops {
		if !results[i].Done || op.If.Kind == driver.IfEqualOrAbsent && results[i].Record.Version != 0 {
			continue
		}
		bound := l
		if !op.Bound {
			bound = nil
		}
		s.write(name, op.Record, op.Value, bound)
		results[i].Record, _ = s.queue(name).record(op.Record)
	}
}

// shownLater returns an entry of an older moment as a read shows it that asks for marks and details
// afterwards: they are those of now, or zero if the entry is gone.
func (s *service) shownLater(e *entry, req driver.ReadRequest) driver.Entry {
	now := s.find(e.Ref)
	if now != nil {
		return s.shown(now, req.Marks, req.Detail)
	}
	shown := s.shown(e, false, false)
	if req.Detail {
		shown.Session, shown.Token = "", 0
	}
	return shown
}

// read is the service's part of Read. For a kind that is Stale it shows the queue as it was
// that long ago, but not as of before the revision floor. With Later it shows the entries of
// that time, and their marks, details and the records of now. It also returns the revision
// of the entries.
//
//	the request        the view has                            Complete means
//	Upto, no Nearest   all entries up to Upto                  always true
//	Upto, Nearest      those from From to Upto, some before    no entry is before the first
//	no Upto, Nearest   the first Nearest entries               no entry is behind the last
//	neither            all entries                             always true
//
// The contract lets records be later than the entries, and never earlier: a limit that fell after
// the entries were read is seen, and no grant goes by the older one.
func (s *service) read(req driver.ReadRequest, floor int64) (driver.View, int64) {
	q := s.queue(req.Queue)
	side := q // of the records
	for q.before != nil && q.rev > floor && q.since > s.sched.Now()-s.o.Stale {
		q = q.before
	}
	if !s.o.Later {
		side = q
	}
	v := driver.View{Records: side.named(req.Records...)}
	start, end := 0, len(q.entries)
	switch {
	case req.Upto != 0:
		end = q.behind(req.Upto)
		if req.Nearest > 0 {
			start = q.nearest(req.Nearest, min(end, q.behind(cmp.Or(req.From, req.Upto)-1)))
		}
		v.Count, v.Complete = end, start == 0
	case req.Nearest > 0:
		end = min(end, req.Nearest)
		fallthrough
	default:
		v.Count, v.Complete = len(q.entries), end == len(q.entries)
	}
	for _, e := range q.entries[start:end] {
		shown := s.shown(e, req.Marks, req.Detail)
		if s.o.Later {
			shown = s.shownLater(e, req)
		}
		v.Entries = append(v.Entries, shown)
	}
	if s.o.Terse {
		v.Count = -1
	}
	return v, q.rev
}

// names returns, sorted, the queues with entries whose names begin with prefix. It is never stale.
func (s *service) names(prefix string) []string {
	var all []string
	for name, q := range s.queues {
		_, asks := driver.AskedQueue(name)
		if strings.HasPrefix(name, prefix) && !asks && len(q.entries) > 0 {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
