package etcd

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

func fullQuota(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{QuotaBytes: 16 << 20})
	client := cluster.Client(t)
	witness := watchPrefix(t, client, "root/")
	one, two := newClient(t, "root", recipetest.CalmTTL).open(t, client), newClient(t, "root", recipetest.CalmTTL).open(t, client)
	held := one.Lock(t, "x")
	waiting := two.Begin(recipetest.Bounded(t), "x")
	witness.sees(t, 2)
	last := one.Begin(recipetest.Bounded(t), "x")
	witness.sees(t, 3)
	mb := strings.Repeat("x", 1<<20)
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		_, err = client.Put(recipetest.Bounded(t), fmt.Sprint("fill", i), mb)
	}
	require.ErrorIs(t, err, rpctypes.ErrNoSpace)

	begin := time.Now()
	_, err = etcdbackend.Open(recipetest.Bounded(t), client, &one.opts)
	require.ErrorIs(t, err, session.ErrRefused)
	assert.ErrorContains(t, err, "NOSPACE")
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
	assert.Less(t, time.Since(begin), 4*time.Second, "at once")
	recipetest.Unlock(t, held)
	long := waiting.Granted(t)
	recipetest.Until(t, "a record of the grant that etcd refuses", func() bool {
		return strings.Contains(two.Log.String(), "cannot record since when a lock is held")
	})
	require.NoError(t, long.Unlock(), "a hold whose grant is not recorded")
	recipetest.Unlock(t, last.Granted(t))
	assert.NotContains(t, two.Log.String(), "level=WARN", "the log of the session that could not record")
	assert.NotContains(t, two.Log.String(), "level=ERROR", "the log of the session that could not record")
	witness.seesNothingLeft(t)
	_, err = client.Put(recipetest.Bounded(t), "fill", "")
	require.ErrorIs(t, err, rpctypes.ErrNoSpace, "all the time")

	// What the operator does.
	gone, err := client.Delete(recipetest.Bounded(t), "fill", clientv3.WithPrefix())
	require.NoError(t, err)
	_, err = client.Compact(recipetest.Bounded(t), gone.Header.Revision, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	_, err = client.Defragment(recipetest.Bounded(t), cluster.Endpoints()[0])
	require.NoError(t, err)
	_, err = client.AlarmDisarm(recipetest.Bounded(t), &clientv3.AlarmMember{})
	require.NoError(t, err)
	recipetest.Unlock(t, one.Lock(t, "new"))
	three := newClient(t, "root", recipetest.CalmTTL).open(t, client)
	recipetest.Unlock(t, three.Lock(t, "new"))
	one.Kept(t)
	two.Kept(t)
	witness.seesNothingLeft(t)
}

// TestManyLocksInOneSessionCostLittle has the server in a process of its own,
// so that what is measured here is the client's. In the first round tables grow,
// which stay when they are empty. Later, what a lock left would be there after every
// round, and what a request leaves that had no answer in time only after some.
func TestManyLocksInOneSessionCostLittle(t *testing.T) {
	const n = 2000
	cluster := etcdtest.New(t, &etcdtest.Options{Processes: true})
	var tap tap
	client := clientWith(t, cluster, tap.on)
	p := newClient(t, "root", 30*time.Second)
	p.opts.Session.Hooks.Joined = nil // what it would remember is not the client's
	p.open(t, client)
	recipetest.Unlock(t, p.Lock(t, "warm"))
	count := func() int64 {
		r, err := client.Get(recipetest.Bounded(t), "root/lock", clientv3.WithPrefix(), clientv3.WithCountOnly())
		require.NoError(t, err)
		return r.Count
	}
	before, threads := settled(t, &tap), runtime.NumGoroutine()
	var after [5]int64
	for round := range after {
		holds := make([]*session.Hold, n)
		begin := recipetest.Now()
		recipetest.Each(n, func(i int) {
			var err error
			holds[i], err = mutex.New(p.Session, fmt.Sprint("lock", i)).Lock(t.Context())
			assert.NoError(t, err)
		})
		locked := recipetest.Now()
		require.False(t, t.Failed())
		require.EqualValues(t, n, count())
		// Every entry comes to be watched when it has been held for a moment.
		recipetest.Until(t, "a watch for each", func() bool { return tap.watches.Load() >= n })
		held, heldThreads := settled(t, &tap), runtime.NumGoroutine()
		for _, h := range holds {
			assert.Positive(t, h.Valid())
		}
		unlocking := recipetest.Now()
		recipetest.Each(n, func(i int) { recipetest.Unlock(t, holds[i]) })
		unlocked := recipetest.Now()
		clear(holds)

		recipetest.Until(t, "all have gone", func() bool { return count() == 0 })
		after[round] = settled(t, &tap)
		t.Logf("%d locks taken in %s, given back in %s; %d bytes of heap for each while held, %d afterwards; goroutines %d, while held %d, afterwards %d",
			n, locked.Sub(begin), unlocked.Sub(unlocking), (held-before)/n, (after[round]-before)/n, threads, heldThreads, runtime.NumGoroutine())
		assert.Less(t, (held-before)/n, int64(6<<10), "bytes of heap for each lock that is held")
		assert.InDelta(t, threads, heldThreads, 20, "goroutines")
		assert.InDelta(t, threads, runtime.NumGoroutine(), 20, "goroutines")
	}
	p.Kept(t)
	left := min(after[4]-after[3], after[3]-after[2], after[2]-after[1])
	assert.Less(t, left/n, int64(32), "bytes of heap that each lock of the later rounds left")
}

// heap is how much is in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools are emptied by the second
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// settled returns how much heap is in use when that and the watches of a client
// have stopped to change.
func settled(t testing.TB, tap *tap) int64 {
	t.Helper()
	last, watches, still := heap(), tap.watches.Load(), 0
	for end := time.Now().Add(recipetest.Patience); time.Now().Before(end); {
		<-time.After(50 * time.Millisecond)
		h, w := heap(), tap.watches.Load()
		if still++; max(h-last, last-h) > 64<<10 || w != watches {
			still = 0
		}
		if still == 6 {
			return h
		}
		last, watches = h, w
	}
	require.Fail(t, "the heap keeps moving")
	return 0
}
