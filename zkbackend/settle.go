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
		return fmt.Errorf("zookeeper: settle %q: %w", j.req.Line, err)
	}
	j.guid = ""
	return nil
}

// undo is settle without the bookkeeping.
func (j *join) undo(ctx context.Context) error {
	if j.path != "" { // to find it again would take the permission READ
		return j.remove(ctx, j.path)
	}
	if j.late != nil {
		select {
		case a := <-j.late:
			j.late = nil
			switch outcomeOf(a.err) {
			case done:
				return j.remove(ctx, a.v.path)
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
	m, found, err := j.find(ctx, s)
	switch {
	case err != nil:
		return err
	case found:
		return j.remove(ctx, m.path)
	case s != j.s:
		// From outside it cannot be seen whether the request is still on its
		// way: that ends with the session, at the latest.
		return j.s.ensureOver(ctx)
	}
	return nil
}

// remove deletes the entry of a join.
func (j *join) remove(ctx context.Context, path string) error {
	_, name := split(path)
	n, _ := parseNode(name)
	_, err := j.s.Leave(ctx, driver.LeaveRequest{Ref: driver.Ref{Line: j.req.Line, Key: path, Place: n.seq}})
	if errors.Is(err, driver.ErrGone) {
		return nil
	}
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
