package session

import (
	"context"
	"slices"
)

// holdKey is the context key under which a hold's context carries the hold.
type holdKey struct{}

// fromContext returns the innermost hold that ctx came from, or nil.
func fromContext(ctx context.Context) *Hold {
	h, _ := ctx.Value(holdKey{}).(*Hold)
	return h
}

// Inside returns the live hold of the named lock, taken through s, that ctx
// came from, or nil. Go has no thread identity, so ownership travels in the
// context: every goroutine that was given a hold's context is inside. A hold
// that was unlocked or lost does not count.
func Inside(ctx context.Context, s *Session, name string) *Hold {
	for h := fromContext(ctx); h != nil; h = h.outer {
		if h.g.t.s == s && slices.Contains(h.g.names(), name) && h.Valid() > 0 {
			return h
		}
	}
	return nil
}

// Held returns the names of the live holds that ctx came from, innermost
// first. It is put into the entry that the caller joins with, so that circles
// of waiting can be found.
func Held(ctx context.Context) []string {
	var names []string
	for h := fromContext(ctx); h != nil; h = h.outer {
		if h.Valid() > 0 {
			names = append(names, h.g.names()...)
		}
	}
	return names
}
