package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// leaves is a session that counts updates, and records the last Leave.
type leaves struct {
	driver.Session
	updates int
	reqs    []driver.LeaveRequest
}

func (s *leaves) Since() int64 { return 0 }

func (s *leaves) Update(context.Context, driver.UpdateRequest) ([]driver.Result, error) {
	s.updates++
	return make([]driver.Result, 1), nil
}

func (s *leaves) Leave(_ context.Context, reqs ...driver.LeaveRequest) ([]driver.Left, error) {
	s.reqs = reqs
	return make([]driver.Left, len(reqs)), nil
}

// One of two entries of a hold is lost while its Unlock is under way, before that has ended the
// hold. A request that never held deletes its own names all the same. So does a hold that was
// released before: an operator deletes what MinHold keeps.
func TestReleaseOfALostHoldKeepsTheNamesInTheLedgers(t *testing.T) {
	lose := func(es *entries) {
		es.qs.mu.Lock()
		defer es.qs.mu.Unlock()
		es.queues[1].Missing(es.group.Entries[1])
		es.qs.acts = nil // there is no term to renew
	}
	for name, c := range map[string]struct {
		do             func(t *testing.T, es *entries)
		updates, names int
	}{
		"released": {func(t *testing.T, es *entries) { assert.NoError(t, es.release(t.Context())) }, 0, 2},
		"lost, then released": {func(t *testing.T, es *entries) {
			lose(es)
			assert.ErrorIs(t, es.release(t.Context()), driver.ErrGone)
		}, 0, 0},
		"lost, then dropped": {func(t *testing.T, es *entries) {
			lose(es)
			assert.NoError(t, es.drop(t.Context()))
		}, 0, 2},
		"recorded as released, lost, then released": {func(t *testing.T, es *entries) {
			assert.NoError(t, es.records.released(t.Context()))
			lose(es)
			assert.ErrorIs(t, es.release(t.Context()), driver.ErrGone)
		}, 2, 2},
		"lost, then recorded as released": {func(t *testing.T, es *entries) {
			lose(es)
			assert.ErrorIs(t, es.records.released(t.Context()), driver.ErrGone)
			assert.NoError(t, es.abandon(t.Context()))
		}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &leaves{}
			qs := &queues{e: &Engine{}, s: s, clock: driver.SystemClock(), byName: map[string]*openQueue{}}
			es := newEntries(qs, []Request{{Name: "x", Rule: rule.Mutex(), Ledger: true}, {Name: "y", Rule: rule.Mutex(), Ledger: true}}, nil)
			var joined []driver.Joined
			for _, q := range es.queues {
				joined = append(joined, driver.Joined{Entry: driver.Entry{Ref: driver.Ref{Queue: q.Name, Key: "k", Place: 1}}})
			}
			es.joined(joined)
			require.NotNil(t, es.group.Entries)
			for i := range es.records.ledgers {
				es.records.ledgers[i] = ledger{kept: true, own: true, name: es.records.name(asHolder)}
			}
			c.do(t, es)

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
	rec := records{ledgers: make([]ledger, 1)}
	en := &queue.Entry{Entry: &driver.Entry{}}
	for _, value := range []string{"", "h:of another", "{}", strings.Repeat("x", 100)} {
		l := &rec.ledgers[0]
		*l = ledger{kept: true}
		assert.True(t, rec.keeps(l, en, driver.Record{Value: []byte(value), Version: 7, Token: 7}), "it stays until a holder releases")
		assert.Equal(t, PastDied, l.past)

		op, deletes := l.op(clearAny)

		assert.True(t, deletes, "%q", value)
		assert.Equal(t, driver.Op{Record: recordLedger, If: driver.At(7), Optional: true}, op)
		_, deletes = l.op(clearOwn)
		assert.False(t, deletes, "it is the name of another")
	}
}
