package membackend_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/memory"
	"github.com/fairlock/fairlock/session/driver"
)

// operate does ops on the queue "jobs".
func operate(t *testing.T, s driver.Session, ops ...driver.Op) ([]driver.Result, error) {
	t.Helper()
	return s.Update(t.Context(), driver.UpdateRequest{Queue: "jobs", Ops: ops})
}

// set writes a record that is at a version, and returns it.
func set(t *testing.T, s driver.Session, name string, version int64, value string) driver.Record {
	t.Helper()
	results, err := operate(t, s, driver.Op{Record: name, If: driver.At(version), Value: []byte(value)})
	require.NoError(t, err)
	require.True(t, results[0].Done)
	return results[0].Record
}

func TestOpIsDoneIfItsConditionIsMet(t *testing.T) {
	for _, c := range []struct {
		record string
		cond   driver.Cond
		met    bool
	}{
		{"there", driver.Absent(), false},
		{"there", driver.Equal([]byte("a")), true},
		{"there", driver.Equal([]byte("x")), false},
		{"there", driver.EqualOrAbsent([]byte("x")), false},
		{"there", driver.At(2), true},
		{"there", driver.At(1), false},
		{"there", driver.At(0), false},
		{"deleted", driver.Absent(), true},
		{"deleted", driver.Equal([]byte("a")), false},
		{"deleted", driver.EqualOrAbsent([]byte("a")), true},
		{"deleted", driver.At(1), false},
		{"deleted", driver.At(2), false},
		{"deleted", driver.At(0), true},
	} {
		for _, optional := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				st, _, s, _ := serve(t, memory.Options{})
				set(t, s, "there", set(t, s, "there", 0, "x").Version, "a")
				_, err := operate(t, s, driver.Op{Record: "deleted", If: driver.At(set(t, s, "deleted", 0, "a").Version)})
				require.NoError(t, err)
				op := driver.Op{Record: c.record, If: c.cond, Value: []byte("new"), Optional: optional}
				results, err := operate(t, s, op, driver.Op{Record: "side", Value: []byte{}})
				got, side := inner().Records(st, "jobs")[c.record], inner().Records(st, "jobs")["side"]

				switch {
				case c.met:
					require.NoError(t, err, c)
					assert.Equal(t, "new", string(got.Value), c)
					assert.Equal(t, []driver.Result{{Done: true, Record: got}, {Done: true, Record: side}}, results, c)
					assert.Equal(t, int64(3), got.Version, c)
					assert.Equal(t, got.Token, side.Token, c)
				case optional:
					require.NoError(t, err, c)
					assert.Equal(t, []driver.Result{{Record: got}, {Done: true, Record: side}}, results, c)
				default:
					var refused *driver.RefusedError
					require.ErrorAs(t, err, &refused, c)
					assert.Equal(t, driver.RefusedError{Queue: "jobs", Op: op, Record: got, Known: true}, *refused, c)
					assert.Zero(t, side, "%v: nothing is done", c)
				}
			})
		}
	}
}

func TestEqualOrAbsentWritesOnlyWhatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, s, _ := serve(t, memory.Options{})
		limit := driver.Op{Record: "limit", If: driver.EqualOrAbsent([]byte("3")), Value: []byte("3")}
		first, err := operate(t, s, limit)
		require.NoError(t, err)
		second, err := operate(t, s, limit)
		require.NoError(t, err)
		assert.Equal(t, first, second)
	})
}

func TestJoinDoesItsOpsWithTheEntryOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, s, _ := serve(t, memory.Options{})
		req := driver.JoinRequest{
			Queue: "jobs", Records: []string{"ledger", "limit", "slot/"},
			Ops: []driver.Op{{Record: "ledger", Value: []byte("me"), Optional: true}, {Record: "slot/1", Value: []byte("me")}},
		}
		j, err := s.Join(t.Context(), req, driver.JoinRequest{Queue: "other", IfEmpty: true})
		require.NoError(t, err)
		assert.Equal(t, j[0].Entry.Token, j[1].Entry.Token)
		assert.Equal(t, j[0].Entry.Token, j[0].View.Records["ledger"].Token)
		assert.Len(t, j[0].View.Records, 2)
		assert.True(t, j[0].View.Complete)
		req.Queue = "jobs"
		_, err = s.Join(t.Context(), driver.JoinRequest{Queue: "third"}, req)
		var refused *driver.RefusedError
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, "slot/1", refused.Op.Record)
		_, err = s.Join(t.Context(), driver.JoinRequest{Queue: "third"}, driver.JoinRequest{Queue: "other", IfEmpty: true})
		var taken *driver.TakenError
		require.ErrorAs(t, err, &taken)
		assert.Equal(t, driver.TakenError{Queue: "other", First: j[1].Entry, Count: 1}, *taken)
		assert.Empty(t, entries(st, "third"))
		assert.Len(t, entries(st, "jobs"), 1)
	})
}

