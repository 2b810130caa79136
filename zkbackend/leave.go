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
	n, ok := refNode(ref)
	if !ok {
		return driver.Left{}, driver.ErrGone // no entry has this name and another place
	}
	by, err := s.forCleaning(ctx)
	if err != nil {
		return driver.Left{}, err
	}
	if by == nil {
		return driver.Left{}, driver.ErrGone
	}
	d := deletion{ref: ref, probe: req.Probe, sealed: n.sealed, dir: s.b.lay.dir(ref.Line)}
	// Who is probed stands right behind, and is told by the answer.
	d.held = req.Held && req.Probe.Zero() && by == s
	unsure := s.isUnsure(ref)
	s.setLeaving(d, true)
	defer s.setLeaving(d, false)
	for {
		step, err := by.delete(ctx, d, &unsure)
		switch {
		case err == nil:
			s.setUnsure(ref, false)
			if d.held && !d.sealed {
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
		case errors.Is(err, zk.ErrNoAuth) && d.held && step == d.wordStep():
			d.held = false // no word can be left, so those behind read the line
		default:
			s.setUnsure(ref, unsure)
			return driver.Left{}, translate(err, "DELETE", d.dir)
		}
	}
}

// deletion is a transaction that deletes an entry.
type deletion struct {
	ref    driver.Ref
	probe  driver.Ref // zero: none
	held   bool       // leave word, in the entry itself if it is sealed
	sealed bool
	dir    string
}

// steps are the requests of the transaction: the delete, with the word before or
// behind it, and the probe. If the entry is not there, the first fails.
func (d deletion) steps() []any {
	steps := []any{&zk.DeleteRequest{Path: d.ref.Key, Version: -1}}
	switch {
	case d.held && d.sealed:
		word := &zk.SetDataRequest{Path: d.ref.Key, Data: []byte{}, Version: -1}
		steps = []any{word, steps[0]}
	case d.held:
		_, name := split(d.ref.Key)
		steps = append(steps, &zk.SetDataRequest{Path: d.dir, Data: []byte(markOf(name)), Version: -1})
	}
	if !d.probe.Zero() {
		steps = append(steps, &zk.CheckVersionRequest{Path: d.probe.Key, Version: -1})
	}
	return steps
}

// wordStep is where the word stands in the transaction.
func (d deletion) wordStep() int {
	if d.sealed {
		return 0
	}
	return 1
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

// setLeaving notes that an entry is being deleted by a transaction that writes
// it first, which its own watch is told of.
func (s *sess) setLeaving(d deletion, leaving bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if leaving && d.held && d.sealed {
		s.leaving[d.ref.Key] = true
	} else {
		delete(s.leaving, d.ref.Key)
	}
	if d.held && leaving {
		delete(s.doubts, d.dir) // what the hold rested on is of no interest any more
	}
}
