package membackend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// answer is what the service has made of a request.
type answer[T any] struct {
	v        T
	rev      int64
	err      error
	repeated bool // to another copy than the first
}

// do sends copies of one request until one is answered. The service acts on the first,
// and repeats its answer to the others. The answer is about queues, see learned. With an
// error, unknown reports whether the service may have got a copy, or will.
func do[T any](ctx context.Context, s *memSession, r request, queues []string, act func() (T, error)) (a answer[T], unknown bool, err error) {
	var first *answer[T] // guarded by the Store's mutex
	r.session, r.patience = s.id, s.patience
	a, sent, err := roundTrip(ctx, s.c, r, func(driver.Instant) answer[T] {
		if failpoint.On(failpoint.JoinTwice) && r.op == fault.Join && first != nil && first.err == nil {
			first = nil
		}
		if first != nil {
			first.repeated = true
			return *first
		}
		v, err := act()
		first = &answer[T]{v: v, rev: s.c.st.rev, err: err}
		return *first
	})
	unknown = sent && err != nil
	if err == nil {
		err = a.err
		s.learned(a.rev, queues...)
	}
	if errors.Is(err, errNoLease) {
		s.lose(err)
	}
	if err != nil {
		err = fmt.Errorf("memory: %s %s: %w", r.op, r.of, err)
	}
	return a, unknown, err
}

// learned keeps that the session was shown what queues were like at a revision, for a
// kind that is Stale. The name "" stands for all queues.
func (s *memSession) learned(rev int64, queues ...string) {
	s.c.st.mu.Lock()
	defer s.c.st.mu.Unlock()
	for _, q := range queues {
		if s.c.st.o.Stale > 0 {
			s.floors[q] = max(s.floors[q], rev)
		}
	}
}

// Join sends copies of one attempt.
func (s *memSession) Join(ctx context.Context, reqs ...driver.JoinRequest) ([]driver.Joined, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	reqs = slices.Clone(reqs)
	r := request{op: fault.Join, of: fmt.Sprintf("%q and %d more", reqs[0].Queue, len(reqs)-1), who: ctx, over: s.over}
	queues := make([]string, 0, len(reqs))
	for _, req := range reqs {
		if s.lease == nil || len(reqs) > maxJoin || slices.Contains(queues, req.Queue) || len(req.Data) > maxData || len(req.Detail) > maxDetail {
			return nil, fmt.Errorf("memory: join %s: %w", r.of, driver.ErrRefused)
		}
		queues = append(queues, req.Queue)
	}
	at := &attempt{reqs: reqs}
	a, unknown, err := do(ctx, s, r, queues, func() ([]driver.Joined, error) { return s.c.st.join(s.lease, at) })
	if unknown {
		return nil, &driver.PendingError{Err: err, Settle: func(ctx context.Context) error {
			_, _, err := do(ctx, s, request{op: fault.Settle, of: r.of, who: r.who}, queues, func() (struct{}, error) {
				s.c.st.settle(at)
				return struct{}{}, nil
			})
			return err
		}}
	}
	for i := range a.v {
		a.forget(reqs[i].Ops, a.v[i].Ops)
	}
	return a.v, err
}

// forget makes results of a repeated answer show what is known then: whether an optional
// Op was done by an earlier copy is not.
func (a answer[T]) forget(ops []driver.Op, results []driver.Result) {
	for i := range results {
		results[i].Done = results[i].Done && !(a.repeated && ops[i].Optional)
	}
}

// Leave deletes all entries in one request. A repeated answer does not show whether it
// was this one that did it.
func (s *memSession) Leave(ctx context.Context, reqs ...driver.LeaveRequest) ([]driver.Left, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	reqs = slices.Clone(reqs)
	queues := make([]string, 0, len(reqs))
	for _, req := range reqs {
		queues = append(queues, req.Ref.Queue)
	}
	copies := 0
	a, _, err := do(ctx, s, request{op: fault.Leave, of: fmt.Sprint(reqs[0].Ref), over: s.over, copies: &copies}, queues,
		func() ([]driver.Left, error) { return s.c.st.leave(s.lease, reqs) })
	for i := range a.v {
		switch {
		case a.repeated:
			a.v[i] = max(a.v[i], driver.Unclear)
		case copies > 1 && s.c.st.o.Terse: // one that was not answered may have done it
			a.v[i] = min(a.v[i], driver.Unclear)
		}
	}
	return a.v, err
}

// Read is one request.
func (s *memSession) Read(ctx context.Context, req driver.ReadRequest) (driver.View, error) {
	st := s.c.st
	r := request{op: fault.Read, of: req.Queue, over: s.over}
	if req.Upto == 0 {
		r.op = fault.Names
	}
	st.mu.Lock()
	floor := max(s.floors[""], s.floors[req.Queue])
	if req.Fresh {
		floor = st.rev
	}
	st.mu.Unlock()
	var rev int64 // guarded by the Store's mutex
	a, _, err := do(ctx, s, r, nil, func() (v driver.View, err error) {
		v, rev = st.read(req, floor)
		return v, nil
	})
	if err == nil {
		s.learned(rev, req.Queue)
	}
	return a.v, err
}

// Update is one request.
func (s *memSession) Update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	st := s.c.st
	r := request{op: fault.Update, of: fmt.Sprintf("%q", req.Queue), over: s.over}
	ofEntry := req.Marks != 0 || req.Data != nil || req.Detail != nil
	bound := slices.ContainsFunc(req.Ops, func(op driver.Op) bool { return op.Bound })
	if ofEntry && req.Entry.Zero() || bound && s.lease == nil || len(req.Data) > maxData {
		return nil, fmt.Errorf("memory: update %s: %w", r.of, driver.ErrRefused)
	}
	if !req.Entry.Zero() {
		r.of = fmt.Sprint(req.Entry)
	}
	req.Ops = slices.Clone(req.Ops)
	number := st.updates.Add(1)
	a, _, err := do(ctx, s, r, []string{req.Queue}, func() ([]driver.Result, error) { return st.update(s.lease, number, req) })
	a.forget(req.Ops, a.v)
	return a.v, err
}

// Names is one request.
func (s *memSession) Names(ctx context.Context, prefix string) ([]string, error) {
	a, _, err := do(ctx, s, request{op: fault.Names, of: prefix, over: s.over}, []string{""},
		func() ([]string, error) { return s.c.st.names(prefix), nil })
	return a.v, err
}
