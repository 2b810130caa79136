package zookeeper

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zktest"
)

// TestNamesLeavesOutFoldersThatMayNotBeRead: below a root that other
// applications share, one folder of theirs does not hide all locks.
func TestNamesLeavesOutFoldersThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	admin := asAdmin(t, e)
	p := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	h := p.Lock(t, "team/orders")
	private(t, admin, root+"/closed", zk.PermRead)
	private(t, admin, root+"/team/closed", zk.PermRead)

	names, err := p.Names(recipetest.Bounded(t), "")
	require.NoError(t, err)
	assert.Equal(t, []string{"team/orders"}, names)
	recipetest.Unlock(t, h)

	_, err = admin.SetACL(root, zk.DigestACL(zk.PermAll, "admin", adminPassword), -1)
	require.NoError(t, err)
	_, err = p.Names(recipetest.Bounded(t), "")
	require.ErrorIs(t, err, session.ErrDenied, "nothing is known without the root")
}

// TestContainersAndNodesWithATTLBelongToNoSession: the servers keep an owner for
// them that is none, and show 0 to clients.
func TestContainersAndNodesWithATTLBelongToNoSession(t *testing.T) {
	t.Parallel()
	e := zktest.New(t, &zktest.Options{Properties: map[string]string{"zookeeper.extendedTypesEnabled": "true"}})
	conn := e.Client(t)
	const entry = "/fairlock/x/_c_5c7cd5ab-0001-4be5-9d4f-08ea00d0dd35-lock-0000000000"
	for name, create := range map[string]func() error{
		"a container": func() error {
			return second(conn.CreateContainer(entry, nil, zk.FlagContainer, zk.WorldACL(zk.PermAll)))
		},
		"a node with a TTL": func() error {
			return second(conn.CreateTTL(entry, nil, zk.FlagTTL, zk.WorldACL(zk.PermAll), recipetest.CalmTTL*1000))
		},
	} {
		p := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)
		recipetest.Unlock(t, p.Lock(t, "x")) // makes the folder
		require.NoError(t, create(), name)

		r := p.Begin(recipetest.Bounded(t), "x")
		recipetest.Wait(t, r.Done, "an answer about "+name)
		require.ErrorIs(t, r.Err, session.ErrForeignKey, name)
		var entries []session.Entry
		recipetest.Until(t, "the entry of the lock that failed is gone", func() bool {
			var err error
			entries, err = p.Queue(recipetest.Bounded(t), "x")
			require.NoError(t, err)
			return len(entries) == 1
		})
		assert.True(t, recipetest.Detail(entries[0]).Unleased, name)
		require.NoError(t, conn.Delete(entry, -1))
		recipetest.Unlock(t, p.Lock(t, "x"))
		require.NoError(t, p.Close())
	}
}
