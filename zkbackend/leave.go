package zkbackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// Leave implements driver.Session. It works after the end of the session too,
// through another.
func (s *sess) Leave(ctx context.Context, req driver.LeaveRequest) (driver.Left, error) {
	left, err := s.leave(ctx, req)
	if err != nil {
		return left, fmt.Errorf("zookeeper: leave %q: %w", req.Ref.Line, err)
	}
	return left, nil
}

func (s *sess) leave(ctx context.Context, req driver.LeaveRequest) (driver.Left, error) {
	ref := req.Ref
	if _, ok := refNode(ref); !ok {
		return driver.Left{}, driver.ErrGone // no entry has this name and another place
	}
	by, err := s.forCleaning(ctx)
	if err != nil {
		return driver.Left{}, err
	}
	if by == nil {
		return driver.Left{}, driver.ErrGone
	}
	d := deletion{ref: ref, probe: req.Probe, held: req.Held && by == s, dir: s.b.lay.dir(ref.Line)}
	unsure := s.isUnsure(ref)
	for {
		step, err := by.delete(ctx, d, &unsure)
		switch {
		case err == nil:
			s.setUnsure(ref, false)
			if d.held {
				_, name := split(ref.Key)
				s.remember(d.dir, markOf(name))
			}
			return driver.Left{Probed: !req.Probe.Zero(), Alive: !d.probe.Zero()}, nil
		case errors.Is(err, zk.ErrNoNode) && step == 0:
			s.setUnsure(ref, false)
			if unsure {
				return driver.Left{}, nil
			}
			return driver.Left{}, driver.ErrGone
		case errors.Is(err, zk.ErrNoNode) && step == d.probeStep():
			d.probe = driver.Ref{} // it is dead: leave without asking
		case errors.Is(err, driver.ErrSessionOver):
			if by, err = s.forCleaning(ctx); err != nil {
				s.setUnsure(ref, unsure)
				return driver.Left{}, err
			}
			if by == nil {
				return driver.Left{}, driver.ErrGone
			}
			d.held = false
		case errors.Is(err, zk.ErrNoAuth) && d.held && step == d.probeStep()-1 && step > 0:
			d.held = false // no word can be left, so those behind read the line
		default:
			s.setUnsure(ref, unsure)
			return driver.Left{}, translate(err, "DELETE", d.dir)
		}
	}
}

// deletion is a transaction that deletes an entry.
type deletion struct {
	ref   driver.Ref
	probe driver.Ref // zero: none
	held  bool       // leave word
	dir   string
}

// steps are the requests of the transaction: the delete, the word, the probe.
func (d deletion) steps() []any {
	steps := []any{&zk.DeleteRequest{Path: d.ref.Key, Version: -1}}
	if d.held {
		_, name := split(d.ref.Key)
		steps = append(steps, &zk.SetDataRequest{Path: d.dir, Data: []byte(markOf(name)), Version: -1})
	}
	if !d.probe.Zero() {
		steps = append(steps, &zk.CheckVersionRequest{Path: d.probe.Key, Version: -1})
	}
	return steps
}

// probeStep is where the probe stands in the transaction.
func (d deletion) probeStep() int {
	if d.held {
		return 2
	}
	return 1
}

// delete sends a deletion until it is answered. It notes in unsure that one was
// not: then the entry may have gone by that.
func (s *sess) delete(ctx context.Context, d deletion, unsure *bool) (step int, err error) {
	type result struct{ step int }
	r, err := ask(ctx, s, func(c *zk.Conn) (result, error) {
		steps := d.steps()
		var err error
		var rs []zk.MultiResponse
		if len(steps) == 1 {
			err = c.Delete(d.ref.Key, -1)
		} else {
			rs, err = c.Multi(steps...)
		}
		return result{step: failedStep(rs)}, err
	}, func() { *unsure = true })
	return r.step, err
}

// isUnsure says that an earlier delete of the entry was not answered.
func (s *sess) isUnsure(ref driver.Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsure[ref]
}

func (s *sess) setUnsure(ref driver.Ref, unsure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unsure {
		s.unsure[ref] = true
	} else {
		delete(s.unsure, ref)
	}
}
