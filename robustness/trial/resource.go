package trial

import (
	"errors"
	"sync"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/session"
)

// resource is what a queue protects: a counter behind a fence (S3). It outlives its
// holders, and no fault is aimed at it.
//
// Every holder reads it before the trial learns that it holds, and writes the value plus
// one when it is done. It does not check then whether it still holds, because a request
// that was sent in time may arrive late, and no lock can call it back. A touch by a lock
// without tokens cannot be refused.
type resource struct {
	mu      sync.Mutex
	gate    fence.Gate
	value   int64
	touches []history.Touch // in the order in which they arrived
}

// newResource returns the resource of a queue. It is nil for a semaphore, whose holds
// have no order that a fence could keep.
func newResource(queue history.Queue) *resource {
	if queue.Recipe == history.Semaphore {
		return nil
	}
	return &resource{}
}

// access is the use of a resource by one hold; a nil access does nothing.
type access struct {
	r    *resource
	as   history.Touch // by which hold, and what it has read
	done bool
}

// read makes the first touch of a hold.
func (r *resource) read(of history.Attempt) *access {
	if r == nil {
		return nil
	}
	a := &access{r: r, as: history.Touch{Client: of.Client, Token: of.Token, Shared: of.Shared}}
	a.as = r.touch(a.as)
	return a
}

// write makes the last touch, once, if the hold may write and its read was not refused.
func (a *access) write() {
	if a == nil || a.done || a.as.Shared || a.as.Refused {
		return
	}
	a.done = true
	t := a.as
	t.Write, t.Value = true, t.Value+1
	a.r.touch(t)
}

// touch presents a token, reads or writes, and notes the result.
func (r *resource) touch(t history.Touch) history.Touch {
	r.mu.Lock()
	defer r.mu.Unlock()
	do := func(fence.Marks) error {
		if t.Write {
			r.value = t.Value
		}
		t.Value = r.value
		return nil
	}
	mode := session.Exclusive
	if t.Shared {
		mode = session.Shared
	}
	if t.Token == 0 {
		_ = do(fence.Marks{}) // never fails
	} else {
		t.Refused = errors.Is(r.gate.Do(session.Token(t.Token), mode, do), fence.ErrStale)
	}
	r.touches = append(r.touches, t)
	return t
}

// judge judges the touches of the resource, when all holders are done.
func (r *resource) judge(queue string) ([]history.Violation, history.ResourceCounts) {
	if r == nil {
		return nil, history.ResourceCounts{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return history.Fence(queue, r.touches)
}
