package zkbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairlock/fairlock/session/driver"
)

// settle makes sure that nothing of a join is left, or comes.
func (j *join) settle(ctx context.Context) error {
	j.settling.Lock()
	defer j.settling.Unlock()
	if j.guid == "" || j.s.isGone() {
		return nil
	}
	if err := j.undo(ctx); err != nil {
		return fmt.Errorf("zookeeper: settle %q: %w", j.parts[0].req.Line, err)
	}
	j.closed()
	return nil
}

// undo is settle without the bookkeeping.
func (j *join) undo(ctx context.Context) error {
	if j.parts[0].path != "" { // to find it again would take the permission READ
		return j.removeAll(ctx)
	}
	if j.late != nil {
		select {
		case a := <-j.late:
			j.late = nil
			switch outcomeOf(a.err) {
			case done:
				for i := range j.parts {
					j.parts[i].path = a.v.of[i].path
				}
				return j.removeAll(ctx)
			case refused:
				return nil
			case expired:
				j.s.expired(a.err)
				return nil
			case lost:
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s, err := j.s.forCleaning(ctx)
	if err != nil || s == nil {
		return err
	}
	_, found, err := j.find(ctx, s)
	switch {
	case err != nil:
		return err
	case found > 0:
		return j.removeAll(ctx)
	case s != j.s:
		// From outside it cannot be seen whether the request is still on its
		// way: that ends with the session, at the latest.
		return j.s.ensureOver(ctx)
	}
	j.notThere()
	return nil
}

// removeAll deletes the entries of a join, and the name in the ledger that was
// entered with them: they have held nothing.
func (j *join) removeAll(ctx context.Context) error {
	var reqs []driver.LeaveRequest
	for _, p := range j.parts {
		if p.path == "" {
			continue
		}
		_, name := split(p.path)
		n, _ := parseNode(name)
		reqs = append(reqs, driver.LeaveRequest{Ref: driver.Ref{Line: p.req.Line, Key: p.path, Place: n.seq}, Clean: true})
	}
	_, err := j.s.LeaveAll(ctx, reqs)
	return err
}

// forCleaning returns the session, or a guest if it asks for nothing any more;
// nil if nothing of it can be left at the service.
func (s *sess) forCleaning(ctx context.Context) (*sess, error) {
	switch {
	case s.isGone():
		return nil, nil //nolint:nilnil // nobody is needed
	case s.ctx.Err() == nil:
		return s, nil
	}
	return s.b.guest(ctx)
}

// errNotOver: the abandoned session may still be alive at the service.
var errNotOver = errors.New("the session has not expired yet")

// ensureOver makes sure that an abandoned session has ended at the service. Not
// before its time: its holders were promised that.
func (s *sess) ensureOver(ctx context.Context) error {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if s.b.clock.Now().Sub(ended) < s.ttl {
		return errNotOver
	}
	<-s.left
	l, err := s.dial(ctx)
	switch {
	case errors.Is(err, errExpired):
		s.setGone()
		return nil
	case err != nil:
		return err
	case l.farewell(ctx, s.patience()):
		s.setGone()
		return nil
	}
	return errNotOver
}
