package etcd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

func fullQuota(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{QuotaBytes: 16 << 20})
	client := cluster.Client(t)
	monitor := watchPrefix(t, client, "root/")
	one, two := newClient(t, "root", recipetest.CalmTTL).open(t, client), newClient(t, "root", recipetest.CalmTTL).open(t, client)
	held := one.Lock(t, "x")
	waiting := two.Begin(recipetest.Bounded(t), "x")
	monitor.Sees(t, 2)
	last := one.Begin(recipetest.Bounded(t), "x")
	monitor.Sees(t, 3)
	_, err := client.Put(recipetest.Bounded(t), "root/y/by-hand", "")
	require.NoError(t, err)
	useUpQuota(t, client)

	watch := metronome.Begin(t)
	_, err = etcdbackend.Open(recipetest.Bounded(t), client, &one.opts)
	require.ErrorIs(t, err, session.ErrRefused)
	assert.ErrorContains(t, err, "NOSPACE")
	assert.ErrorContains(t, err, "disarm")
	t.Log(err)
	for _, try := range []func(*mutex.Mutex) error{
		func(m *mutex.Mutex) error { return second(m.Lock(recipetest.Bounded(t))) },
		func(m *mutex.Mutex) error { return second(m.TryLock(recipetest.Bounded(t))) },
		func(m *mutex.Mutex) error {
			return m.Do(recipetest.Bounded(t), func(context.Context, *session.Hold) error { return nil })
		},
	} {
		err := try(mutex.New(one.Session, "new"))
		require.ErrorIs(t, err, session.ErrRefused)
		assert.ErrorContains(t, err, "NOSPACE")
	}
	assert.Less(t, watch.Passed(), recipetest.Patience, "none goes on until its context ends")
	tool := readsAndEvicts(t, client)
	recipetest.Unlock(t, held)
	long := waiting.Granted(t)
	recipetest.Until(t, "a record of the grant that etcd refuses", func() bool {
		return strings.Contains(two.Log.String(), "a request is sent again without its optional parts")
	})
	recipetest.Unlock(t, long) // its grant is not recorded
	recipetest.Unlock(t, last.Granted(t))
	assert.Empty(t, warnings(two.Log.String()), "the log of the session that could not record")
	monitor.SeesNothingLeft(t)

	makeRoom(t, cluster, client)
	recipetest.Unlock(t, one.Lock(t, "new"))
	three := newClient(t, "root", recipetest.CalmTTL).open(t, client)
	recipetest.Unlock(t, three.Lock(t, "new"))
	recipetest.Released(t, mutex.New(tool, "new").Do(recipetest.Bounded(t), func(context.Context, *session.Hold) error { return nil }))
	one.Kept(t)
	two.Kept(t)
	monitor.SeesNothingLeft(t)
}

// readsAndEvicts opens a session for tools on the full store, and evicts an entry with it.
func readsAndEvicts(t *testing.T, client *clientv3.Client) *session.Session {
	o := etcdbackend.Options{Root: "root", Session: session.Options{TTL: recipetest.CalmTTL}}
	session.Engine(door.Key{}).ForTools(&o.Session)
	s, err := etcdbackend.Open(recipetest.Bounded(t), client, &o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	health := s.Health()
	assert.False(t, health.Ready)
	require.ErrorIs(t, health.Err, session.ErrRefused)
	names, err := s.Names(recipetest.Bounded(t), "")
	require.NoError(t, err)
	assert.Equal(t, []string{"x", "y"}, names)
	queue, err := s.Queue(recipetest.Bounded(t), "y")
	require.NoError(t, err)
	require.Len(t, queue, 1)
	_, err = mutex.New(s, "new").TryLock(recipetest.Bounded(t))
	require.ErrorIs(t, err, session.ErrRefused)
	require.NoError(t, s.Evict(recipetest.Bounded(t), queue[0]))
	return s
}

// withLedgers returns the mutexes whose queue keeps a ledger.
func withLedgers(s *session.Session) []*mutex.Mutex {
	return []*mutex.Mutex{
		mutex.NewWith(s, "robust", mutex.Options{Robust: true}),
		mutex.NewWith(s, "delayed", mutex.Options{LockDelay: time.Second}),
		mutex.NewWith(s, "both", mutex.Options{Robust: true, LockDelay: time.Second}),
	}
}

// fullRobust releases mutexes whose queue keeps a ledger on a cluster whose quota
// is used up. A waiter that needs the ledger is refused, and does not block the
// waiter behind it, which needs none.
func fullRobust(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{QuotaBytes: 16 << 20})
	client := cluster.Client(t)
	one, two := newClient(t, "root", recipetest.CalmTTL).open(t, client), newClient(t, "root", recipetest.CalmTTL).open(t, client)
	var held []*session.Hold
	var robust, plain []*recipetest.Request
	for i, m := range withLedgers(one.Session) {
		h, err := m.Lock(recipetest.Bounded(t))
		require.NoError(t, err)
		held = append(held, h)
		robust = append(robust, two.BeginWith(func() (*session.Hold, error) { return withLedgers(two.Session)[i].Lock(recipetest.Bounded(t)) }))
		one.Queued(t, m.Name(), 2)
		plain = append(plain, two.Begin(recipetest.Bounded(t), m.Name()))
		one.Queued(t, m.Name(), 3)
	}
	useUpQuota(t, client)

	for i, h := range held {
		recipetest.Unlock(t, h) // a release only deletes
		recipetest.Wait(t, robust[i].Done, "the end of Lock")
		require.ErrorIs(t, robust[i].Err, session.ErrRefused, "the waiter cannot enter its name")
		require.ErrorContains(t, robust[i].Err, "NOSPACE")
		recipetest.Unlock(t, plain[i].Granted(t)) // the entry of the refused waiter is gone
	}
	makeRoom(t, cluster, client)
	for _, m := range withLedgers(two.Session) {
		h, err := m.Lock(recipetest.Bounded(t))
		require.NoError(t, err)
		assert.False(t, h.PreviousDied(), "every holder before has released")
		recipetest.Unlock(t, h)
	}
	one.Kept(t)
	two.Kept(t)
}

// useUpQuota writes until the server refuses writes.
func useUpQuota(t *testing.T, client *clientv3.Client) {
	t.Helper()
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		_, err = client.Put(recipetest.Bounded(t), fmt.Sprint("fill", i), strings.Repeat("x", 1<<20))
	}
	require.ErrorIs(t, err, rpctypes.ErrNoSpace)
}

// makeRoom does what an operator does about a quota that is used up.
func makeRoom(t *testing.T, cluster *etcdtest.Cluster, client *clientv3.Client) {
	t.Helper()
	_, err := client.Put(recipetest.Bounded(t), "fill", "")
	require.ErrorIs(t, err, rpctypes.ErrNoSpace, "all the time")
	gone, err := client.Delete(recipetest.Bounded(t), "fill", clientv3.WithPrefix())
	require.NoError(t, err)
	_, err = client.Compact(recipetest.Bounded(t), gone.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	_, err = client.Defragment(recipetest.Bounded(t), cluster.Endpoints()[0])
	require.NoError(t, err)
	_, err = client.AlarmDisarm(recipetest.Bounded(t), &clientv3.AlarmMember{})
	require.NoError(t, err)
}
