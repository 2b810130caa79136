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
	witness.Sees(t, 2)
	last := one.Begin(recipetest.Bounded(t), "x")
	witness.Sees(t, 3)
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
	witness.SeesNothingLeft(t)
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
	witness.SeesNothingLeft(t)
}
