package zookeeper

import (
	"context"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/zktest"
)

// TestDataOfAFolderGrantsNothing: another client waits behind a holder, leaves, and writes
// into the folder that it held, as the first version of the layout did. The waiter behind it
// is not granted.
func TestDataOfAFolderGrantsNothing(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	dir := root + "/x"
	other := e.Client(t)
	one, two := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...), newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	holder := one.Lock(t, "x")
	path, err := other.Create(dir+"/0123456789abcdef-lock-", nil, zk.FlagSequence|zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	r := two.Begin(recipetest.Bounded(t), "x")
	awaitEntries(t, other, dir, 3)
	recipetest.Until(t, "a watch", func() bool { return two.watches(t, e, path) })
	_, err = other.Multi(
		&zk.DeleteRequest{Path: path, Version: -1},
		&zk.SetDataRequest{Path: dir, Data: []byte("fairlock1 " + path[len(dir)+1:]), Version: -1},
	)
	require.NoError(t, err)
	awaitEntries(t, other, dir, 2)
	recipetest.Until(t, "a watch on the holder", func() bool { return two.watches(t, e, recipetest.Refs(holder)[0].Key) })
	r.Waits(t)
	require.NoError(t, context.Cause(holder.Context()))
	recipetest.Unlock(t, holder)
	recipetest.Unlock(t, r.Granted(t))
	one.Kept(t)
	two.Kept(t)
}

// watches reports whether the server has a watch of the client on a node.
func (p *lockClient) watches(t testing.TB, e *zktest.Ensemble, path string) bool {
	t.Helper()
	text, err := e.Member(0).Command(recipetest.Bounded(t), "wchp")
	require.NoError(t, err)
	on := ""
	for line := range strings.Lines(text) {
		if session, ok := strings.CutPrefix(line, "\t"); !ok {
			on = strings.TrimSpace(line)
		} else if on == path && strings.TrimSpace(session) == p.Service() {
			return true
		}
	}
	return false
}

// TestOnlySuperWritesTheEntryOfAnother: a holder writes its entry when it releases, and the
// waiter behind it is granted. No other login may write there but "super", whose write the
// waiter behind takes for a release.
func TestOnlySuperWritesTheEntryOfAnother(t *testing.T) {
	t.Parallel()
	const user, password, root = "super", "of this test", "/sealed"
	e := zktest.New(t, &zktest.Options{Properties: map[string]string{
		"zookeeper.DigestAuthenticationProvider.superDigest": zk.DigestACL(zk.PermAll, user, password)[0].ID,
	}})
	conn := e.Client(t)
	one, two, three := newClient(t, root, recipetest.CalmTTL), newClient(t, root, recipetest.CalmTTL), newClient(t, root, recipetest.CalmTTL)
	for _, p := range []*lockClient{one, two, three} {
		p.open(t, e.Endpoints()...)
	}
	holder := one.Lock(t, "x")
	second := two.Begin(recipetest.Bounded(t), "x")
	awaitEntries(t, conn, root+"/x", 2)
	third := three.Begin(recipetest.Bounded(t), "x")
	awaitEntries(t, conn, root+"/x", 3)
	queue, err := one.Queue(recipetest.Bounded(t), "x")
	require.NoError(t, err)
	recipetest.Until(t, "watches", func() bool {
		return three.watches(t, e, queue[1].Key) && three.watches(t, e, queue[2].Key)
	})
	for _, entry := range queue {
		_, err := conn.Set(entry.Key, []byte("yield"), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth, "others may not")
	}
	second.Waits(t)
	third.Waits(t)

	require.NoError(t, conn.AddAuth("digest", []byte(user+":"+password)))
	_, err = conn.Set(queue[1].Key, []byte("yield"), -1)
	require.NoError(t, err)
	h := third.Granted(t)
	require.NoError(t, context.Cause(holder.Context()))
	assert.Greater(t, h.Token(), holder.Token(), "by which a resource distinguishes them")
	recipetest.Unlock(t, h)
	recipetest.Unlock(t, holder)
	recipetest.Unlock(t, second.Granted(t))
}
