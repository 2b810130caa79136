package membackend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// memSession is one session, as its client knows it.
type memSession struct {
	c     *Client
	cfg   driver.Config
	lease *lease // at the service; its fields are the service's
	id    string

	patience time.Duration // for an answer, until the request is sent again
	period   time.Duration // between renewals
	over     chan struct{} // closed when the session is lost, abandoned or closed
	quit     chan struct{} // closed when it is abandoned or closed
	finished chan struct{} // closed by the goroutine that tells
	wake     chan struct{} // makes that goroutine look at the inbox

	// Guarded by the Store's mutex.
	lost      bool
	abandoned bool
	turn      *timer // the next renewal
	inbox     []delivery
	watches   []*watch
	leaving   map[driver.Ref]*departure // the unanswered
}

// attempt is one join, however many copies of it travel.
type attempt struct {
	who     context.Context //nolint:containedctx // whose attempt it is, see message
	decided bool
	made    []*entry
	joined  []driver.Joined
	err     error
}

// Join sends copies of one attempt until one is answered; the service acts on
// the first and repeats its answer to the rest.
func (s *memSession) Join(ctx context.Context, req driver.JoinRequest) (driver.Joined, error) {
	if len(req.Value) > maxValue {
		return driver.Joined{}, fmt.Errorf("memory: join %q: value of %d bytes: %w", req.Line, len(req.Value), driver.ErrRefused)
	}
	joined, err := s.join(ctx, fmt.Sprintf("%q", req.Line), []driver.JoinRequest{req})
	if err != nil {
		return driver.Joined{}, err
	}
	return joined[0], nil
}

// JoinAll is Join with several entries in one attempt.
func (s *memSession) JoinAll(ctx context.Context, reqs []driver.JoinRequest) ([]driver.Joined, error) {
	reqs = slices.Clone(reqs)
	seen := make(map[string]bool, len(reqs))
	for i, r := range reqs {
		if seen[r.Line] || r.Limit != 0 || r.Follow || r.Value != nil {
			return nil, fmt.Errorf("memory: join all: request for %q: %w", r.Line, driver.ErrRefused)
		}
		seen[r.Line] = true
		reqs[i].Ledger = false // Enter is for that
	}
	if len(reqs) > maxAll {
		return nil, fmt.Errorf("memory: join %d queues: %w", len(reqs), driver.ErrRefused)
	}
	return s.join(ctx, fmt.Sprintf("%d queues", len(reqs)), reqs)
}

// join makes one attempt.
func (s *memSession) join(ctx context.Context, what string, reqs []driver.JoinRequest) ([]driver.Joined, error) {
	if s.isOver() {
		return nil, fmt.Errorf("memory: join %s: %w", what, driver.ErrSessionOver)
	}
	a := &attempt{who: ctx}
	r := request{op: fault.Join, of: what, session: s.id, patience: s.patience, over: s.over}
	_, sent, err := roundTrip(ctx, s.c, r, func(driver.Instant) struct{} {
		s.c.st.join(s.lease, a, reqs)
		return struct{}{}
	})
	switch {
	case err == nil && errors.Is(a.err, errNoLease):
		err := fmt.Errorf("memory: join %s: session %s: %w", what, s.id, driver.ErrSessionOver)
		s.lose(err)
		return nil, err
	case err == nil && a.err != nil:
		return nil, a.err
	case err == nil:
		return a.joined, nil
	}
	err = fmt.Errorf("memory: join %s: %w", what, err)
	if !sent {
		return nil, err
	}
	return nil, &driver.PendingError{Err: err, Settle: func(ctx context.Context) error {
		return s.settle(ctx, what, a)
	}}
}

