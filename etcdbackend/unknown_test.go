package etcdbackend

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fairlock/fairlock/session/driver"
)

// An attempt whose answer was NOSPACE may have been carried out: etcd answers so as well
// after a transaction that has exceeded the quota.
func TestAnEntryThatWentWithNoSpaceLeftIsUnclear(t *testing.T) {
	s, store, _ := onStore(t)
	ref := s.put(t)
	store.faults = append(store.faults, func(carry func()) error { carry(); return rpctypes.ErrGRPCNoSpace })
	done := driver.Op{Record: "done", If: driver.Absent(), Value: []byte("n")}
	left, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: ref, Ops: []driver.Op{done}})
	require.NoError(t, err)
	assert.Equal(t, []driver.Left{driver.Unclear}, left)
}

// The key of an entry was written since the Update knew it. That was by an earlier Update,
// whose outcome was never known, and not by an attempt of this one.
func TestAnUpdateTakesNoEarlierOneForItself(t *testing.T) {
	s, store, _ := onStore(t)
	ref := s.put(t)
	ctx, cancel := context.WithCancel(t.Context())
	store.faults = append(store.faults, func(carry func()) error { cancel(); return lostReply(carry) })
	_, err := s.Update(ctx, driver.UpdateRequest{Queue: "x", Entry: ref, Marks: driver.MarkShared})
	require.ErrorIs(t, err, driver.ErrUnavailable)

	store.faults = append(store.faults, lostRequest)
	req := driver.UpdateRequest{Queue: "x", Entry: ref, Marks: driver.MarkShared, Ops: []driver.Op{
		{Record: "limit", If: driver.Equal([]byte("2")), Value: []byte("3")},
	}}
	_, err = s.Update(t.Context(), req)
	require.ErrorIs(t, err, driver.ErrUnavailable, "no attempt was carried out, and that is not known")
	_, err = s.Update(t.Context(), req)
	var refused *driver.RefusedError
	require.ErrorAs(t, err, &refused, "the record is not there")

	req.Ops[0].If = driver.Absent()
	rs, err := s.Update(t.Context(), req)
	require.NoError(t, err)
	assert.True(t, rs[0].Done)
	assert.Equal(t, "\n#shared", string(store.keys[ref.Key].Value))
}

// The faults of requests that are refused: a permission is missing, or the quota is used up.
func denied(func()) error     { return rpctypes.ErrGRPCPermissionDenied }
func noSpace(func()) error    { return rpctypes.ErrGRPCNoSpace }
func full(carry func()) error { carry(); return rpctypes.ErrGRPCNoSpace }
func share(ops ...driver.Op) verb {
	return func(ctx context.Context, s *etcdSession, ref driver.Ref) error {
		_, err := s.Update(ctx, driver.UpdateRequest{Queue: "x", Entry: ref, Marks: driver.MarkShared, Ops: ops})
		return err
	}
}

func leave(ctx context.Context, s *etcdSession, ref driver.Ref) error {
	_, err := s.Leave(ctx, driver.LeaveRequest{Ref: ref})
	return err
}

// verb is a call about an entry.
type verb = func(ctx context.Context, s *etcdSession, ref driver.Ref) error

type faults = []func(carry func()) error

// An error that is ErrDenied or ErrRefused means that nothing was done. After an attempt that
// was not answered that is not known, so a writer that became a reader must not be taken for
// a writer.
func TestARefusalAfterAnAttemptWithoutAnAnswerLeavesTheOutcomeUnknown(t *testing.T) {
	optional := driver.Op{Record: "hint", If: driver.Absent(), Value: []byte("n"), Optional: true}
	required := driver.Op{Record: "slot", If: driver.Absent(), Value: []byte("n")}
	for name, c := range map[string]struct {
		call    verb
		faults  faults
		unknown bool
	}{
		"a mark whose answer is lost":          {share(), faults{lostReply, denied}, true},
		"a mark that is late":                  {share(), faults{lostRequest, denied}, true},
		"a mark that is late, the quota full":  {share(), faults{lostRequest, noSpace}, true},
		"a mark made when the quota was full":  {share(optional), faults{full, denied}, true},
		"a record whose answer is lost":        {share(required), faults{lostReply, denied}, true},
		"a mark that is denied":                {share(), faults{denied}, false},
		"a mark that is denied without a hint": {share(optional), faults{denied, denied}, false},
		"a mark for which there is no space":   {share(required), faults{noSpace}, false},
		"a release whose answer is lost":       {leave, faults{lostReply, denied}, true},
		"a release that is denied":             {leave, faults{denied, denied}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, store, _ := onStore(t)
			ref := s.put(t)
			store.faults = c.faults

			err := c.call(t.Context(), s, ref)
			require.Error(t, err)
			assert.Equal(t, c.unknown, !driver.Incurable(err), "%v", err)
			assert.Empty(t, store.faults)
		})
	}
}

