package zookeeper

import (
	"context"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/zktest"
)

func TestTheQueueIsSharedWithCuratorAndGoZooKeeper(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	p := newClient(t, root, recipetest.EventTTL).open(t, e.Endpoints()...)
	curator := startCurator(t, e)
	c := &crowd{e: e, fair: p, theirs: map[string]*program{"curator": curator}}
	c.rotations(t, "fairlock", "curator", "gozk")
	t.Run("ForeignChildrenAreIgnored", func(t *testing.T) {
		admin := e.Client(t)
		for _, name := range []string{"", "/README", "/config", "/_c_x", "/lock-12345678901", "/__lock__x"} {
			data := []byte("x")
			if name == "" { // the queue
				data = nil
			}
			_, err := admin.Create(root+"/plain"+name, data, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err, name)
		}
		// Curator sorts these behind all entries. zk.Lock fails at them.
		c.oneQueue(t, "plain", []string{"curator", "fairlock", "fairlock", "curator", "fairlock"})
		assert.Len(t, children(t, admin, root+"/plain"), 5)
	})
	t.Run("CuratorRevokes", func(t *testing.T) { curatorRevokes(t, e, root, curator, false) })
	t.Run("CuratorRevokesWherePermissionsDoNotCount", func(t *testing.T) {
		curatorRevokes(t, zktest.New(t, lax()), root, curator, true)
	})
	t.Run("CuratorsReadWriteLockIsWaitedFor", func(t *testing.T) { otherProtocolIsWaitedFor(t, root, curator, "write") })
	p.Kept(t)
	// The last: it kills Curator.
	t.Run("CuratorsHolderIsKilled", func(t *testing.T) { curatorIsKilled(t, root, curator, p) })
}

// lax are servers that do not enforce permissions: any client can write our entries there.
func lax() *zktest.Options {
	return &zktest.Options{Properties: map[string]string{"zookeeper.skipACL": "yes"}}
}

// curatorRevokes is about Curator's way to ask a holder to yield: it writes into
// the holder's entry. Ours do not yield, and nothing else comes of it, whether
// the servers let it write or not.
func curatorRevokes(t *testing.T, e *zktest.Ensemble, root string, curator *program, writable bool) {
	monitor := monitorOf(t, e, root+"/revoked")
	one, two := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...), newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	h := one.Lock(t, "revoked")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leaver := one.Begin(ctx, "revoked")
	monitor.Sees(t, 2)
	next := two.Begin(recipetest.Bounded(t), "revoked")
	monitor.Sees(t, 3)
	theirs := curator.open(t, "mutex", root+"/revoked", e.Member(0).Direct())
	theirs.command(t, "acquire")
	monitor.Sees(t, 4)
	behind := two.Begin(recipetest.Bounded(t), "revoked")
	entries := monitor.Sees(t, 5)
	revoker := curator.open(t, "mutex", root+"/revoked", e.Member(0).Direct())
	revoke := func(i int) {
		revoker.command(t, "revoke", entries[i])
		if writable || i == 3 {
			revoker.answer(t, "revoked")
		} else {
			assert.Contains(t, strings.Join(revoker.answer(t, "failed"), " "), "NoAuth")
		}
	}
	for range 3 { // a watch fires once, and must be made again
		for i := range entries {
			revoke(i)
		}
	}
	data, _, err := monitor.admin.Get(recipetest.Refs(h)[0].Key)
	require.NoError(t, err)
	assert.Equal(t, writable, string(data) == "__REVOKE__")
	shown, err := mutex.New(one.Session, "revoked").Queue(recipetest.Bounded(t))
	require.NoError(t, err)
	require.Len(t, shown, 5)
	assert.EqualValues(t, h.Token(), shown[0].Token)

	cancel()
	recipetest.Wait(t, leaver.Done, "the end of the waiter")
	monitor.SeesEnd(t, entries[1])
	revoke(2)
	next.Waits(t)
	assert.Positive(t, h.Remaining())
	require.NoError(t, context.Cause(h.Context()))
	recipetest.Unlock(t, h)
	second := next.Granted(t)
	behind.Waits(t)
	assert.Empty(t, theirs.answers)
	recipetest.Unlock(t, second)
	theirs.acquired(t)
	revoke(3) // the one ahead of ours, and Curator's own
	revoke(4)
	behind.Waits(t)
	theirs.does(t, "release")
	recipetest.Unlock(t, behind.Granted(t))
	one.Kept(t)
	two.Kept(t)
	monitor.SeesNothingLeft(t)
}

// curatorIsKilled: the process of a holder is killed, and its entry ends with its session.
func curatorIsKilled(t *testing.T, root string, curator *program, p *lockClient) {
	e, _ := shared(t)
	monitor := monitorOf(t, e, root+"/killed")
	holder, waiter := curator.open(t, "mutex", root+"/killed"), curator.open(t, "mutex", root+"/killed")
	holder.command(t, "acquire")
	_, token := holder.acquired(t)
	waiter.command(t, "acquire")
	entries := monitor.Sees(t, 2)
	next := p.Begin(recipetest.Bounded(t), "killed")
	monitor.Sees(t, 3)
	killed := recipetest.Now()
	curator.process.Halt()
	h := next.Granted(t) // by an event
	gone := max(monitor.SeesEnd(t, entries[0]), monitor.SeesEnd(t, entries[1]))

	assert.Greater(t, int64(h.Token()), token)
	t.Logf("their entries were gone %s after their end, ours granted %s after that", gone.Sub(killed), next.At.Sub(gone))
	recipetest.Unlock(t, h)
	monitor.SeesNothingLeft(t)
}

// otherProtocolIsWaitedFor has entries of another protocol in a queue of ours: their owners
// do not see our entries. Ours wait behind them.
func otherProtocolIsWaitedFor(t *testing.T, root string, other *program, kind string) {
	e, _ := shared(t)
	p := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	monitor := monitorOf(t, e, root+"/mixed")
	theirs := other.open(t, kind, root+"/mixed")
	theirs.command(t, "acquire")
	theirs.acquired(t)
	monitor.Sees(t, 1)
	one := p.Begin(recipetest.Bounded(t), "mixed")
	monitor.Sees(t, 2)
	two := p.Begin(recipetest.Bounded(t), "mixed")
	monitor.Sees(t, 3)
	one.Waits(t)
	theirs.does(t, "release")
	recipetest.Unlock(t, one.Granted(t))
	recipetest.Unlock(t, two.Granted(t))
	p.Kept(t)
	monitor.SeesNothingLeft(t)
}

// logged returns how many lines of a log contain a text.
func logged(p *lockClient, text string) int { return strings.Count(p.Log.String(), text) }
