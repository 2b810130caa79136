package trial

import (
	"errors"
	"sync"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/session"
)

// resource is what a line protects: a counter behind a fence (S3). It outlives its
// holders and is in no trouble itself.
//
// Every holder reads it before anybody learns that it holds, and sets it to one
// more when it is done. It does not ask then whether it still holds: what was sent
// in time may be late, and no lock can call it back. Where a lock has no token
// there is nothing to refuse it by.
type resource struct {
	mu      sync.Mutex
	gate    fence.Gate
	value   int64
	touches []history.Touch // in the order in which they came
}

// newResource is what a line protects; nil if holds of the line have no order that
// a fence could keep, as those of a semaphore.
func newResource(line history.Queue) *resource {
	if line.Recipe == history.Semaphore {
		return nil
	}
	return &resource{}
}

// visit is what one hold does at a resource; nil does nothing.
type visit struct {
	r    *resource
	as   history.Touch // who it is, and what it has read
	done bool
}

// read is the first touch of a hold.
func (r *resource) read(a history.Attempt) *visit {
	if r == nil {
		return nil
	}
	v := &visit{r: r, as: history.Touch{Client: a.Client, Token: a.Token, Shared: a.Shared}}
	v.as = r.touch(v.as)
	return v
}

// write is the last touch, once, of a hold that may write and was not refused.
func (v *visit) write() {
	if v == nil || v.done || v.as.Shared || v.as.Refused {
		return
	}
	v.done = true
	t := v.as
	t.Write, t.Value = true, t.Value+1
	v.r.touch(t)
}

// touch shows a token, reads or writes, and notes what came of it.
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
		_ = do(fence.Marks{}) // it never fails
	} else {
		t.Refused = errors.Is(r.gate.Do(session.Token(t.Token), mode, do), fence.ErrStale)
	}
	r.touches = append(r.touches, t)
	return t
}

// judge is what became of the resource, when everybody is done.
func (r *resource) judge(line string) ([]history.Violation, history.ResourceCounts) {
	if r == nil {
		return nil, history.ResourceCounts{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return history.Fence(line, r.touches)
}
