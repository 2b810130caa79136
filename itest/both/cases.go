package both

import (
	"maps"
	"slices"
	"testing"
)

// Cases are tests by their claims.
type Cases map[string]func(*testing.T)

// Run runs the cases as parallel subtests of t, a few at a time. Most of
// the time a case waits for its servers, or for a session to expire. A case calls no
// t.Parallel: the test t ends with its cases before any other test of the package
// goes on, so that a test that counts goroutines counts none of theirs.
func (c Cases) Run(t *testing.T) {
	const atOnce = 4 // each may have a cluster of its own, in this process
	room := make(chan struct{}, atOnce)
	for _, name := range slices.Sorted(maps.Keys(c)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			room <- struct{}{}
			defer func() { <-room }()
			c[name](t)
		})
	}
}
