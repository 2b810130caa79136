package membackend_test

import (
	"context"
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

// Only a kind that is Terse leaves out what the service knows.
func TestAnswersShowTheRecordOfAnOpThatIsNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, s, _ := serve(t, memory.Options{})
		there := set(t, s, "there", 0, "a")
		op := driver.Op{Record: "there", If: driver.Absent(), Value: []byte("new")}
		_, err := operate(t, s, op)
		assert.Equal(t, &driver.RefusedError{Queue: "jobs", Op: op, Record: there, Known: true}, unwrapped[*driver.RefusedError](t, err))
		op.Optional = true
		results, err := operate(t, s, op)
		require.NoError(t, err)
		assert.Equal(t, []driver.Result{{Record: there}}, results)
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
		st, c, s, _ := serve(t, memory.Options{})
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
		require.ErrorIs(t, err, driver.ErrGone)

		other, _ := open(t, c)
		foreign, _ := inner().PutForeign(st, "jobs", "foreign", false)
		for what, ref := range map[string]driver.Ref{"of another session": join(t, other, "jobs").Ref, "of another program": foreign} {
			_, err = s.Leave(t.Context(), driver.LeaveRequest{Ref: ref})
			require.ErrorIs(t, err, driver.ErrRefused, what)
		}
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
