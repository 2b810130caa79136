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

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

// accounted are the mutexes whose queue keeps a ledger.
func accounted(s *session.Session) []*mutex.Mutex {
	return []*mutex.Mutex{
		mutex.NewWith(s, "robust", mutex.Options{Robust: true}),
		mutex.NewWith(s, "delayed", mutex.Options{LockDelay: time.Second}),
		mutex.NewWith(s, "both", mutex.Options{Robust: true, LockDelay: time.Second}),
	}
}

// queued blocks until the queue of a mutex has n entries.
func queued(t *testing.T, m *mutex.Mutex, n int) {
	t.Helper()
	recipetest.Until(t, fmt.Sprint(n, " entries of ", m.Name()), func() bool {
		line, err := m.Queue(recipetest.Bounded(t))
		require.NoError(t, err)
		return len(line) == n
	})
}

// locked is what a Lock in the background returned.
type locked struct {
	h   *session.Hold
	err error
}

// lockLater begins a Lock.
func lockLater(ctx context.Context, m *mutex.Mutex) <-chan locked {
	out := make(chan locked, 1)
	go func() {
		h, err := m.Lock(ctx)
		out <- locked{h, err}
	}()
	return out
}

// fullRobust releases mutexes whose queue keeps a ledger on a cluster whose quota
// is used up. A waiter that needs the ledger is refused, and is not in the way of
// the waiter behind it, which needs none.
func fullRobust(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{QuotaBytes: 16 << 20})
	client := cluster.Client(t)
	one, two := newClient(t, "root", recipetest.CalmTTL).open(t, client), newClient(t, "root", recipetest.CalmTTL).open(t, client)
	var held []*session.Hold
	var robust, plain []<-chan locked
	for i, m := range accounted(one.Session) {
		h, err := m.Lock(recipetest.Bounded(t))
		require.NoError(t, err)
		held = append(held, h)
		robust = append(robust, lockLater(recipetest.Bounded(t), accounted(two.Session)[i]))
		queued(t, m, 2)
		plain = append(plain, lockLater(recipetest.Bounded(t), mutex.New(two.Session, m.Name())))
		queued(t, m, 3)
	}
	mb := strings.Repeat("x", 1<<20)
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		_, err = client.Put(recipetest.Bounded(t), fmt.Sprint("fill", i), mb)
	}
	require.ErrorIs(t, err, rpctypes.ErrNoSpace)

	for i, h := range held {
		require.NoError(t, h.Unlock(), "a release only deletes")
		next := <-robust[i]
		require.ErrorIs(t, next.err, session.ErrRefused, "the waiter cannot enter its name")
		require.ErrorContains(t, next.err, "NOSPACE")
		last := <-plain[i]
		require.NoError(t, last.err, "the entry of the refused waiter is gone")
		require.NoError(t, last.h.Unlock())
	}
	_, err = client.Put(recipetest.Bounded(t), "fill", "")
	require.ErrorIs(t, err, rpctypes.ErrNoSpace, "all the time")

	makeRoom(t, cluster, client)
	for _, m := range accounted(two.Session) {
		h, err := m.Lock(recipetest.Bounded(t))
		require.NoError(t, err)
		assert.False(t, h.PreviousDied(), "every holder before has released")
		require.NoError(t, h.Unlock())
	}
	one.Kept(t)
	two.Kept(t)
}

// makeRoom is what an operator does about a quota that is used up.
func makeRoom(t *testing.T, cluster *etcdtest.Cluster, client *clientv3.Client) {
	t.Helper()
	gone, err := client.Delete(recipetest.Bounded(t), "fill", clientv3.WithPrefix())
	require.NoError(t, err)
	_, err = client.Compact(recipetest.Bounded(t), gone.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	_, err = client.Defragment(recipetest.Bounded(t), cluster.Endpoints()[0])
	require.NoError(t, err)
	_, err = client.AlarmDisarm(recipetest.Bounded(t), &clientv3.AlarmMember{})
	require.NoError(t, err)
}
