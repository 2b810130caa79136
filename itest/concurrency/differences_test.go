package concurrency_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	etcd "go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fairlock/fairlock/compat/concurrency"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

// What differs on purpose from etcd's package, see docs/concurrency.md.

func TestALossEndsTheContextsAndUnlockReportsIt(t *testing.T) {
	f := newFixture(t, nil)
	s := f.session()
	m, e := concurrency.NewMutex(s, "a"), concurrency.NewElection(s, "e")
	require.NoError(t, m.Lock(f.soon()))
	require.NoError(t, e.Campaign(f.soon(), "leader"))
	h, leads := m.Hold(), e.Hold()
	assert.Equal(t, h.Token(), session.Token(f.created(m.Key())))
	assert.True(t, f.holds(m))
	f.revoke(s)

	for _, done := range []<-chan struct{}{h.Context().Done(), leads.Context().Done(), s.Ctx().Done(), s.Done()} {
		recipetest.Wait(t, done, "the end")
	}
	require.ErrorIs(t, context.Cause(h.Context()), session.ErrLost)
	assert.False(t, f.holds(m))
	require.ErrorIs(t, m.Unlock(f.soon()), concurrency.ErrSessionExpired)
	require.ErrorIs(t, m.Unlock(f.soon()), concurrency.ErrLockReleased)
	require.ErrorIs(t, m.Lock(f.soon()), concurrency.ErrSessionExpired)
	require.ErrorIs(t, e.Proclaim(f.soon(), "again"), concurrency.ErrElectionNotLeader)
	require.ErrorIs(t, e.Campaign(f.soon(), "again"), concurrency.ErrElectionNotLeader)
	require.ErrorIs(t, s.Close(), rpctypes.ErrLeaseNotFound)
}

// TestADeletedKeyIsNotTheEndOfTheSession: the session campaigns and locks again.
func TestADeletedKeyIsNotTheEndOfTheSession(t *testing.T) {
	f := newFixture(t, nil)
	s := f.session()
	m, e := concurrency.NewMutex(s, "a"), concurrency.NewElection(s, "e")
	require.NoError(t, m.Lock(f.soon()))
	require.NoError(t, e.Campaign(f.soon(), "leader"))
	for _, key := range []string{m.Key(), e.Key()} {
		_, err := f.client.Delete(f.soon(), key)
		require.NoError(t, err)
	}
	assert.False(t, f.holds(m))
	require.ErrorIs(t, m.TryLock(f.soon()), concurrency.ErrLocked, "else Unlock would release the lock of the second caller")
	require.ErrorIs(t, m.Unlock(f.soon()), session.ErrLost)

	require.NoError(t, m.Lock(f.soon()))
	require.NoError(t, e.Campaign(f.soon(), "again"))
	assert.Equal(t, []string{m.Key()}, f.keys("a/"))
	assert.Equal(t, []string{e.Key()}, f.keys("e/"))
	require.NoError(t, m.Unlock(f.soon()))
	require.NoError(t, s.Close())
	assert.Empty(t, f.keys("e/"), "Close releases what is held, without waiting for its holder")
}

// TestMutexesOfOneSessionExcludeEachOther, and so do two callers of one Mutex.
func TestMutexesOfOneSessionExcludeEachOther(t *testing.T) {
	f := newFixture(t, nil)
	s := f.session()
	m, other := concurrency.NewMutex(s, "a"), concurrency.NewMutex(s, "a")
	require.NoError(t, m.Lock(f.soon()))
	require.Equal(t, concurrency.ErrLocked, other.TryLock(f.soon())) //nolint:testifylint // callers compare it so
	require.Equal(t, concurrency.ErrLocked, m.TryLock(f.soon()))     //nolint:testifylint // the same
	assert.Len(t, f.keys("a/"), 1, "a TryLock writes nothing")
	second := inBackground(func() error { return other.Lock(f.soon()) })
	again := inBackground(func() error { return m.Lock(f.soon()) })
	f.queued("a/", 2)
	blocked(t, second)
	require.NoError(t, m.Unlock(f.soon()))
	require.NoError(t, recipetest.Wait(t, second, "the second"))
	f.queued("a/", 2)
	blocked(t, again)
	require.NoError(t, other.Unlock(f.soon()))
	require.NoError(t, recipetest.Wait(t, again, "the first again"))
	require.NoError(t, m.Unlock(f.soon()))
	assert.Empty(t, f.keys("a/"))
}

func TestLockReturnsWithItsContextAlsoWhereEtcdDoesNotAnswer(t *testing.T) {
	f := newFixture(t, &etcdtest.Options{Proxied: true})
	m := concurrency.NewMutex(f.session(), "a")
	require.NoError(t, m.Lock(f.soon()))
	waits := concurrency.NewMutex(f.session(), "a")
	ctx, cancel := context.WithCancel(f.soon())
	locks := inBackground(func() error { return waits.Lock(ctx) })
	f.queued("a/", 2)
	proxy := f.cluster.Member(0).ClientProxy()
	proxy.Refuse(true)
	proxy.Reset()
	cancel()
	require.ErrorIs(t, recipetest.Wait(t, locks, "the end of Lock"), context.Canceled)
	proxy.Refuse(false)
	f.queued("a/", 1)
	require.NoError(t, m.Unlock(f.soon()))
}

