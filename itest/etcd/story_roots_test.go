package etcd

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/semaphore"
)

// nestedRoots uses roots of which one begins with the other.
func nestedRoots(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	for _, roots := range [][2]string{
		{"fairlock", "fairlock/team"}, {"a/b", "a/b/team"}, {"a", "a/%team"}, {"a%", "a%2Fteam"}, {"/a", "/a/team"},
	} {
		outer, inner := newClient(t, roots[0], recipetest.CalmTTL).open(t, client), newClient(t, roots[1], recipetest.CalmTTL).open(t, client)
		held := inner.Lock(t, "x")
		permit, err := semaphore.New(inner.Session, "pool", 2).Acquire(recipetest.Bounded(t), 1)
		require.NoError(t, err)
		for _, name := range []string{"team", "team/x", "%team", "%beside", "team/%beside/pool", "x", "pool"} {
			h, err := mutex.New(outer.Session, name).TryLock(recipetest.Bounded(t))
			if assert.NoError(t, err, "the lock %q of the root %q is free", name, roots[0]) {
				recipetest.Unlock(t, h)
			}
		}
		names, err := outer.Names(recipetest.Bounded(t), "")
		require.NoError(t, err)
		assert.Empty(t, names, "the locks of the root %q are not those of %q", roots[1], roots[0])
		names, err = inner.Names(recipetest.Bounded(t), "")
		require.NoError(t, err)
		assert.Equal(t, []string{"pool", "x"}, names)
		recipetest.Unlock(t, permit)
		recipetest.Unlock(t, held)
	}
}
