package etcdbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fairlock/fairlock/session/driver"
)

// described makes an entry with a detail. A release deletes both in one transaction.
func (s *etcdSession) described(t *testing.T) driver.Ref {
	t.Helper()
	ref := s.put(t)
	_, err := s.Update(t.Context(), driver.UpdateRequest{Queue: "x", Entry: ref, Detail: []byte("d")})
	require.NoError(t, err)
	return ref
}

// etcd before 3.4.20 and 3.5.7 refuses every transaction while its quota is used up.
func TestAnEntryIsReleasedWhereEveryTransactionIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		faults faults
		want   driver.Left
	}{
		"before it is carried out":    {faults{noSpace, noSpace}, driver.Deleted},
		"after it was carried out":    {faults{full, noSpace}, driver.Unclear},
		"and the delete has no reply": {faults{noSpace, noSpace, lostReply}, driver.Unclear},
	} {
		t.Run(name, func(t *testing.T) {
			s, store, _ := onStore(t)
			ref := s.described(t)
			store.faults = c.faults

			left, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: ref})
			require.NoError(t, err)
			assert.Equal(t, []driver.Left{c.want}, left)
			assert.NotContains(t, store.keys, ref.Key)
			assert.Empty(t, store.faults)
		})
	}
}

// A plain delete could delete a later entry with the key, or only some of several.
func TestOnlyASingleOwnEntryIsDeletedWithoutATransaction(t *testing.T) {
	s, store, _ := onStore(t)
	a, b := s.put(t), s.put(t)
	for name, c := range map[string]struct {
		reqs   []driver.LeaveRequest
		faults faults
	}{
		"two entries":                 {[]driver.LeaveRequest{{Ref: a}, {Ref: b}}, faults{noSpace}},
		"one as of any other session": {[]driver.LeaveRequest{{Ref: a, Any: true}}, faults{noSpace, noSpace}},
	} {
		store.faults = c.faults
		_, err := s.Leave(t.Context(), c.reqs...)
		require.ErrorContains(t, err, rpctypes.ErrNoSpace.Error(), name)
		assert.Contains(t, store.keys, a.Key, name)
	}
}

func TestADetailThatStaysDescribesNoLaterEntry(t *testing.T) {
	s, store, _ := onStore(t)
	ref := s.described(t)
	store.faults = faults{denied}
	_, err := s.Leave(t.Context(), driver.LeaveRequest{Ref: ref})
	require.NoError(t, err)
	s.put(t)

	v, err := s.Read(t.Context(), driver.ReadRequest{Queue: "x", Detail: true})
	require.NoError(t, err)
	require.Len(t, v.Entries, 1)
	assert.Empty(t, v.Entries[0].Detail)
}
