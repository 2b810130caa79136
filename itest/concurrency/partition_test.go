package concurrency_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	etcd "go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fairlock/fairlock/compat/concurrency"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// direct returns a client that goes past the proxies, to these members or to all.
func (f *fixture) direct(members ...int) *clientv3.Client {
	f.t.Helper()
	var endpoints []string
	for i := range f.cluster.Len() {
		endpoints = append(endpoints, f.cluster.Member(i).Direct())
	}
	if len(members) > 0 {
		endpoints = nil
		for _, i := range members {
			endpoints = append(endpoints, f.cluster.Member(i).Direct())
		}
	}
	client, err := f.cluster.NewClient(func(cfg *clientv3.Config) { cfg.Endpoints = endpoints })
	require.NoError(f.t, err)
	f.t.Cleanup(func() { assert.NoError(f.t, client.Close()) })
	return client
}

// TestAPartitionEndsTheHolderBeforeAnotherHolds, which uses etcd's package.
func TestAPartitionEndsTheHolderBeforeAnotherHolds(t *testing.T) {
	f := newFixture(t, &etcdtest.Options{Proxied: true})
	s := f.session(concurrency.WithTTL(2))
	m, e := concurrency.NewMutex(s, "a"), concurrency.NewElection(s, "e")
	require.NoError(t, m.Lock(f.soon()))
	require.NoError(t, e.Campaign(f.soon(), "leader"))
	h, leads := m.Hold(), e.Hold()
	f.client = f.direct()
	other, err := etcd.NewSession(f.client, etcd.WithTTL(30))
	require.NoError(t, err)
	defer other.Close()
	locks := inBackground(func() error { return etcd.NewMutex(other, "a").Lock(f.soon()) })
	f.queued("a/", 2)
	f.cluster.Member(0).ClientProxy().Hold(fault.Both)
	defer f.cluster.Member(0).ClientProxy().Heal(fault.Both)

	require.NoError(t, recipetest.Wait(t, locks, "the lock"))
	assert.Zero(t, h.Remaining())
	assert.Zero(t, leads.Remaining())
	for _, done := range []<-chan struct{}{h.Context().Done(), leads.Context().Done(), s.Ctx().Done(), s.Done()} {
		recipetest.Wait(t, done, "the end")
	}
	require.ErrorIs(t, m.Unlock(f.soon()), concurrency.ErrSessionExpired)
	require.ErrorIs(t, m.Lock(f.soon()), concurrency.ErrSessionExpired)
}

// TestAnUnlockInAPartitionIsFinishedAfterIt: a partition that is shorter than the TTL ends nothing.
func TestAnUnlockInAPartitionIsFinishedAfterIt(t *testing.T) {
	f := newFixture(t, &etcdtest.Options{Proxied: true})
	s := f.session(concurrency.WithTTL(600))
	m, e := concurrency.NewMutex(s, "a"), concurrency.NewElection(s, "e")
	waits := concurrency.NewMutex(f.session(concurrency.WithTTL(600)), "a")
	require.NoError(t, m.Lock(f.soon()))
	require.NoError(t, e.Campaign(f.soon(), "leader"))
	leads := e.Hold()
	locks := inBackground(func() error { return waits.Lock(f.soon()) })
	f.queued("a/", 2)
	proxy := f.cluster.Member(0).ClientProxy()
	proxy.Hold(fault.Both)
	require.NoError(t, m.Unlock(f.soon()))
	blocked(t, locks)
	proxy.Heal(fault.Both)

	require.NoError(t, recipetest.Wait(t, locks, "the place in the queue"))
	f.queued("a/", 1)
	assert.Equal(t, []string{waits.Key()}, f.keys("a/"))
	require.NoError(t, leads.Context().Err())
	require.NoError(t, e.Proclaim(f.soon(), "still"))
	require.NoError(t, waits.Unlock(f.soon()))
	require.NoError(t, s.Close())
}

// TestAMemberThatIsCutOffEndsNothing: each member in turn is cut off from its peers, and clients
// still reach it.
func TestAMemberThatIsCutOffEndsNothing(t *testing.T) {
	f := newFixture(t, &etcdtest.Options{Members: 3, Proxied: true})
	s := f.session(concurrency.WithTTL(600))
	m, e := concurrency.NewMutex(s, "a"), concurrency.NewElection(s, "e")
	require.NoError(t, e.Campaign(f.soon(), "leader"))
	for i := range f.cluster.Len() {
		f.cluster.Member(i).CutPeers()
		require.NoError(t, m.Lock(f.soon()))
		locks := inBackground(func() error { return m.Lock(f.soon()) })
		require.NoError(t, m.Unlock(f.soon()))
		require.NoError(t, recipetest.Wait(t, locks, "the second"))
		require.NoError(t, m.Unlock(f.soon()))
		require.NoError(t, e.Proclaim(f.soon(), "still"))
		f.cluster.Member(i).HealPeers()
	}
	require.NoError(t, s.Ctx().Err())
	require.NoError(t, e.Hold().Context().Err())
}

// TestObserveLeavesAMemberThatIsCutOff: it would never report a change.
func TestObserveLeavesAMemberThatIsCutOff(t *testing.T) {
	f := newFixture(t, &etcdtest.Options{Members: 3, Proxied: true})
	leads := concurrency.NewElection(f.sessionOn(f.direct(1, 2), concurrency.WithTTL(600)), "e")
	require.NoError(t, leads.Campaign(f.soon(), "one"))
	for i := 1; i < 3; i++ { // so that the watch is at the first member
		f.cluster.Member(i).ClientProxy().Refuse(true)
		f.cluster.Member(i).ClientProxy().Reset()
	}
	ctx, cancel := context.WithCancel(f.soon())
	defer cancel()
	observes := concurrency.NewElection(f.session(concurrency.WithTTL(600)), "e")
	seen := observes.Observe(ctx)
	sees := func(want string) { // a value is there twice if the leader has repeated a request
		t.Helper()
		for string(recipetest.Wait(t, seen, want).Kvs[0].Value) != want {
		}
	}
	sees("one")
	require.NoError(t, leads.Proclaim(f.soon(), "two"))
	sees("two")

	f.cluster.Member(0).CutPeers()
	defer f.cluster.Member(0).HealPeers()
	for i := 1; i < 3; i++ {
		f.cluster.Member(i).ClientProxy().Refuse(false)
	}
	require.NoError(t, leads.Proclaim(f.soon(), "three"))
	sees("three")
}

func TestASessionThatNobodyAnswersIsNotOpened(t *testing.T) {
	f := newFixture(t, &etcdtest.Options{Proxied: true})
	f.cluster.Member(0).ClientProxy().Hold(fault.Both)
	defer f.cluster.Member(0).ClientProxy().Heal(fault.Both)
	ctx, cancel := context.WithCancel(f.soon())
	cancel()
	_, err := concurrency.NewSession(f.client, concurrency.WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
	_, err = concurrency.NewSession(f.client)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
