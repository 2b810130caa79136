package queue

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A request of two locks has one and waits for the other. What was proved of the first is
// old when the second is granted.
func TestSeveralAreGrantedOnlyWhileTheirWatchesAreArmed(t *testing.T) {
	for name, end := range map[string]string{"lives": "armed 1", "is gone": "gone 1"} {
		t.Run(name, func(t *testing.T) {
			x, y := newCore(t), newCore(t)
			runCase(x, "mutex 1")
			runCase(y, "mutex 2 1")
			first, second := x.entries[1], y.entries[2]
			g := NewGroup(1, owner{x, 1})
			g.Entries, g.waited = []*Entry{first, second}, true
			first.group, second.group = g, g
			g.Guard()

			runCase(y, "armed 1\narmed 2\ngone 1")

			assert.Equal(t, []int64{2}, y.holders())
			assert.False(t, g.whole, "the watch on the first is not armed")
			runCase(x, end)
			assert.Equal(t, end == "armed 1", g.whole)
			assert.Equal(t, end == "gone 1", g.lost)
		})
	}
}

// In a chain in one process nothing is requested from the service but the releases.
func TestChainInOneProcessReadsNothing(t *testing.T) {
	const n = 1000
	c := newCore(t)
	runCase(c, "mutex 1")
	for place := int64(2); place <= n; place++ {
		runCase(c, fmt.Sprintf("mutex %d ... %d of %d", place, place-1, place-1))
	}
	for place := int64(1); place < n; place++ {
		require.Equal(t, []int64{place}, c.holders())
		assert.NotContains(t, runCase(c, fmt.Sprintf("leave %d\nleft %d deleted", place, place)), "read")
	}
	assert.Equal(t, []int64{n}, c.holders())
}
