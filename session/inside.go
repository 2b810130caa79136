package session

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/fairlock/fairlock/session/driver"
)

// holdKey is the context key under which a hold's context carries the hold.
type holdKey struct{}

// fromContext returns the innermost hold that ctx came from, live or over, or nil.
func fromContext(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}

// outer is the hold that a context came from, if there is one.
type outer struct{ atomic.Pointer[Hold] }

// live returns the innermost live hold, or nil. It takes holds that are over out of the
// chain, so that they are not kept in memory.
func (o *outer) live() *Hold {
	first := o.Load()
	h := first
	for h != nil && h.Remaining() == 0 {
		h = h.outer.Load()
	}
	if h != first {
		o.Store(h)
	}
	return h
}

// around yields the live holds that ctx came from, innermost first.
func around(ctx context.Context) iter.Seq[*Hold] {
	return func(yield func(*Hold) bool) {
		var o outer
		o.Store(fromContext(ctx))
		for h := o.live(); h != nil && yield(h); h = h.outer.live() {
		}
	}
}

// enter implements door.Engine's Enter. A hold that ends during the call counts as over: the
// caller then goes on as outside of it.
func enter(ctx context.Context, s *Session, name, kind string, mode driver.Mode) (*Hold, error) {
	for h := range around(ctx) {
		if h.g.s != s || !slices.Contains(h.g.names(), name) {
			continue
		}
		if h.g.Kind != kind {
			return nil, ErrReentrant
		}
		if h2, err := h.reenter(ctx, mode); err == nil {
			return h2, nil
		}
		break // it has ended in this instant
	}
	return nil, nil //nolint:nilnil // "not inside" is neither
}

// within implements door.Engine's Within, for a service on which a name can contain another.
func within(ctx context.Context, s *Session, name string) error {
	contains := s.info.Within
	if contains == nil {
		return nil
	}
	for h := range around(ctx) {
		for _, other := range h.g.names() {
			if h.g.s == s && contains(other, name) {
				return fmt.Errorf("%w: the queue of %q contains the entries of %q, which the caller holds", ErrReentrant, name, other)
			}
		}
	}
	return nil
}

// held implements door.Engine's Held.
func held(ctx context.Context) []string {
	var names []string
	for h := range around(ctx) {
		names = append(names, h.g.names()...)
	}
	return names
}
