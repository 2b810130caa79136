package zookeeper

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// joinsOf returns the calls that join a queue, of all recipes.
func joinsOf(s *session.Session, name string) map[string]func(context.Context) (*session.Hold, error) {
	m, rw, sem := mutex.New(s, name), rwlock.New(s, name), semaphore.New(s, name, 2)
	return map[string]func(context.Context) (*session.Hold, error){
		"Lock": m.Lock, "TryLock": m.TryLock, "RLock": rw.RLock, "TryRLock": rw.TryRLock,
		"LockAll": func(ctx context.Context) (*session.Hold, error) {
			return mutex.LockAll(ctx, mutex.New(s, name+"-free"), m)
		},
		"Acquire":    func(ctx context.Context) (*session.Hold, error) { return sem.Acquire(ctx, 1) },
		"TryAcquire": func(ctx context.Context) (*session.Hold, error) { return sem.TryAcquire(ctx, 1) },
		"Campaign":   func(ctx context.Context) (*session.Hold, error) { return election.New(s, name).Campaign(ctx, "a") },
	}
}

// TestANodeWithDataOfAnotherProgramIsLeftAlone: a lock's name can be the path of any node. Nothing
// changes there, not even its version.
func TestANodeWithDataOfAnotherProgramIsLeftAlone(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	conn := e.Client(t)
	folder(t, conn, root)
	const precious = "precious"
	path, err := conn.Create(root+"/config", []byte(precious), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, before, err := conn.Get(path)
	require.NoError(t, err)
	p := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	calls := joinsOf(p.Session, "config")
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		for range 2 {
			err := second(calls[name](recipetest.Bounded(t)))
			require.ErrorIs(t, err, session.ErrRefused, name)
			assert.ErrorContains(t, err, "the node "+path+" has 8 bytes of data of another program", name)
		}
		data, after, err := conn.Get(path)
		require.NoError(t, err, name)
		assert.Equal(t, precious, string(data), name)
		assert.Equal(t, before, after, name)
	}
	_, err = p.Session.Queue(recipetest.Bounded(t), "config")
	require.NoError(t, err)
	recipetest.Unlock(t, p.Lock(t, "config/below")) // that changes nothing of what it lies in
	data, _, err := conn.Get(path)
	require.NoError(t, err)
	assert.Equal(t, precious, string(data))

	_, err = conn.Set(path, nil, -1)
	require.NoError(t, err)
	recipetest.Unlock(t, p.Lock(t, "config"))
	p.Kept(t)
}
