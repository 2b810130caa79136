package etcdbackend

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