// TestAnOrphanLeavesItsKeysToTheLease, as with etcd's package, and locks nothing more.
func TestAnOrphanLeavesItsKeysToTheLease(t *testing.T) {
	f := newFixture(t, nil)
	s := f.session()
	m := concurrency.NewMutex(s, "a")
	require.NoError(t, m.Lock(f.soon()))
	h := m.Hold()
	s.Orphan()

	require.Error(t, h.Context().Err())
	assert.Equal(t, []string{m.Key()}, f.keys("a/"))
	require.ErrorIs(t, m.Unlock(f.soon()), concurrency.ErrSessionExpired)
	require.ErrorIs(t, concurrency.NewElection(s, "e").Campaign(f.soon(), "late"), concurrency.ErrSessionExpired)
	require.NoError(t, s.Close())
	assert.Empty(t, f.keys("a/"))
}

func TestTheEndOfTheContextEndsTheSession(t *testing.T) {
	f := newFixture(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	s := f.session(concurrency.WithContext(ctx))
	m := concurrency.NewMutex(s, "a")
	require.NoError(t, m.Lock(f.soon()))
	cancel()
	recipetest.Wait(t, s.Done(), "the end of the session")
	s.Orphan() // it waits until nothing is left of the session
	assert.Len(t, f.keys("a/"), 1)
}

// TestALeaseIsTakenOverWithALeadershipAndWithoutItsLocks: those that an earlier process has left
// are in the way of nothing.
func TestALeaseIsTakenOverWithALeadershipAndWithoutItsLocks(t *testing.T) {
	f := newFixture(t, nil)
	before, err := etcd.NewSession(f.client, etcd.WithTTL(30))
	require.NoError(t, err)
	require.NoError(t, etcd.NewMutex(before, "a").Lock(f.soon()))
	leads := etcd.NewElection(before, "e")
	require.NoError(t, leads.Campaign(f.soon(), "before"))
	before.Orphan()

	s := f.session(concurrency.WithLease(before.Lease()))
	require.Equal(t, before.Lease(), s.Lease())
	m, e := concurrency.NewMutex(s, "a"), concurrency.NewElection(s, "e")
	require.NoError(t, m.Lock(f.soon()))
	assert.Equal(t, []string{m.Key()}, f.keys("a/"))
	require.NoError(t, e.Campaign(f.soon(), "after"))
	assert.Equal(t, leads.Key(), e.Key())
	assert.Nil(t, e.Hold())
	resp, err := e.Leader(f.soon())
	require.NoError(t, err)
	assert.Equal(t, "after", string(resp.Kvs[0].Value))
	require.NoError(t, e.Resign(f.soon()))
	assert.Empty(t, f.keys("e/"))
	require.NoError(t, e.Campaign(f.soon(), "of its own"))
	assert.NotNil(t, e.Hold())

	_, err = concurrency.NewSession(f.client, concurrency.WithLease(12345))
	require.ErrorIs(t, err, rpctypes.ErrLeaseNotFound)
}

func TestALockerPanicsOnlyForMisuse(t *testing.T) {
	f := newFixture(t, nil)
	s := f.session()
	l := concurrency.NewLocker(s, "a")
	assert.Panics(t, l.Unlock)
	l.Lock()
	locks := inBackground(func() error { l.Lock(); return nil })
	blocked(t, locks)
	l.Unlock()
	require.NoError(t, recipetest.Wait(t, locks, "the second"))
	f.revoke(s)
	recipetest.Wait(t, s.Done(), "the end of the session")
	assert.NotPanics(t, l.Unlock, "a lost lock")
	assert.Panics(t, l.Lock)
}

func TestObserveGoesOnThroughACut(t *testing.T) {
	f := newFixture(t, &etcdtest.Options{Proxied: true})
	ctx, cancel := context.WithCancel(f.soon())
	s := f.session()
	e := concurrency.NewElection(s, "e")
	seen := e.Observe(ctx)
	next := func() string {
		resp := recipetest.Wait(t, seen, "a leader")
		return string(resp.Kvs[0].Value)
	}
	_, err := e.Leader(f.soon())
	require.Equal(t, concurrency.ErrElectionNoLeader, err) //nolint:testifylint // callers compare it so
	require.NoError(t, e.Campaign(f.soon(), "one"))
	assert.Equal(t, "one", next())
	proxy := f.cluster.Member(0).ClientProxy()
	proxy.Refuse(true)
	proxy.Reset()
	proxy.Refuse(false)
	require.NoError(t, e.Proclaim(f.soon(), "two"))
	assert.Equal(t, "two", next())
	require.NoError(t, e.Resign(f.soon()))
	require.NoError(t, concurrency.NewElection(f.session(), "e").Campaign(f.soon(), "three"))
	assert.Equal(t, "three", next())
	cancel()
	for range seen {
		assert.Fail(t, "a leader after the end")
	}
}

// created returns the create revision of a key.
func (f *fixture) created(key string) int64 {
	f.t.Helper()
	resp, err := f.client.Get(f.soon(), key)
	require.NoError(f.t, err)
	require.Len(f.t, resp.Kvs, 1)
	return resp.Kvs[0].CreateRevision
}