func TestLeaveOfWhatIsGoneChangesBoundRecordsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		other, _ := open(t, c)
		set(t, s, "ledger", 0, "me")
		set(t, s, "slot/0", 0, "me")
		set(t, s, "slot/1", 0, "other")
		a, b := join(t, s, "jobs"), join(t, s, "jobs")
		require.True(t, st.Delete("jobs", a.Key))
		_, err := other.Leave(t.Context(), driver.LeaveRequest{Ref: b.Ref})
		require.ErrorIs(t, err, driver.ErrRefused, "it is not its own")
		left, err := s.Leave(t.Context(),
			driver.LeaveRequest{Ref: a.Ref, Ops: []driver.Op{
				{Record: "ledger", If: driver.Equal([]byte("me"))},
				{Record: "slot/0", If: driver.Equal([]byte("me")), Bound: true},
				{Record: "slot/1", If: driver.Equal([]byte("me")), Bound: true},
			}},
			driver.LeaveRequest{Ref: b.Ref})
		require.NoError(t, err)
		assert.Equal(t, []driver.Left{driver.WasGone, driver.Deleted}, left)
		assert.Equal(t, []string{"ledger", "slot/1"}, slices.Sorted(maps.Keys(inner().Records(st, "jobs"))), "slot/1 is another's")

		watcher, err := c.Backend().Open(t.Context(), driver.Config{Observer: true})
		require.NoError(t, err)
		foreign, _ := inner().PutForeign(st, "jobs", "foreign", false)
		_, err = watcher.Leave(t.Context(), driver.LeaveRequest{Ref: foreign})
		require.ErrorIs(t, err, driver.ErrRefused)
		c2 := join(t, s, "jobs")
		left, err = watcher.Leave(t.Context(), driver.LeaveRequest{Ref: c2.Ref, Any: true}, driver.LeaveRequest{Ref: foreign, Any: true})
		require.NoError(t, err)
		assert.Equal(t, []driver.Left{driver.Deleted, driver.Deleted}, left)
		assert.Empty(t, entries(st, "jobs"))
	})
}

func TestRepeatedAnswersDoNotShowWhatTheFirstCopyDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		ops := []driver.Op{{Record: "ledger", Value: []byte("me"), Optional: true}, {Record: "slot/1", Value: []byte("me")}}
		c.Inject(fault.Join, fault.BrokenReply)
		j, err := s.Join(t.Context(), driver.JoinRequest{Queue: "jobs", Ops: ops})
		require.NoError(t, err)
		require.Len(t, entries(st, "jobs"), 1)
		assert.Equal(t, []bool{false, true}, []bool{j[0].Ops[0].Done, j[0].Ops[1].Done})
		assert.Equal(t, "me", string(j[0].Ops[0].Record.Value))
		c.Inject(fault.Update, fault.LostReply)
		results, err := operate(t, s, driver.Op{Record: "more", Value: []byte{}, Optional: true})
		require.NoError(t, err)
		assert.False(t, results[0].Done)
		assert.Contains(t, inner().Records(st, "jobs"), "more")
		c.Inject(fault.Leave, fault.BrokenReply)
		left, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: j[0].Entry.Ref}, driver.LeaveRequest{Ref: driver.Ref{Queue: "jobs", Key: "no"}})
		require.NoError(t, err)
		assert.Equal(t, []driver.Left{driver.Unclear, driver.WasGone}, left)
	})
}

func TestOldUpdatesThatComeLateUndoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		j, err := s.Join(t.Context(), driver.JoinRequest{Queue: "jobs", Data: []byte("old"), Valued: true})
		require.NoError(t, err)
		limit := set(t, s, "limit", 0, "1")
		for _, req := range []driver.UpdateRequest{
			{Entry: j[0].Entry.Ref, Data: []byte("late"), Detail: []byte("late")},
			{Ops: []driver.Op{{Record: "limit", If: driver.At(limit.Version), Value: []byte("2")}}},
		} {
			req.Queue = "jobs"
			_ = late(t, c, fault.Update, func(ctx context.Context) error {
				_, err := s.Update(ctx, req)
				return err
			})
		}
		_, err = s.Update(t.Context(), driver.UpdateRequest{Queue: "jobs", Entry: j[0].Entry.Ref, Data: []byte("newer"), Detail: []byte("newer")})
		require.NoError(t, err)
		set(t, s, "limit", set(t, s, "limit", limit.Version, "3").Version, "1")
		c.Deliver()

		e := entries(st, "jobs")[0]
		assert.Equal(t, "newer newer", string(e.Data)+" "+string(e.Detail))
		assert.EqualValues(t, 1, st.Limit("jobs"))
	})
}

func TestSettleDeletesTheRecordsThatTheJoinHasMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, c, s, _ := serve(t, memory.Options{})
		set(t, s, "old", 0, "x")
		err := late(t, c, fault.Join, func(ctx context.Context) error {
			_, err := s.Join(ctx, driver.JoinRequest{Queue: "jobs", Ops: []driver.Op{
				{Record: "ledger", Value: []byte("me")},
				{Record: "old", Value: []byte("me"), Optional: true},
				{Record: "limit", If: driver.EqualOrAbsent([]byte("3")), Value: []byte("3")},
			}})
			return err
		})
		c.Deliver()
		require.Len(t, inner().Records(st, "jobs"), 3)
		require.NoError(t, unwrapped[*driver.PendingError](t, err).Settle(t.Context()))
		left := inner().Records(st, "jobs")
		assert.Len(t, left, 2)
		assert.Equal(t, "x3", string(left["old"].Value)+string(left["limit"].Value))
	})
}

func TestNothingIsBoundToASessionThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, s, _ := serve(t, memory.Options{})
		e := join(t, s, "jobs")
		require.True(t, st.Expire(s.ID()))
		_, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: e.Ref, Ops: []driver.Op{{Record: "slot/1", Value: []byte("me"), Bound: true}}})
		require.NoError(t, err)
		assert.Empty(t, inner().Records(st, "jobs"))
	})
}

func TestReadShowsTheRequestedPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, s, _ := serve(t, memory.Options{})
		var places []int64
		for range 5 {
			places = append(places, join(t, s, "jobs").Place)
		}
		for _, c := range []struct {
			req         driver.ReadRequest
			first, last int
			count       int
			complete    bool
		}{
			{driver.ReadRequest{}, 0, 4, 5, true},
			{driver.ReadRequest{Nearest: 2}, 0, 1, 5, false},
			{driver.ReadRequest{Nearest: 5}, 0, 4, 5, true},
			{driver.ReadRequest{Upto: places[3]}, 0, 3, 4, true},
			{driver.ReadRequest{Upto: places[3], Nearest: 2}, 1, 3, 4, false},
			{driver.ReadRequest{Upto: places[3], Nearest: 3}, 0, 3, 4, true},
			{driver.ReadRequest{Upto: places[3], From: places[2], Nearest: 1}, 1, 3, 4, false},
			{driver.ReadRequest{Upto: places[4] + 100, Nearest: 1}, 4, 4, 5, false},
		} {
			c.req.Queue = "jobs"
			v, err := s.Read(t.Context(), c.req)
			require.NoError(t, err)
			var got []int64
			for _, e := range v.Entries {
				got = append(got, e.Place)
				require.Equal(t, e.Place, e.Token)
			}
			assert.Equal(t, places[c.first:c.last+1], got, "%+v", c.req)
			assert.Equal(t, []any{c.count, c.complete}, []any{v.Count, v.Complete}, "%+v", c.req)
		}
		names, err := s.Names(t.Context(), "jo")
		require.NoError(t, err)
		join(t, s, driver.AskQueue("jobs"))
		set(t, s, "limit", 0, "1")
		assert.Equal(t, []string{"jobs"}, names)
	})
}

func TestRequestsOutsideTheContractAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, s, _ := serve(t, memory.Options{})
		large := make([]byte, 1<<20+1)
		for what, reqs := range map[string][]driver.JoinRequest{
			"the same queue": {{Queue: "jobs"}, {Queue: "jobs"}},
			"data":           {{Queue: "jobs", Data: large}},
			"detail":         {{Queue: "jobs", Detail: large[:2049]}},
			"too many":       make([]driver.JoinRequest, 33),
		} {
			_, err := s.Join(t.Context(), reqs...)
			require.ErrorIs(t, err, driver.ErrRefused, what)
			require.Empty(t, entries(st, "jobs"), what)
		}
		first, second := join(t, s, "jobs"), join(t, s, "jobs")
		j, err := s.Join(t.Context(), driver.JoinRequest{Queue: "jobs", Valued: true}, driver.JoinRequest{Queue: "other", Valued: true}, driver.JoinRequest{Queue: "third"})
		require.NoError(t, err)
		for what, req := range map[string]driver.UpdateRequest{
			"no value":            {Entry: first.Ref, Data: []byte{}},
			"large data":          {Entry: j[1].Entry.Ref, Data: large},
			"no entry":            {Marks: driver.MarkShared},
			"not first":           {Entry: second.Ref, Marks: driver.MarkShared},
			"value, not first":    {Entry: j[0].Entry.Ref, Data: []byte{}},
			"mark of a value":     {Entry: j[1].Entry.Ref, Marks: driver.MarkShared},
			"mark without permit": {Entry: j[2].Entry.Ref, Marks: driver.MarkAdmitted},
		} {
			req.Queue = req.Entry.Queue
			_, err := s.Update(t.Context(), req)
			require.ErrorIs(t, err, driver.ErrRefused, what)
		}
		_, err = s.Update(t.Context(), driver.UpdateRequest{Queue: "jobs", Entry: driver.Ref{Queue: "jobs", Key: "no"}, Marks: 1})
		assert.ErrorIs(t, err, driver.ErrGone)
	})
}

func TestAnswersAreCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, s, _ := serve(t, memory.Options{})
		data := []byte("v")
		j, err := s.Join(t.Context(), driver.JoinRequest{Queue: "jobs", Data: data})
		require.NoError(t, err)
		data[0], j[0].Entry.Data[0] = 'x', 'x'
		entries(st, "jobs")[0].Data[0] = 'x'
		assert.Equal(t, "v", string(entries(st, "jobs")[0].Data), "a reader cannot write")
	})
}
