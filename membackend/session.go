package membackend

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	decided bool
	made    *entry
	joined  driver.Joined
	err     error
}

// Join sends copies of one attempt until one is answered; the service acts on
// the first and repeats its answer to the rest.
func (s *memSession) Join(ctx context.Context, req driver.JoinRequest) (driver.Joined, error) {
	if s.isOver() {
		return driver.Joined{}, fmt.Errorf("memory: join %q: %w", req.Line, driver.ErrSessionOver)
	}
	a := &attempt{}
	r := request{op: OpJoin, patience: s.patience, over: s.over}
	_, sent, err := roundTrip(ctx, s.c, r, func(driver.Instant) struct{} {
		s.c.st.join(s.lease, a, req)
		return struct{}{}
	})
	switch {
	case err == nil && errors.Is(a.err, errNoLease):
		err := fmt.Errorf("memory: join %q: session %s: %w", req.Line, s.id, driver.ErrSessionOver)
		s.lose(err)
		return driver.Joined{}, err
	case err == nil && a.err != nil:
		return driver.Joined{}, a.err
	case err == nil:
		return a.joined, nil
	}
	err = fmt.Errorf("memory: join %q: %w", req.Line, err)
	if !sent {
		return driver.Joined{}, err
	}
	return driver.Joined{}, &driver.PendingError{Err: err, Settle: func(ctx context.Context) error {
		return s.settle(ctx, req.Line, a)
	}}
}

// settle makes an attempt void: its entry is deleted if it was made, and is
// refused if a copy of the request arrives later.
func (s *memSession) settle(ctx context.Context, name string, a *attempt) error {
	_, _, err := roundTrip(ctx, s.c, request{op: OpSettle, patience: s.patience}, func(driver.Instant) struct{} {
		st := s.c.st
		if !a.decided {
			a.decided, a.err = true, driver.ErrGone
		}
		if a.made != nil && st.find(a.made.Ref) != nil {
			st.rev++
			st.remove(a.made)
		}
		return struct{}{}
	})
	if err != nil {
		return fmt.Errorf("memory: settle join of %q: %w", name, err)
	}
	return nil
}

// departure is one leave, until it is answered.
type departure struct {
	done bool
	left driver.Left
	err  error
}

// Leave deletes the entry if key and place are the entry's. The departure is
// remembered until it is answered, so that a second call tells "an earlier call
// did it" from "it was gone".
func (s *memSession) Leave(ctx context.Context, req driver.LeaveRequest) (driver.Left, error) {
	st := s.c.st
	st.mu.Lock()
	d := s.leaving[req.Ref]
	if d == nil {
		d = &departure{}
		s.leaving[req.Ref] = d
	}
	st.mu.Unlock()

	got, sent, err := roundTrip(ctx, s.c, request{op: OpLeave, patience: s.patience}, func(driver.Instant) departure {
		st.leave(s.lease, d, req)
		return *d
	})
	st.mu.Lock()
	defer st.mu.Unlock()
	if err == nil || !sent {
		delete(s.leaving, req.Ref)
	}
	if err == nil {
		err = got.err
	}
	if err != nil {
		return driver.Left{}, fmt.Errorf("memory: leave %q: %w", req.Ref.Line, err)
	}
	return got.left, nil
}

// Look reads the newest state, so it is never older than asked for.
func (s *memSession) Look(ctx context.Context, req driver.LookRequest) (driver.View, error) {
	v, _, err := roundTrip(ctx, s.c, request{op: OpLook, patience: s.patience}, func(driver.Instant) driver.View {
		return s.c.st.look(req)
	})
	if err != nil {
		return driver.View{}, fmt.Errorf("memory: look at %q: %w", req.Line, err)
	}
	return v, nil
}
