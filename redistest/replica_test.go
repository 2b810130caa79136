package redistest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/redistest"
)

// replica starts one of a server.
func replica(t *testing.T, s *redistest.Server) *redistest.Server {
	t.Helper()
	r, err := s.Replica(hang.Context(t), nil)
	require.NoError(t, err)
	return r
}

func TestReplicaLagsAndIsPromoted(t *testing.T) {
	s := redistest.New(t, nil)
	do(t, s, "SET", "first", "1")
	r, other := replica(t, s), replica(t, s)
	assert.True(t, exists(t, r, "first"))
	require.ErrorContains(t, r.Do(hang.Context(t), "SET", "a", "b").Error(), "READONLY")

	require.NoError(t, r.CutOff())
	do(t, s, "SET", "second", "2")
	require.NoError(t, other.CatchUp(hang.Context(t)))
	require.ErrorContains(t, r.CatchUp(hang.Ending(t, 300*time.Millisecond)), "deadline")
	assert.False(t, exists(t, r, "second"))
	require.NoError(t, r.Rejoin())
	require.NoError(t, r.CatchUp(hang.Context(t)))
	assert.True(t, exists(t, r, "second"))

	life := field(t, s, "replication", "master_replid")
	s.CutReplicas()
	do(t, s, "SET", "third", "3")
	s.Kill()
	require.NoError(t, r.Promote(hang.Context(t)))
	assert.Nil(t, r.Link())
	do(t, r, "SET", "fourth", "4")
	assert.False(t, exists(t, r, "third"), "the last write of the old master is lost")
	assert.NotEqual(t, life, field(t, r, "replication", "master_replid"))

	require.NoError(t, other.Follow(hang.Context(t), r))
	require.NoError(t, other.CatchUp(hang.Context(t)))
	assert.True(t, exists(t, other, "fourth"))
	assert.False(t, exists(t, other, "third"))

	require.NoError(t, other.Restart(hang.Context(t)))
	require.NoError(t, other.CatchUp(hang.Context(t)), "it follows the new master")
	require.NoError(t, r.Restart(hang.Context(t)))
	assert.Equal(t, "master", field(t, r, "replication", "role"))
	require.NoError(t, s.Restart(hang.Context(t)))
	assert.Equal(t, "master", field(t, s, "replication", "role"), "now there are two masters")
	require.NoError(t, s.Follow(hang.Context(t), r))
	require.NoError(t, s.CatchUp(hang.Context(t)))
}

func TestReplicaIsAsLateAsItsLink(t *testing.T) {
	s := redistest.New(t, nil)
	r := replica(t, s)
	const late = 300 * time.Millisecond
	r.Link().Delay(fault.Replies, late)
	began := time.Now()

	do(t, s, "SET", "late", "1")
	require.NoError(t, r.CatchUp(hang.Context(t)))

	assert.GreaterOrEqual(t, time.Since(began), late)
	assert.Positive(t, r.Link().Stats().Replies.Passed)
}

// WAIT counts the replicas that have a write: a cut shows it.
func TestWaitCountsReplicasThatAreReached(t *testing.T) {
	s := redistest.New(t, nil)
	r := replica(t, s)
	other := replica(t, s)
	client := s.Client(t)
	acknowledged := func(n, ms int64) int64 {
		t.Helper()
		results := client.DoMulti(hang.Context(t), client.B().Set().Key("a").Value("b").Build(), client.B().Wait().Numreplicas(n).Timeout(ms).Build())
		require.NoError(t, results[0].Error())
		n, err := results[1].AsInt64()
		require.NoError(t, err)
		return n
	}
	assert.EqualValues(t, 2, acknowledged(2, 0))

	require.NoError(t, r.CutOff())
	assert.EqualValues(t, 1, acknowledged(1, 0))
	assert.Less(t, acknowledged(2, 200), int64(2))
	s.CutReplicas()
	assert.Zero(t, acknowledged(1, 200))
	s.HealReplicas()
	assert.EqualValues(t, 2, acknowledged(2, 0))
	require.NoError(t, other.CatchUp(hang.Context(t)))
}

func TestOnlyReplicasCanBeCutOff(t *testing.T) {
	s, foreign := redistest.New(t, nil), redistest.New(t, nil)
	require.ErrorContains(t, s.CutOff(), "no link to a master")
	require.ErrorContains(t, s.Rejoin(), "no link to a master")
	require.ErrorContains(t, s.CatchUp(hang.Context(t)), "no replica")
	require.ErrorContains(t, s.Follow(hang.Context(t), foreign), "the same Start")
	require.ErrorContains(t, s.Follow(hang.Context(t), s), "the same Start")
	require.NoError(t, s.Promote(hang.Context(t)), "a master stays one")
	assert.Nil(t, s.Proxy())
}
