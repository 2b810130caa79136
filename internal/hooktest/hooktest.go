// Package hooktest checks that the hooks of a Session are called as session.Hooks promises.
package hooktest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fairlock/fairlock/session"
)

// Requests follows requests through the hooks of a Session, and checks that the hooks are
// called in the order that session.Hooks promises.
type Requests struct {
	mu    sync.Mutex
	open  map[uint64]session.Event // the requests that wait, and those that hold
	wrong []string
}

// idKey is the context key of the id that Started put into a context.
type idKey struct{}

// Watch replaces each hook by one that checks the call and then calls the old hook.
func (r *Requests) Watch(h *session.Hooks) {
	r.open = make(map[uint64]session.Event)
	started := h.Started
	h.Started = func(ctx context.Context, e session.Event) context.Context {
		r.mu.Lock()
		_, twice := r.open[e.ID]
		r.check(e, "Started", !twice && e.ID > 0 && e.Outcome == "")
		r.open[e.ID] = e
		r.mu.Unlock()
		ctx = context.WithValue(ctx, idKey{}, e.ID)
		if started != nil {
			ctx = started(ctx, e)
		}
		return ctx
	}
	for hook, f := range map[string]*func(context.Context, session.Event){
		"Joined": &h.Joined, "Position": &h.Position, "Rejoined": &h.Rejoined,
		"Ended": &h.Ended, "Released": &h.Released, "Lost": &h.Lost,
	} {
		next := *f
		*f = func(ctx context.Context, e session.Event) {
			r.took(ctx, hook, e)
			if next != nil {
				next(ctx, e)
			}
		}
	}
}

// took records the call of a hook.
func (r *Requests) took(ctx context.Context, hook string, e session.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, open := r.open[e.ID]
	held := before.Outcome == session.OutcomeGranted
	same := ctx.Value(idKey{}) == e.ID && e.Name == before.Name && e.Kind == before.Kind && e.Mode == before.Mode
	ended := hook == "Released" || hook == "Lost"
	r.check(e, hook, open && same && held == ended)
	switch {
	case hook == "Ended" && e.Outcome != session.OutcomeGranted:
		r.check(e, "Ended without error", e.Err != nil && e.Outcome != "")
		delete(r.open, e.ID)
	case hook == "Ended":
		r.check(e, "Ended without token", e.Token != 0 && e.Session != "" && e.Err == nil)
		r.open[e.ID] = e
	case ended:
		r.check(e, "of another hold", e.Token == before.Token && e.Session == before.Session)
		delete(r.open, e.ID)
	}
}

func (r *Requests) check(e session.Event, what string, ok bool) {
	if !ok && len(r.wrong) < 10 {
		r.wrong = append(r.wrong, fmt.Sprintf("%s, not expected: %+v after %+v", what, e, r.open[e.ID]))
	}
}

// Wrong returns the calls that broke a promise, at most ten.
func (r *Requests) Wrong() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.wrong)
}

// Open returns what a program's gauges would show: how many requests wait, and how many
// locks are held.
func (r *Requests) Open() (waiting, holding int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.open {
		if e.Outcome == session.OutcomeGranted {
			holding++
		}
	}
	return len(r.open) - holding, holding
}
