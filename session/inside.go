package session

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
)

// holdKey is the context key under which a hold's context carries the hold.
type holdKey struct{}

// fromContext returns the innermost hold that ctx came from, or nil.
func fromContext(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}

// outer is the hold around a hold: the one that its caller's context came from.
type outer struct{ p atomic.Pointer[Hold] }

func (o *outer) set(h *Hold) { o.p.Store(h) }

// live returns the innermost live hold around, or nil. Holds that are over, which
// never come back, are taken out of the chain.
func (o *outer) live() *Hold {
	first := o.p.Load()
	h := first
	for h != nil && h.Remaining() == 0 {
		h = h.outer.p.Load()
	}
	if h != first {
		o.set(h)
	}
	return h
}

// innermost returns the innermost live hold that ctx came from, or nil.
func innermost(ctx context.Context) *Hold {
	var o outer
	o.set(fromContext(ctx))
	return o.live()
}

// inside returns the live hold of the named lock, taken through s, that ctx
// came from, or nil. Go has no thread identity, so ownership travels in the
// context: every goroutine that was given a hold's context is inside. A hold
// that was unlocked or lost does not count.
func inside(ctx context.Context, s *Session, name string) *Hold {
	for h := innermost(ctx); h != nil; h = h.outer.live() {
		if h.g.t.s == s && slices.Contains(h.g.names(), name) {
			return h
		}
	}
	return nil
}

// within returns an error that wraps ErrReentrant if ctx came from a live hold of
// another lock, taken through s, whose entry the queue of the named lock contains
// as well: see driver.Info.Within. A request for that lock would wait for itself.
func within(ctx context.Context, s *Session, name string) error {
	contains := s.info.Within
	if contains == nil {
		return nil
	}
	for h := innermost(ctx); h != nil; h = h.outer.live() {
		for _, other := range h.g.names() {
			if h.g.t.s == s && contains(other, name) {
				return fmt.Errorf("%w: the queue of %q contains the entries of %q, which the caller holds", ErrReentrant, name, other)
			}
		}
	}
	return nil
}

// held returns the names of the live holds that ctx came from, innermost
// first. It is put into the entry that the caller joins with, so that circles
// of waiting can be found.
func held(ctx context.Context) []string {
	var names []string
	for h := innermost(ctx); h != nil; h = h.outer.live() {
		names = append(names, h.g.names()...)
	}
	return names
}
