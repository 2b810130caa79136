package zookeeper

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/semaphore"
)

// TestRootsMeet: of two roots one is below the other. A lock that both name is one queue.
// Its records are apart, below each root.
func TestRootsMeet(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	conn := e.Client(t)
	outer := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	inner := newClient(t, root+"/team", recipetest.CalmTTL).open(t, e.Endpoints()...)

	h := outer.Lock(t, "team/x")
	r := inner.Begin(recipetest.Bounded(t), "x")
	awaitEntries(t, conn, root+"/team/x", 2)
	awaitEntries(t, conn, root+"/%v2/team%2Fx/details", 1)
	r.Waits(t)
	outside, err := mutex.New(outer.Session, "team/x").Queue(recipetest.Bounded(t))
	require.NoError(t, err)
	inside, err := mutex.New(inner.Session, "x").Queue(recipetest.Bounded(t))
	require.NoError(t, err)
	require.Len(t, outside, 2)
	require.Len(t, inside, 2)
	for i := range outside {
		assert.Equal(t, outside[i].Key, inside[i].Key)
	}
	assert.False(t, outside[0].Granted.IsZero())
	assert.True(t, inside[0].Granted.IsZero(), "the record of the grant is below the other root")
	recipetest.Unlock(t, h)
	h = r.Granted(t)
	awaitEntries(t, conn, root+"/team/%v2/x/details", 1)
	assert.Empty(t, children(t, conn, root+"/%v2/team%2Fx/details"))
	names, err := outer.Names(recipetest.Bounded(t), "")
	require.NoError(t, err)
	assert.Equal(t, []string{"team/x"}, names, "a record of a queue is no name")
	names, err = inner.Names(recipetest.Bounded(t), "")
	require.NoError(t, err)
	assert.Equal(t, []string{"x"}, names)
	recipetest.Unlock(t, h)

	// The limits are apart, the permits are those of one queue.
	one, err := semaphore.New(outer.Session, "team/gpu", 1).Acquire(recipetest.Bounded(t), 1)
	require.NoError(t, err)
	two, err := semaphore.New(inner.Session, "gpu", 2).Acquire(recipetest.Bounded(t), 1)
	require.NoError(t, err)
	assert.Len(t, children(t, conn, root+"/team/gpu"), 2)
	for path, want := range map[string]string{"/%v2/team%2Fgpu": "1", "/team/%v2/gpu": "2"} {
		limit, _, err := conn.Get(root + path + "/records/limit")
		require.NoError(t, err)
		assert.Equal(t, want, strings.SplitN(string(limit), "\n", 2)[0])
	}
	recipetest.Unlock(t, one)
	recipetest.Unlock(t, two)

	// The ledgers too: how a hold of the other root ended is not known.
	robust := mutex.Options{Robust: true}
	dies := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	_, err = mutex.NewWith(dies.Session, "team/y", robust).Lock(recipetest.Bounded(t))
	require.NoError(t, err)
	require.NoError(t, dies.Close())
	h, err = mutex.NewWith(inner.Session, "y", robust).Lock(recipetest.Bounded(t))
	require.NoError(t, err)
	assert.False(t, h.PreviousDied())
	recipetest.Unlock(t, h)
	h, err = mutex.NewWith(outer.Session, "team/y", robust).Lock(recipetest.Bounded(t))
	require.NoError(t, err)
	assert.True(t, h.PreviousDied())
	recipetest.Unlock(t, h)
	outer.Kept(t)
	inner.Kept(t)
}
