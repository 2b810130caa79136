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

// A release asks the service to report that the entry was first only where another session may
// wait for the entry and watch no other one. Our own waiter right behind learns that from the
// answer to Leave.
func TestReleaseReportsFirstOnlyWhereAnotherSessionNeedsThat(t *testing.T) {
	const behindTwo = "mutex 3 1 2\narmed 3\ngone 1\ngone 2\n"
	for name, c := range map[string]struct {
		lines string
		first []bool // of the releases of what holds, one after the other
	}{
		"it joined an empty queue":            {"mutex 1", []bool{false}},
		"it joined behind one":                {"mutex 2 1\narmed 2\ngone 1", []bool{false}},
		"it joined behind two":                {behindTwo, []bool{true}},
		"a reader may wait for the second":    {"writer 2 1\narmed 2\ngone 1", []bool{true}},
		"two of ours wait":                    {behindTwo + "mutex 4 3\nmutex 5 3 4", []bool{false, false, true}},
		"another session's is between":        {behindTwo + "mutex 5 3 4", []bool{true}},
		"our own reader is behind our writer": {"writer 2 1\narmed 2\ngone 1\nreader 3 2", []bool{true, true}},
		"our own writer is behind our reader": {"reader 2 1\narmed 2\ngone 1\nwriter 3 2r", []bool{false, true}},
		"our own waiter has given up":         {behindTwo + "mutex 4 3\nleave 4\nleft 4 deleted", []bool{true}},
		"views grant permits":                 {"permit 3 1p* 2p* limit 1\narmed holders\narmed limit\nsend\nanswer 3p limit 1", []bool{false}},
	} {
		t.Run(name, func(t *testing.T) {
			x := newCore(t)
			runCase(x, c.lines)
			for _, first := range c.first {
				holders := x.holders()
				require.Len(t, holders, 1)
				place := holders[0]
				assert.Equal(t, first, x.entries[place].ShowsFirst(), "the release of %d", place)
				runCase(x, fmt.Sprintf("leave %d\nleft %d deleted", place, place))
			}
		})
	}
}
