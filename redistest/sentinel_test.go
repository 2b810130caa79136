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

// throughSentinel returns a client that Sentinels give the address of the master.
func throughSentinel(t *testing.T, s *redistest.Sentinels) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: s.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: redistest.MasterName},
		DisableCache: true, DisableRetry: true,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func TestSentinelsReplaceAMasterThatIsKilled(t *testing.T) {
	s := redistest.NewSentinels(t, nil)
	first, err := s.Master(hang.Context(t))
	require.NoError(t, err)
	assert.Same(t, s.Servers()[0], first)
	client := throughSentinel(t, s)
	require.NoError(t, client.Do(hang.Context(t), client.B().Set().Key("kept").Value("1").Build()).Error())
	for _, r := range s.Servers()[1:] {
		require.NoError(t, r.CatchUp(hang.Context(t)))
		assert.True(t, exists(t, r, "kept"))
	}

	first.CutReplicas()
	require.NoError(t, client.Do(hang.Context(t), client.B().Set().Key("lost").Value("1").Build()).Error())
	first.Kill()
	second, err := s.AwaitFailover(hang.Context(t), first)
	require.NoError(t, err)

	assert.NotSame(t, first, second)
	assert.True(t, exists(t, second, "kept"))
	assert.False(t, exists(t, second, "lost"), "no replica had received it")
	hang.Until(t, func() bool {
		return client.Do(hang.Ending(t, time.Second), client.B().Set().Key("new").Value("1").Build()).Error() == nil
	}, "the client does not find the new master")
	assert.True(t, exists(t, second, "new"))

	require.NoError(t, first.Restart(hang.Context(t)))
	require.NoError(t, first.Follow(hang.Context(t), second), "Sentinels would do that some seconds later")
	require.NoError(t, first.CatchUp(hang.Context(t)))
	assert.True(t, exists(t, first, "new"))
}

func TestSentinelsMoveALiveMaster(t *testing.T) {
	s := redistest.NewSentinels(t, &redistest.SentinelOptions{Replicas: 1, Server: &redistest.Options{TLS: true, Config: []string{"requirepass secret"}}})
	first := s.Servers()[0]
	require.NoError(t, s.Sentinels()[2].Pause(), "two of three are enough")

	second, err := s.Failover(hang.Context(t))

	require.NoError(t, err)
	assert.Same(t, s.Servers()[1], second)
	require.NoError(t, s.Sentinels()[2].Resume())
	require.NoError(t, s.Sentinels()[2].Restart(hang.Context(t)))
	hang.Until(t, func() bool {
		addr, err := s.Sentinels()[2].Do(hang.Context(t), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", redistest.MasterName).AsStrSlice()
		return err == nil && "127.0.0.1:"+addr[1] == second.Addr()
	}, "the third Sentinel does not learn of it")
	require.NoError(t, first.Follow(hang.Context(t), second))
	require.NoError(t, first.CatchUp(hang.Context(t)))
	_, err = first.Replica(hang.Context(t), nil)
	require.ErrorContains(t, err, "from the start")
}
