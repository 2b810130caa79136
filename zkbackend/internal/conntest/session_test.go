package conntest_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

func TestRequestsAreAnswered(t *testing.T) {
	e, _, root := shared(t)
	c := newClient(calmTTL, e.Endpoints()...).open(t)
	ctx := bounded(t)

	a, err := c.Once(ctx, create(root+"/a", []byte("one"), zk.FlagEphemeral))
	require.NoError(t, err)
	assert.Equal(t, root+"/a", a.Ops[0].String)
	_, err = c.Once(ctx, create(root+"/a", nil, 0))
	require.ErrorIs(t, err, zk.ErrNodeExists)
	a, err = c.Repeat(ctx, set(root+"/a", []byte("two"), 0))
	require.NoError(t, err)
	assert.EqualValues(t, 1, a.Ops[0].Stat.Version)
	a, err = c.Once(ctx, conn.Multi(
		&zk.CheckVersionRequest{Path: root + "/a", Version: 1},
		&zk.DeleteRequest{Path: root + "/b", Version: -1},
		&zk.DeleteRequest{Path: root + "/a", Version: -1},
	))
	require.ErrorIs(t, err, zk.ErrNoNode)
	assert.Equal(t, 1, a.Failed)
	all, err := c.Read(ctx, conn.Sync(), conn.Children(root), conn.Get(root+"/a"), conn.Exists(root+"/b"))
	require.NoError(t, err)
	require.Len(t, all, 4)
	assert.Equal(t, []string{"a"}, all[1].Children)
	assert.Equal(t, "two", string(all[2].Data))
	assert.Equal(t, c.Owner(), all[2].Stat.EphemeralOwner)
	require.ErrorIs(t, all[3].Err, zk.ErrNoNode)
	assert.True(t, c.Standalone())
	assert.Equal(t, calmTTL, c.TTL())

	require.NoError(t, c.Close(ctx))
	_, err = c.Read(ctx, conn.Sync())
	require.Error(t, err)
}

func TestAWatchReportsWhatHappens(t *testing.T) {
	e, admin, root := shared(t)
	c := newClient(calmTTL, e.Endpoints()...).open(t)
	data, _ := c.watch(conn.WatchData, root)
	got := data.next(t)
	require.Equal(t, conn.Armed, got.Kind)
	names, _ := c.watch(conn.WatchChildren, root)
	require.Equal(t, conn.Armed, names.next(t).Kind)
	none, _ := c.watch(conn.WatchData, root+"/none")
	got = none.next(t)
	assert.Equal(t, conn.Refused, got.Kind)
	require.ErrorIs(t, got.Answer.Err, zk.ErrNoNode)

	_, err := admin.Create(root+"/a", nil, 0, open)
	require.NoError(t, err)
	assert.Equal(t, conn.Notice{Kind: conn.Fired, Event: zk.EventNodeChildrenChanged}, names.next(t))
	_, err = admin.Set(root, []byte("x"), -1)
	require.NoError(t, err)
	assert.Equal(t, conn.Notice{Kind: conn.Fired, Event: zk.EventNodeDataChanged}, data.next(t))
	again, _ := c.watch(conn.WatchChildren, root+"/a")
	require.Equal(t, conn.Armed, again.next(t).Kind)
	require.NoError(t, admin.Delete(root+"/a", -1))
	assert.Equal(t, conn.Notice{Kind: conn.Fired, Event: zk.EventNodeDeleted}, again.next(t))
	assert.Empty(t, names)
}
