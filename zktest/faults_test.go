package zktest_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/zktest"
)

func TestKilledLeaderIsReplacedAndComesBack(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3})
	works(t, e.Conn(t))
	old := leader(t, e)
	pid := e.Member(old).Pid()

	e.Member(old).Kill()
	e.Member(old).Kill() // dead is dead

	require.NotEqual(t, old, leader(t, e))
	works(t, only(t, e, leader(t, e)))
	require.Error(t, e.Member(old).Pause(), "nobody there to pause")

	require.NoError(t, e.Member(old).Restart(within(t, soon)))
	assert.NotEqual(t, pid, e.Member(old).Pid())
	works(t, only(t, e, old))
}

func TestCutFollowerIsAloneUntilHealed(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3, Proxied: true})
	lead := leader(t, e)
	cut := (lead + 1) % 3
	alone, other := only(t, e, cut), only(t, e, (lead+2)%3)
	works(t, alone)
	works(t, other)

	e.Member(cut).CutPeers()

	_, err := other.Create("/news", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err, "the majority goes on")
	found, _, err := alone.Exists("/news")
	require.NoError(t, err, "clients still reach it")
	assert.False(t, found)

	e.Member(cut).HealPeers()

	_, err = alone.Sync("/")
	require.NoError(t, err)
	found, _, err = alone.Exists("/news")
	require.NoError(t, err)
	assert.True(t, found)
}

func TestCutLeaderIsReplaced(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3, Proxied: true})
	old := leader(t, e)
	e.Member(old).CutPeers()

	began := time.Now()
	require.Eventually(t, func() bool { return leader(t, e) != old }, soon, 10*time.Millisecond)
	t.Logf("after %v", time.Since(began))
	works(t, only(t, e, leader(t, e)))

	e.Member(old).HealPeers()
	began = time.Now()
	recovers(t, only(t, e, old))
	t.Logf("after %v", time.Since(began))
}

func TestWritesOfADelayedFollowerLag(t *testing.T) {
	const delay = 300 * time.Millisecond
	e := zktest.New(t, &zktest.Options{Members: 3, Proxied: true})
	lead := leader(t, e)
	follower := (lead + 1) % 3
	late, other := only(t, e, follower), only(t, e, (lead+2)%3)
	works(t, late)
	works(t, other)

	e.Member(follower).DelayTo(lead, delay)
	began := time.Now()
	works(t, late)
	took := time.Since(began)
	began = time.Now()
	works(t, other)

	assert.GreaterOrEqual(t, took, delay)
	assert.Less(t, time.Since(began), delay, "the majority does not wait for it")
}
