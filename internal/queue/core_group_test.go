package queue

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/session/driver"
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
			g := &group{hooks: silent{}, entries: []*entry{first, second}, missing: 1, waits: true, done: make(chan struct{}), lost: make(chan struct{})}
			first.g, second.g = g, g
			g.protect()

			runCase(y, "armed 1\narmed 2\ngone 1")

			assert.Equal(t, []int64{2}, y.holders())
			assert.False(t, g.whole, "the watch on the first is not armed")
			runCase(x, end)
			assert.Equal(t, end == "armed 1", g.whole)
			assert.Equal(t, end == "gone 1", g.isLost)
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

// Any program may have written the value of a ledger.
func TestReleaseDeletesAnyNameFromTheLedger(t *testing.T) {
	g := &group{records: records{ledgers: make([]ledger, 1)}, entries: []*entry{{Entry: &driver.Entry{}}}}
	for _, value := range []string{"", "h:of another", "{}", strings.Repeat("x", 100)} {
		l := &g.ledgers[0]
		*l = ledger{kept: true}
		assert.True(t, g.keeps(l, g.entries[0], driver.Record{Value: []byte(value), Version: 7, Token: 7}), "it stays until a holder releases")
		assert.Equal(t, door.PastDied, l.past)

		op, deletes := l.op(clearAny)

		assert.True(t, deletes, "%q", value)
		assert.Equal(t, driver.Op{Record: recordLedger, If: driver.At(7), Optional: true}, op)
		_, deletes = l.op(clearOwn)
		assert.False(t, deletes, "it is the name of another")
	}
}
