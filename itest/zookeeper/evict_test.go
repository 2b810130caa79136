package zookeeper

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// TestEvictDistinguishesNodesOfOneName: a folder that was removed and made again gives
// the same numbers, and the names that some programs use contain nothing else.
func TestEvictDistinguishesNodesOfOneName(t *testing.T) {
	e, root := shared(t)
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	conn := e.Client(t)
	for _, dir := range []string{root, root + "/x"} {
		_, err := conn.Create(dir, nil, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	put := func() string {
		path, err := conn.Create(root+"/x/lock-", nil, zk.FlagSequence|zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		return path
	}
	path := put()
	evict := func(e driver.Entry) driver.Left {
		left, err := o.Leave(recipetest.Bounded(t), driver.LeaveRequest{Ref: e.Ref, Any: true})
		require.NoError(t, err)
		return left[0]
	}
	seen := o.queue(t, "x").Entries
	require.Len(t, seen, 1)
	require.NoError(t, conn.Delete(path, -1))
	require.NoError(t, conn.Delete(root+"/x", -1))
	_, err := conn.Create(root+"/x", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	require.Equal(t, path, put())

	assert.Equal(t, driver.WasGone, evict(seen[0]))
	awaitEntries(t, conn, root+"/x", 1)
	assert.Equal(t, driver.Deleted, evict(o.queue(t, "x").Entries[0]))
	awaitEntries(t, conn, root+"/x", 0)
}

func TestEvictWithoutPermissionNamesTheFolder(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	admin := asAdmin(t, e)
	private(t, admin, root, zk.PermAll)
	private(t, admin, root+"/x", zk.PermRead|zk.PermWrite|zk.PermCreate)
	_, err := admin.Create(root+"/x/lock-", nil, zk.FlagSequence|zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	p := as(newClient(t, root, recipetest.CalmTTL), goodPassword).open(t, e.Endpoints()...)
	entries, err := p.Queue(recipetest.Bounded(t), "x")
	require.NoError(t, err)
	require.Len(t, entries, 1)

	err = p.Evict(recipetest.Bounded(t), entries[0])
	require.ErrorIs(t, err, session.ErrDenied)
	require.ErrorContains(t, err, "permission DELETE on "+root+"/x is missing")
	checkSecrets(t, p, err)
	awaitEntries(t, admin, root+"/x", 1)
	p.Kept(t)
}

// TestWaitingForYieldRequestsLeavesNoFolder: neither where there was never a yield request
// nor where there was one, while the servers remove empty folders that are watched.
func TestWaitingForYieldRequestsLeavesNoFolder(t *testing.T) {
	e := zktest.New(t, &zktest.Options{ContainerCheck: 50 * time.Millisecond})
	p := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)
	sender := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)
	conn := e.Client(t)
	const dir = "/fairlock/%v2/x/asks/queue"
	for _, asked := range []bool{false, true} {
		h, err := mutex.New(p.Session, "x").Lock(recipetest.Bounded(t))
		require.NoError(t, err)
		received := make(chan error, 1)
		go func() {
			_, err := yield.Next(recipetest.Bounded(t), h)
			received <- err
		}()
		made := int64(0)
		recipetest.Until(t, "the folder is made, and made again", func() bool {
			there, stat, err := conn.Exists(dir)
			if err == nil && there && made == 0 {
				made = stat.Czxid
			}
			return err == nil && there && stat.Czxid > made
		})
		if asked {
			withdraw, err := yield.Send(recipetest.Bounded(t), sender.Session, "x", "y")
			require.NoError(t, err)
			require.NoError(t, recipetest.Wait(t, received, "the yield request"))
			both.Withdraw(t, withdraw)
			recipetest.Unlock(t, h)
		} else {
			recipetest.Unlock(t, h)
			require.ErrorIs(t, recipetest.Wait(t, received, "the end"), session.ErrUnlocked)
		}
		recipetest.Until(t, "nothing is left", func() bool {
			there, _, err := conn.Exists("/fairlock/%v2")
			return err == nil && !there
		})
	}
}

// TestReadingTheLeaderLeavesNoFolder: not where there was never a leader.
func TestReadingTheLeaderLeavesNoFolder(t *testing.T) {
	e := zktest.New(t, &zktest.Options{ContainerCheck: 50 * time.Millisecond})
	p := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)
	conn := e.Client(t)
	ctx, cancel := context.WithCancel(recipetest.Bounded(t))
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for leader, err := range election.New(p.Session, "x").Observe(ctx) {
			assert.NoError(t, err)
			assert.Zero(t, leader.Token)
		}
	}()
	recipetest.Until(t, "the folder is made", func() bool {
		there, _, err := conn.Exists("/fairlock/x")
		return err == nil && there
	})
	cancel()
	recipetest.Wait(t, done, "the end")

	recipetest.Until(t, "nothing is left", func() bool {
		there, _, err := conn.Exists("/fairlock/x")
		return err == nil && !there
	})
}
