package redistest_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/redistest"
)

// throughCluster returns a client of a cluster.
func throughCluster(t *testing.T, c *redistest.Cluster) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Addrs()[:1], DisableCache: true, DisableRetry: true})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.Equal(t, rueidis.ClientModeCluster, client.Mode())
	return client
}

func owner(t *testing.T, c *redistest.Cluster, key string) *redistest.Server {
	t.Helper()
	s, err := c.Owner(hang.Context(t), key)
	require.NoError(t, err)
	return s
}

func TestSlotsOfAClusterMove(t *testing.T) {
	c := redistest.NewCluster(t, nil)
	nodes := c.Nodes()
	require.Len(t, nodes, 3)
	const key = "{a}:1" // slot 15495
	assert.Same(t, nodes[2], owner(t, c, key))
	assert.Same(t, nodes[0], owner(t, c, "b"), "slot 3300")
	assert.Same(t, nodes[1], owner(t, c, "c"), "slot 7365")
	client := throughCluster(t, c)
	set := func() error {
		return client.Do(hang.Context(t), client.B().Set().Key(key).Value("1").Build()).Error()
	}
	require.NoError(t, set())

	require.NoError(t, c.BeginMove(hang.Context(t), key, nodes[0]))
	require.ErrorContains(t, nodes[2].Do(hang.Context(t), "GET", key).Error(), "ASK 15495 "+nodes[0].Addr())
	require.NoError(t, set())
	assert.Same(t, nodes[2], owner(t, c, key))

	require.NoError(t, c.Move(hang.Context(t), key, nodes[0]))
	require.ErrorContains(t, nodes[2].Do(hang.Context(t), "GET", key).Error(), "MOVED 15495 "+nodes[0].Addr())
	require.NoError(t, set())
	assert.Same(t, nodes[0], owner(t, c, key))
	assert.Equal(t, "1", value(t, nodes[0], "GET", key))
	require.NoError(t, c.Move(hang.Context(t), key, nodes[0]), "it is there already")
}

func TestReplicasOfAClusterTakeOver(t *testing.T) {
	c := redistest.NewCluster(t, &redistest.ClusterOptions{Replicas: 1})
	nodes := c.Nodes()
	require.Len(t, nodes, 6)
	do(t, nodes[0], "SET", "b", "kept")
	require.NoError(t, nodes[3].CatchUp(hang.Context(t)))

	nodes[0].CutReplicas()
	do(t, nodes[0], "SET", "b", "lost")
	nodes[0].Kill()

	hang.Until(t, func() bool { return nodes[3].Do(hang.Ending(t, time.Second), "GET", "b").Error() == nil }, "the replica does not take over")
	assert.Equal(t, "kept", value(t, nodes[3], "GET", "b"))
	hang.Until(t, func() bool { return owner(t, c, "b") == nodes[3] }, "the nodes do not agree")
	require.NoError(t, nodes[0].Restart(hang.Context(t)))
	hang.Until(t, func() bool { return field(t, nodes[0], "replication", "role") == "slave" }, "the old master stays one")
}
