package redis

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/session/driver"
)

func TestExamineReportsTheServerAndTheRoot(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, &redistest.Options{Persistence: redistest.Log, Config: []string{"maxmemory 50mb"}})
	o := &redisbackend.Options{MaxTTL: 4 * time.Second}
	o.Session.TTL = 4 * time.Second
	ctx := hang.Context(t)
	r, err := redisbackend.Examine(ctx, oneOption(server), o)
	require.NoError(t, err)
	assert.Equal(t, []string{"", ""}, []string{r.Layout, r.Stored})
	assert.Empty(t, keys(t, server), "it changes nothing")
	require.NoError(t, redisbackend.Init(ctx, oneOption(server), o))
	s, err := redisbackend.Open(ctx, oneOption(server), o)
	require.NoError(t, err)
	h, err := mutex.NewWith(s, "x", mutex.Options{Robust: true}).Lock(ctx)
	require.NoError(t, err)
	before, err := server.Do(ctx, "HGETALL", "{fairlock}:meta").AsStrMap()
	require.NoError(t, err)

	r, err = redisbackend.Examine(ctx, oneOption(server), o)

	require.NoError(t, err)
	require.Len(t, r.Servers, 1)
	one := r.Servers[0]
	assert.Empty(t, one.Err)
	assert.Equal(t, []any{server.Addr(), "standalone", false, int64(50 << 20), "noeviction", true}, []any{r.Master, one.Mode, one.Replica, one.MaxMemory, one.Policy, one.AppendOnly})
	assert.NotEmpty(t, one.Version)
	assert.Less(t, one.Clock.Abs(), 5*time.Second)
	assert.Zero(t, one.BacklogTTL, "the setting of redistest")
	assert.Equal(t, []any{"2", 4 * time.Second, 1, false, r.Life, "", 1, 0, 1, 1}, []any{r.Layout, r.MaxTTL, r.Nodes, r.Claimed, r.Stored, r.Refused, r.Sessions, r.Stale, r.Queues, r.Entries})
	assert.Positive(t, r.Records)
	assert.Equal(t, driver.Keeps{Order: driver.UntilDataLoss, Tokens: driver.UntilDataLoss}, r.Keeps())
	after, err := server.Do(ctx, "HGETALL", "{fairlock}:meta").AsStrMap()
	require.NoError(t, err)
	assert.Equal(t, before, after)

	r, err = redisbackend.Examine(ctx, oneOption(server), &redisbackend.Options{MaxTTL: 5 * time.Second})
	require.NoError(t, err)
	assert.Contains(t, r.Refused, "all programs of a root need the same MaxTTL")
	recipetest.Unlock(t, h)
	require.NoError(t, s.Close())
	require.NoError(t, server.Stop(ctx))
	require.NoError(t, server.Restart(ctx))
	r, err = redisbackend.Examine(ctx, oneOption(server), o)
	require.NoError(t, err)
	assert.NotEqual(t, r.Life, r.Stored)
	assert.False(t, r.Claimed)
}

func TestExamineReportsReplicasThatTheRootDoesNotCount(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, nil)
	replica, err := server.Replica(hang.Context(t), nil)
	require.NoError(t, err)
	both := rueidis.ClientOption{InitAddress: []string{replica.Addr(), server.Addr()}}
	require.NoError(t, redisbackend.Init(hang.Context(t), both, &redisbackend.Options{Nodes: 2}))

	r, err := redisbackend.Examine(hang.Context(t), both, &redisbackend.Options{Nodes: 2})

	require.NoError(t, err)
	assert.Equal(t, server.Addr(), r.Master)
	assert.True(t, r.Servers[0].Replica && r.Servers[0].Linked)
	require.Len(t, r.Servers[1].Attached, 1)
	assert.Equal(t, "online", r.Servers[1].Attached[0].State)
	assert.False(t, r.Uncounted())

	_, err = server.Replica(hang.Context(t), nil)
	require.NoError(t, err)
	r, err = redisbackend.Examine(hang.Context(t), both, &redisbackend.Options{Nodes: 2, AcceptWeaker: true})
	require.NoError(t, err)
	assert.True(t, r.Uncounted())
	assert.Equal(t, driver.UntilSplit, r.Keeps().Exclusion)
}

func TestExamineReportsWhatSentinelsAndAClusterName(t *testing.T) {
	t.Parallel()
	sentinels := redistest.NewSentinels(t, nil)
	o := rueidis.ClientOption{InitAddress: sentinels.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: redistest.MasterName}}
	master, err := sentinels.Master(hang.Context(t))
	require.NoError(t, err)

	r, err := redisbackend.Examine(hang.Context(t), o, &redisbackend.Options{Nodes: 3})

	require.NoError(t, err)
	require.Len(t, r.Sentinels, len(sentinels.Addrs()))
	for _, s := range r.Sentinels {
		assert.Equal(t, []any{"", master.Addr()}, []any{s.Err, s.Master})
		assert.Positive(t, s.FailoverTimeout)
	}
	assert.Equal(t, master.Addr(), r.Master)

	cluster := redistest.NewCluster(t, nil)
	owner, err := cluster.Owner(hang.Context(t), "{fairlock}:")
	require.NoError(t, err)
	for _, addr := range cluster.Addrs() {
		r, err = redisbackend.Examine(hang.Context(t), rueidis.ClientOption{InitAddress: []string{addr}}, nil)
		require.NoError(t, err)
		assert.Equal(t, owner.Addr(), r.Master)
		assert.Equal(t, "cluster", r.Servers[0].Mode)
		assert.Empty(t, r.MissingToLock)
	}
}
