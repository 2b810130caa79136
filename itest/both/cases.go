package both

import (
	"maps"
	"slices"
	"testing"
)

// Cases are tests by their claims.
type Cases map[string]func(*testing.T)

// Run runs the cases as parallel subtests of t, which becomes parallel itself: most
// of the time a case waits for its servers, or for a session to expire. A case calls
// no t.Parallel. Tests that count goroutines or memory are not parallel: they end
// before the first case goes on.
func (c Cases) Run(t *testing.T) {
	t.Parallel()
	for _, name := range slices.Sorted(maps.Keys(c)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c[name](t)
		})
	}
}
