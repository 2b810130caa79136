package etcdtest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
)

// proxied runs a test with embedded members and with member processes.
func proxied(t *testing.T, test func(t *testing.T, c *etcdtest.Cluster)) {
	for name, processes := range map[string]bool{"embedded": false, "processes": true} {
		t.Run(name, func(t *testing.T) {
			test(t, etcdtest.New(t, &etcdtest.Options{Members: 3, Proxied: true, Processes: processes}))
		})
	}
}

func TestCutFollowerIsAloneUntilHealed(t *testing.T) {
	proxied(t, func(t *testing.T, c *etcdtest.Cluster) {
		lead := leader(t, c)
		cut, healthy := (lead+1)%3, (lead+2)%3
		alone, others := only(t, c, cut), only(t, c, healthy)
		recovers(t, alone)
		lease, err := others.Grant(hang.Context(t), 3600)
		require.NoError(t, err)

		c.Member(cut).CutPeers()

		_, err = others.Put(hang.Context(t), "key", "news")
		require.NoError(t, err, "the majority goes on")
		_, err = others.KeepAliveOnce(hang.Context(t), lease.ID)
		require.NoError(t, err, "a healthy follower still reaches the leader")
		_, err = alone.KeepAliveOnce(hang.Ending(t, 300*time.Millisecond), lease.ID)
		require.Error(t, err, "renewals must not slip through")
		_, err = alone.Get(hang.Ending(t, 300*time.Millisecond), "key")
		require.Error(t, err, "a linearizable read needs the leader")
		old, err := alone.Get(hang.Context(t), "key", clientv3.WithSerializable())
		require.NoError(t, err, "clients still reach it")
		assert.Equal(t, "value", string(old.Kvs[0].Value))
		assert.Positive(t, waiting(c.Member(cut)), "the cut met nothing")
		assert.Positive(t, waiting(c.Member(lead)), "the cut met nothing the other way")

		c.Member(cut).HealPeers()

		got, err := alone.Get(hang.Context(t), "key")
		require.NoError(t, err)
		assert.Equal(t, "news", string(got.Kvs[0].Value))
	})
}

// waiting returns how many bytes the proxy before a member holds.
func waiting(m *etcdtest.Member) int64 {
	stats := m.PeerProxy().Stats()
	return stats.Requests.Waiting + stats.Replies.Waiting
}

func TestCutLeaderIsReplaced(t *testing.T) {
	proxied(t, func(t *testing.T, c *etcdtest.Cluster) {
		old := leader(t, c)
		c.Member(old).CutPeers()

		ctx := hang.Context(t)
		hang.Until(t, func() bool {
			i, err := c.Leader(ctx)
			return err == nil && i != old
		}, "no other member leads")
		recovers(t, only(t, c, leader(t, c)))

		c.Member(old).HealPeers()
		recovers(t, only(t, c, old))
	})
}

func TestFaultsNeedTheirOptions(t *testing.T) {
	m := etcdtest.New(t, nil).Member(0)
	assert.Nil(t, m.ClientProxy())
	assert.Nil(t, m.PeerProxy())
	assert.Panics(t, m.CutPeers)
	assert.Panics(t, m.HealPeers)
	assert.Panics(t, m.Kill)
	require.Error(t, m.Pause())
	require.Error(t, m.Resume())
	require.Error(t, m.Restart(t.Context()))
}