// settle makes an attempt void: its entries are deleted if they were made, and
// are refused if a copy of the request arrives later.
func (s *memSession) settle(ctx context.Context, what string, a *attempt) error {
	_, _, err := roundTrip(ctx, s.c, request{op: fault.Settle, of: what, who: a.who, session: s.id, patience: s.patience}, func(driver.Instant) struct{} {
		st := s.c.st
		void := !a.decided
		if failpoint.On(failpoint.LateJoin) {
			void = false
		}
		if void {
			a.decided, a.err = true, driver.ErrGone
		}
		if slices.ContainsFunc(a.made, func(e *entry) bool { return st.find(e.Ref) != nil }) {
			st.rev++
		}
		for _, e := range a.made {
			if st.find(e.Ref) != nil {
				st.strike(e)
				st.remove(e)
			}
		}
		return struct{}{}
	})
	if err != nil {
		return fmt.Errorf("memory: settle join of %s: %w", what, err)
	}
	return nil
}

// departure is the leave of one entry, until it is answered.
type departure struct {
	sent bool // by some call that was not answered
	done bool
	left driver.Left
	err  error
}

// Leave deletes the entry if key and place are the entry's.
func (s *memSession) Leave(ctx context.Context, req driver.LeaveRequest) (driver.Left, error) {
	got, err := s.leave(ctx, []driver.LeaveRequest{req})
	if err == nil {
		err = got[0].err
	}
	if err != nil {
		return driver.Left{}, fmt.Errorf("memory: leave %q: %w", req.Ref.Line, err)
	}
	return got[0].left, nil
}

// LeaveAll is Leave of several entries in one request.
func (s *memSession) LeaveAll(ctx context.Context, reqs []driver.LeaveRequest) ([]driver.Left, error) {
	got, err := s.leave(ctx, slices.Clone(reqs))
	if err != nil {
		return nil, fmt.Errorf("memory: leave %d queues: %w", len(reqs), err)
	}
	all := make([]driver.Left, 0, len(got))
	for _, d := range got {
		d.left.Gone = d.err != nil
		all = append(all, d.left)
	}
	return all, nil
}

// leave makes a departure for each entry, and returns how they went. They are
// remembered until they are answered, so that a second call tells "an earlier
// call did it" from "it was gone".
func (s *memSession) leave(ctx context.Context, reqs []driver.LeaveRequest) ([]departure, error) {
	st := s.c.st
	ds := make([]*departure, 0, len(reqs))
	st.mu.Lock()
	for _, req := range reqs {
		d := s.leaving[req.Ref]
		if d == nil {
			d = &departure{}
			s.leaving[req.Ref] = d
		}
		ds = append(ds, d)
	}
	st.mu.Unlock()

	r := request{op: fault.Leave, of: nameOf(reqs[0].Ref), session: s.id, patience: s.patience, carry: s.receiveLeave}
	got, sent, err := roundTrip(ctx, s.c, r, func(driver.Instant) []departure {
		st.leave(s.lease, ds, reqs)
		all := make([]departure, 0, len(ds))
		for _, d := range ds {
			all = append(all, *d)
		}
		return all
	})
	st.mu.Lock()
	defer st.mu.Unlock()
	for i, req := range reqs {
		// What an earlier call has sent may have been done, though this one has
		// sent nothing.
		if (err == nil || !sent && !ds[i].sent) && s.leaving[req.Ref] == ds[i] {
			delete(s.leaving, req.Ref)
		}
		ds[i].sent = ds[i].sent || sent
	}
	for i := range got {
		got[i].left.Told = st.o.NoRevs && !s.abandoned
	}
	return got, err
}

// Look reads the newest state, so it is never older than asked for.
func (s *memSession) Look(ctx context.Context, req driver.LookRequest) (driver.View, error) {
	v, _, err := roundTrip(ctx, s.c, request{op: fault.Look, of: req.Line, session: s.id, patience: s.patience}, func(driver.Instant) driver.View {
		return s.c.st.look(req)
	})
	if err != nil {
		return driver.View{}, fmt.Errorf("memory: read %q: %w", req.Line, err)
	}
	return v, nil
}
