package etcdbackend

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
