package queue

import (
	"context"
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

// leaves is a session that counts updates, and records the last Leave.
type leaves struct {
	driver.Session
	updates int
	reqs    []driver.LeaveRequest
}

func (s *leaves) Update(context.Context, driver.UpdateRequest) ([]driver.Result, error) {
	s.updates++
	return make([]driver.Result, 1), nil
}

func (s *leaves) Leave(_ context.Context, reqs ...driver.LeaveRequest) ([]driver.Left, error) {
	s.reqs = reqs
	return make([]driver.Left, len(reqs)), nil
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
			x, s := newCore(t), &leaves{}
			x.users = 1 // the engine does not free the queue
			runCase(x, c.lines)
			for _, first := range c.first {
				holders := x.holders()
				require.Len(t, holders, 1)
				g := x.entries[holders[0]].g
				g.e, g.calling, g.records = &engine{s: s}, make(chan struct{}, 1), records{g: g, slot: -1, ledgers: make([]ledger, 1)}

				require.NoError(t, g.release(t.Context()))

				require.Len(t, s.reqs, 1)
				assert.Equal(t, holders[0], s.reqs[0].Ref.Place)
				assert.Equal(t, first, s.reqs[0].First, "the release of %d", holders[0])
			}
		})
	}
}

// One of two entries of a hold is lost while its Unlock is under way, before that has ended the
// hold. A request that never held deletes its own names all the same. So does a hold that was
// released before: an operator deletes what MinHold keeps.
func TestReleaseOfALostHoldKeepsTheNamesInTheLedgers(t *testing.T) {
	lose := func(g *group) {
		g.entries[1].lost, g.entries[1].state = true, over
		g.lose()
	}
	for name, c := range map[string]struct {
		do             func(t *testing.T, g *group)
		updates, names int
	}{
		"released": {func(t *testing.T, g *group) { assert.NoError(t, g.release(t.Context())) }, 0, 2},
		"lost, then released": {func(t *testing.T, g *group) {
			lose(g)
			assert.ErrorIs(t, g.release(t.Context()), driver.ErrGone)
		}, 0, 0},
		"lost, then dropped": {func(t *testing.T, g *group) {
			lose(g)
			assert.NoError(t, g.drop(t.Context()))
		}, 0, 2},
		"recorded as released, lost, then released": {func(t *testing.T, g *group) {
			assert.NoError(t, g.released(t.Context()))
			lose(g)
			assert.ErrorIs(t, g.release(t.Context()), driver.ErrGone)
		}, 2, 2},
		"lost, then recorded as released": {func(t *testing.T, g *group) {
			lose(g)
			assert.ErrorIs(t, g.released(t.Context()), driver.ErrGone)
			assert.NoError(t, g.abandon(t.Context()))
		}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &leaves{}
			g := &group{e: &engine{s: s}, calling: make(chan struct{}, 1), lost: make(chan struct{})}
			g.records = records{g: g, slot: -1}
			for i := range 2 {
				q := &queue{name: fmt.Sprint(i), out: g.e, users: 1}
				g.entries = append(g.entries, &entry{Entry: &driver.Entry{Ref: driver.Ref{Queue: q.name, Key: "k", Place: 1}}, q: q, g: g, n: i, state: held})
				g.ledgers = append(g.ledgers, ledger{kept: true, own: true, name: g.name(asHolder)})
			}
			c.do(t, g)

			names := 0
			for _, req := range s.reqs {
				names += len(req.Ops)
			}
			assert.Equal(t, c.names, names)
			assert.Equal(t, c.updates, s.updates)
		})
	}
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
