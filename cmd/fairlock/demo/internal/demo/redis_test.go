package demo

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/aof"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/redisbackend"
)

func TestReportPassesOnOnlyTheCommandsOfTheQueue(t *testing.T) {
	s := &redisService{lock: "ledger"}
	meta := string(owner.Meta{Label: "ada"}.Encode())
	var h recorded
	for i, args := range [][]string{
		{"SELECT", "0"},
		{"ZADD", "{fairlock}:q:ledger", "4", "4"},
		{"HSET", "{fairlock}:h:ledger", "4", "s 0 1 0 0 0", "4d", meta, "4x", ""},
		{"HSET", "{fairlock}:h:ledgers", "5", "s 0 1 0 0 0", "5d", meta},
		{"HSET", "{fairlock}:h:ledger", "4d", "new data"},
		{"HSET", "{fairlock}:h:ledger", "4", "s 0 1 0 1 1"},
		{"ZREM", "{fairlock}:names", "ledger"},
		{"ZREM", "{fairlock}:q:ledger", "4"},
		{"SET", endMarkKey, "1"},
		{"DEL", endMarkKey},
	} {
		require.NoError(t, s.report(&h, aof.Command{Args: args, At: int64(i)}))
	}

	assert.Equal(t, recorded{"created 4 ada", "deleted 4 by 7", "marked"}, h)
	assert.Error(t, s.report(&h, aof.Command{Args: []string{"ZREM", "{fairlock}:q:ledger", "x"}}))
	assert.Error(t, s.report(&h, aof.Command{Args: []string{"HSET", "{fairlock}:h:ledger", "x", "", "xd", ""}}))
}

func TestKeysAndSessionsThatAreLeftInRedisAreFound(t *testing.T) {
	svc, err := openRedis(t.Context(), lockName)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, svc.close()) })
	keys, sessions, err := svc.leftovers(t.Context())
	require.NoError(t, err)
	assert.Empty(t, keys)
	assert.Zero(t, sessions)
	s, err := redisbackend.Dial(hang.Context(t), svc.address(), nil)
	require.NoError(t, err)
	held, err := mutex.New(s, lockName).Lock(hang.Context(t))
	require.NoError(t, err)

	keys, sessions, err = svc.leftovers(t.Context())
	require.NoError(t, err)
	first, err := svc.first(t.Context())
	require.NoError(t, err)

	assert.Contains(t, keys, "{fairlock}:q:"+lockName)
	assert.Equal(t, 1, sessions)
	assert.EqualValues(t, held.Token(), first)
	require.NoError(t, held.Unlock())
	require.NoError(t, s.Close())
	keys, sessions, err = svc.leftovers(t.Context())
	require.NoError(t, err)
	assert.Empty(t, keys)
	assert.Zero(t, sessions)
}