// An Update that does not write the entry leaves nothing that an earlier one could still write.
// The ledger of a waiter that has gone is settled like that, and then its entry is deleted.
func TestARefusedRecordIsRefusedAfterAnEarlierUpdateWithoutAnAnswer(t *testing.T) {
	s, store, _ := onStore(t)
	ref := s.put(t)
	enter := func(ctx context.Context) error {
		name := driver.Op{Record: "ledger", If: driver.Absent(), Value: []byte("n")}
		_, err := s.Update(ctx, driver.UpdateRequest{Queue: "x", Entry: ref, Ops: []driver.Op{name}})
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	store.faults = faults{func(func()) error { cancel(); return lostRequest(nil) }, noSpace}
	require.ErrorIs(t, enter(ctx), driver.ErrUnavailable)
	require.ErrorIs(t, enter(t.Context()), driver.ErrRefused)
}

func TestARefusalDoesNotSettleAnEarlierUpdate(t *testing.T) {
	s, store, _ := onStore(t)
	ref := s.put(t)
	ctx, cancel := context.WithCancel(t.Context())
	store.faults = faults{func(carry func()) error { cancel(); return lostReply(carry) }, denied}
	require.ErrorIs(t, share()(ctx, s, ref), driver.ErrUnavailable)

	err := share()(t.Context(), s, ref)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	assert.False(t, driver.Incurable(err), "%v", err)
	require.NoError(t, share()(t.Context(), s, ref))
}

// What such an Update can still write is not the entry.
func TestAnUpdateOfADetailOrARecordLeavesNoDoubtAboutTheEntry(t *testing.T) {
	s, store, _ := onStore(t)
	ref := s.put(t)
	for _, req := range []driver.UpdateRequest{
		{Detail: []byte("v")},
		{Ops: []driver.Op{{Record: "ledger", If: driver.Absent(), Value: []byte("n")}}},
	} {
		req.Queue, req.Entry = "x", ref
		ctx, cancel := context.WithCancel(t.Context())
		store.faults = faults{func(carry func()) error { cancel(); return lostReply(carry) }, denied}
		_, err := s.Update(ctx, req)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.ErrorIs(t, share()(t.Context(), s, ref), driver.ErrDenied)
	}
}

// etcd answers a transaction without operations from any member, also from one that is
// behind, and then the store seems to have gone back.
func TestAnUpdateOfWhichNothingIsLeftIsNotSent(t *testing.T) {
	s, store, gone := onStore(t)
	s.put(t)
	store.faults = faults{func(func()) error { store.rev -= 50; return rpctypes.ErrGRPCPermissionDenied }}
	rs, err := s.Update(t.Context(), driver.UpdateRequest{Queue: "x", Ops: []driver.Op{
		{Record: "hint", If: driver.Absent(), Value: []byte("n"), Optional: true},
	}})
	require.NoError(t, err)
	assert.Equal(t, []driver.Result{{}}, rs)
	assert.Empty(t, *gone)
}

// The key of an observer's Update shows nothing, so the answer that a record refuses it may
// be due to an earlier attempt.
func TestAnObserverThatIsRefusedAfterAnAttemptWithoutAnAnswerKnowsNothing(t *testing.T) {
	s, store, _ := onStore(t)
	s.lease.ID = 0
	for _, fault := range (faults{lostReply, full}) {
		store.faults = faults{fault}
		_, err := s.Update(t.Context(), driver.UpdateRequest{Queue: "x", Ops: []driver.Op{
			{Record: "limit", If: driver.Absent(), Value: []byte("3")},
		}})
		require.ErrorIs(t, err, driver.ErrUnavailable)
		var refused *driver.RefusedError
		assert.NotErrorAs(t, err, &refused, "nothing was done")
		delete(store.keys, "r/%v2/x/limit")
	}
}

// A detail whose outcome is unknown has not written the entry, nor the witness of a later Update. A
// mark may still be written, but a record has another witness.
func TestAnUpdateWithoutAnAnswerRaisesNoDoubtAboutAnotherWitness(t *testing.T) {
	done := driver.Op{Record: "done", If: driver.Absent(), Value: []byte("k")}
	detail := driver.UpdateRequest{Detail: []byte("d")}
	mark, record := driver.UpdateRequest{Marks: driver.MarkShared}, driver.UpdateRequest{Ops: []driver.Op{done}}
	both := driver.UpdateRequest{Marks: driver.MarkShared, Ops: []driver.Op{done}}
	for name, c := range map[string]struct{ before, after driver.UpdateRequest }{
		"a record after a detail":            {detail, record},
		"a mark and a record after a detail": {detail, both},
		"a record after a mark":              {mark, record},
	} {
		t.Run(name, func(t *testing.T) {
			s, store, _ := onStore(t)
			ref := s.put(t)
			for _, req := range []*driver.UpdateRequest{&c.before, &c.after} {
				req.Queue, req.Entry = "x", ref
			}
			ctx, cancel := context.WithCancel(t.Context())
			store.faults = faults{func(func()) error { cancel(); return lost() }}
			_, err := s.Update(ctx, c.before)
			require.ErrorIs(t, err, driver.ErrUnavailable)

			store.faults = faults{lostReply}
			_, err = s.Update(t.Context(), c.after)
			require.NoError(t, err, "the witness shows that it was written")
		})
	}
}

// The key of the detail was written by an earlier Update, not by the attempt without an answer.
func TestADetailOfAnEarlierUpdateIsNoWitness(t *testing.T) {
	s, store, _ := onStore(t)
	ref := s.put(t)
	req := driver.UpdateRequest{Queue: "x", Entry: ref, Detail: []byte("d")}
	ctx, cancel := context.WithCancel(t.Context())
	store.faults = faults{func(carry func()) error { cancel(); return lostReply(carry) }}
	_, err := s.Update(ctx, req)
	require.ErrorIs(t, err, driver.ErrUnavailable)

	store.faults = faults{lostRequest}
	req.Ops = []driver.Op{{Record: "limit", If: driver.Equal([]byte("2")), Value: []byte("3")}}
	_, err = s.Update(t.Context(), req)
	var refused *driver.RefusedError
	require.ErrorAs(t, err, &refused, "the record is not there")
}

// What a settled call has shown of a queue is of the revision of a later read.
func TestNoReadIsOlderThanWhatASettledCallHasShown(t *testing.T) {
	s, store, _ := onStore(t)
	store.faults = faults{func(carry func()) error { carry(); store.rev += 5; return lost() }}
	ref := s.put(t)
	assert.Equal(t, store.rev, s.queues.floor("x"), "a join")

	store.faults = faults{func(carry func()) error { carry(); store.rev += 5; return rpctypes.ErrGRPCNoSpace }}
	_, err := s.Update(t.Context(), driver.UpdateRequest{Queue: "x", Entry: ref, Ops: []driver.Op{
		{Record: "limit", If: driver.Absent(), Value: []byte("3")},
	}})
	require.NoError(t, err)
	assert.Equal(t, store.rev, s.queues.floor("x"), "an update")
}

// The answer to a join was lost, and then the entry was deleted, and its revision compacted.
func TestAJoinIsNotTakenForTheFirstWhenItsRevisionWasCompacted(t *testing.T) {
	for name, others := range map[string]bool{"another is there": true, "the queue is empty": false} {
		t.Run(name, func(t *testing.T) {
			s, store, _ := onStore(t)
			if others {
				store.rev++
				ahead := &mvccpb.KeyValue{Key: []byte("r/x/def.0"), CreateRevision: store.rev, ModRevision: store.rev, Version: 1, Lease: 0xdef}
				store.keys[string(ahead.Key)] = ahead
			}
			store.compacted = func() { delete(store.keys, "r/x/abc.0") }
			store.faults = faults{lostReply}
			js, err := s.Join(t.Context(), driver.JoinRequest{Queue: "x"})
			require.NoError(t, err)
			assert.Equal(t, 1, js[0].View.Count)
			assert.False(t, js[0].View.Complete)
		})
	}
}
