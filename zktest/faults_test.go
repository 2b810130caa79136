package zktest_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/testnet"
	"github.com/fairlock/fairlock/zktest"
)

func proxied(t *testing.T) *zktest.Ensemble {
	t.Helper()
	return zktest.New(t, &zktest.Options{Members: 3, Proxied: true})
}

func TestCutFollowerIsAloneUntilHealed(t *testing.T) {
	for name, ways := range map[string]struct {
		cut, heal func(e *zktest.Ensemble, follower, leader int)
	}{
		"from all": {
			func(e *zktest.Ensemble, follower, _ int) { e.Member(follower).CutPeers() },
			func(e *zktest.Ensemble, follower, _ int) { e.Member(follower).HealPeers() },
		},
		"from the leader": {
			func(e *zktest.Ensemble, follower, leader int) { e.Member(follower).CutFrom(leader) },
			func(e *zktest.Ensemble, follower, leader int) { e.Member(leader).HealFrom(follower) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := zktest.New(t, &zktest.Options{Members: 3, Proxied: true, Config: map[string]string{"syncLimit": "100"}})
			lead := leader(t, e)
			cut := (lead + 1) % 3
			alone, other := only(t, e, cut), only(t, e, (lead+2)%3)
			works(t, alone)
			works(t, other)

			ways.cut(e, cut, lead)

			create(t, other, "/news") // the majority goes on
			assert.False(t, exists(t, alone, "/news"), "clients still reach it, but it cannot have this write")
			written := make(chan error, 1)
			go func() { // ends after the heal
				_, err := alone.Create("/late", nil, 0, zk.WorldACL(zk.PermAll))
				written <- err
			}()
			stats := func() testnet.Stats { return e.Member(cut).PeerProxy(lead).Stats() }
			hang.Until(t, func() bool { return stats().Requests.Waiting > 0 && stats().Replies.Waiting > 0 }, "nothing is held")
			assert.Empty(t, written, "a write needs the leader")

			ways.heal(e, cut, lead)

			require.NoError(t, <-written, "nothing is lost")
			assert.True(t, exists(t, alone, "/news"))
			assert.Equal(t, lead, leader(t, e))
		})
	}
}

func TestCutBetweenFollowersIsNotNoticed(t *testing.T) {
	e := proxied(t)
	lead := leader(t, e)
	one, other := (lead+1)%3, (lead+2)%3

	e.Member(one).CutFrom(other)

	for i := range e.Len() {
		works(t, only(t, e, i))
	}
	e.Member(lead).Kill()
	ctx := hang.Ending(t, time.Second)
	_, err := e.Leader(ctx)
	require.ErrorIs(t, err, ctx.Err(), "the two cannot elect")

	e.Member(other).HealFrom(one)
	recovers(t, only(t, e, leader(t, e)))
}

func TestCutFollowerGivesUpAfterTheLimit(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3, Proxied: true, Config: map[string]string{"syncLimit": "5"}})
	cut := (leader(t, e) + 1) % 3
	e.Member(cut).CutPeers()
	began := time.Now()

	hang.Until(t, func() bool {
		answer, err := e.Member(cut).Command(hang.Context(t), "srvr")
		require.NoError(t, err)
		return answer == "This ZooKeeper instance is not currently serving requests\n"
	}, "the member goes on serving")

	// 5 ticks of 100 ms after the last ping, which comes every half tick.
	assert.Greater(t, time.Since(began), 400*time.Millisecond)
	config, err := e.Member((cut+1)%3).Command(hang.Context(t), "conf")
	require.NoError(t, err)
	assert.Contains(t, config, "syncLimit=5\n")
}

func TestWritesThroughADelayedFollowerTakeLonger(t *testing.T) {
	const delay = 600 * time.Millisecond
	e := proxied(t)
	lead := leader(t, e)
	follower := (lead + 1) % 3
	late, other := only(t, e, follower), only(t, e, (lead+2)%3)
	works(t, late)
	works(t, other)

	e.Member(follower).DelayTo(lead, delay)
	healthy := metronome.Quickest(delay, func() { works(t, other) })
	began := time.Now()
	works(t, late)
	delayed := time.Since(began)
	e.Member(follower).DelayTo(lead, 0)
	works(t, late) // behind what was still under way
	over := metronome.Quickest(delay, func() { works(t, late) })

	assert.Less(t, healthy, delay, "the majority does not wait for it")
	assert.GreaterOrEqual(t, delayed, delay)
	assert.Less(t, over, delay)
}

func TestFollowerOfADelayedLeaderLagsBehind(t *testing.T) {
	const delay = 600 * time.Millisecond
	e := proxied(t)
	lead := leader(t, e)
	follower := (lead + 1) % 3
	late, other := only(t, e, follower), only(t, e, (lead+2)%3)
	works(t, late)
	works(t, other)

	e.Member(lead).DelayTo(follower, delay)
	began := time.Now()
	create(t, other, "/news")
	early := exists(t, late, "/news")
	require.False(t, early && time.Since(began) < delay)
	hang.Until(t, func() bool { return exists(t, late, "/news") }, "the follower does not see the news")

	assert.GreaterOrEqual(t, time.Since(began), delay)
}

func TestFaultsNeedTheirOptions(t *testing.T) {
	m := zktest.New(t, nil).Member(0)
	assert.Nil(t, m.ClientProxy())
	assert.Nil(t, m.PeerProxy(0))
	assert.Panics(t, m.CutPeers)
	assert.Panics(t, m.HealPeers)
	assert.Panics(t, func() { m.CutFrom(0) })
	assert.Panics(t, func() { m.HealFrom(0) })
	assert.Panics(t, func() { m.DelayTo(0, time.Second) })
}
