package trial

import (
	"errors"
	"sync"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/session"
)

// Resource is what a queue protects: a counter behind a fence (S3). It outlives its
// holders, and no fault is aimed at it.
//
// Every holder reads it before the trial learns that it holds, and writes the value plus
// one when it is done. It does not check then whether it still holds, because a request
// that was sent in time may arrive late, and no lock can call it back. A touch by a lock
// without tokens cannot be refused.
type Resource struct {
	mu      sync.Mutex
	gate    fence.Gate
	value   int64
	touches []history.Touch // in the order in which they arrived
}

// NewResource returns the resource of a queue. It is nil for a semaphore, whose holds
// have no order that a fence could keep.
func NewResource(queue history.Queue) *Resource {
	if queue.Recipe == history.Semaphore {
		return nil
	}
	return &Resource{}
}

// Access is the use of a resource by one hold; a nil Access does nothing.
type Access struct {
	r    *Resource
	as   history.Touch // by which hold, and what it has read
	done bool
}

// Read makes the first touch of a hold.
func (r *Resource) Read(of history.Attempt) *Access {
	if r == nil {
		return nil
	}
	a := &Access{r: r, as: history.Touch{Client: of.Client, Token: of.Token, Shared: of.Shared}}
	a.as = r.touch(a.as)
	return a
}

// Write makes the last touch, once, if the hold may write and its read was not refused.
func (a *Access) Write() {
	if a == nil || a.done || a.as.Shared || a.as.Refused {
		return
	}
	a.done = true
	t := a.as
	t.Write, t.Value = true, t.Value+1
	a.r.touch(t)
}

// touch presents a token, reads or writes, and notes the result.
func (r *Resource) touch(t history.Touch) history.Touch {
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

// Judge judges the touches of the resource, when all holders are done.
func (r *Resource) Judge(queue string) ([]history.Violation, history.ResourceCounts) {
	if r == nil {
		return nil, history.ResourceCounts{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return history.Fence(queue, r.touches)
}
