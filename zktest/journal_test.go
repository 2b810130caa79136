package zktest_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/zktest"
)

// began is before all changes, whose times are whole milliseconds.
var began = time.Now().Truncate(time.Millisecond)

// next returns the next changes of a journal, without the fields that a test cannot
// predict.
func next(t *testing.T, j *zktest.Journal) (all []zktest.Change) {
	t.Helper()
	changes, err := j.Next(hang.Context(t))
	require.NoError(t, err)
	for i, c := range changes {
		if i > 0 {
			require.GreaterOrEqual(t, c.Zxid, changes[i-1].Zxid)
		}
		require.WithinRange(t, c.At, began, time.Now())
		c.Zxid, c.At = 0, time.Time{}
		all = append(all, c)
	}
	return all
}

func TestChangesReportEveryKindOfRequest(t *testing.T) {
	e := zktest.New(t, &zktest.Options{ContainerCheck: 100 * time.Millisecond})
	conn, world := e.Client(t), zk.WorldACL(zk.PermAll)
	create(t, conn, "/elsewhere")
	create(t, conn, "/a")
	_, err := conn.CreateContainer("/a/box", []byte("empty"), zk.FlagContainer, world)
	require.NoError(t, err)
	_, err = conn.Create("/a/box/plain", []byte("old"), 0, world)
	require.NoError(t, err)
	_, err = conn.Set("/a/box/plain", []byte("new"), -1)
	require.NoError(t, err)
	_, err = conn.Multi( // all or nothing: this one fails
		&zk.CreateRequest{Path: "/a/never", Acl: world}, &zk.CheckVersionRequest{Path: "/a", Version: 77})
	require.Error(t, err)
	other, err := e.NewClient(nil)
	require.NoError(t, err)
	done, err := other.Multi(
		&zk.CreateRequest{Path: "/a/seq-", Data: []byte("s"), Acl: world, Flags: zk.FlagEphemeral | zk.FlagSequence},
		&zk.SetDataRequest{Path: "/a", Data: []byte{}, Version: -1},
		&zk.SetDataRequest{Path: "/a/box", Data: []byte("full"), Version: -1},
	)
	require.NoError(t, err)
	_, err = other.Create("/a/gone", nil, zk.FlagEphemeral, world)
	require.NoError(t, err)
	require.NoError(t, conn.Delete("/a/gone", -1))
	j := e.Journal("/a")
	require.Len(t, next(t, j), 7)
	us, them := conn.SessionID(), other.SessionID()
	other.Close()
	hang.Until(t, func() bool { return !exists(t, conn, "/a/seq-0000000001") }, "the session is over")
	require.NoError(t, conn.Delete("/a/box/plain", -1)) // from now on the box is empty
	hang.Until(t, func() bool { return !exists(t, conn, "/a/box") }, "it is empty")

	assert.Len(t, next(t, j), 3, "nodes created before the last read are deleted too")
	assert.Equal(t, []zktest.Change{
		{Kind: zktest.Created, Path: "/a/box", Data: []byte("empty"), Session: us},
		{Kind: zktest.Created, Path: "/a/box/plain", Data: []byte("old"), Session: us},
		{Kind: zktest.Written, Path: "/a/box/plain", Data: []byte("new"), Session: us},
		{Kind: zktest.Created, Path: "/a/seq-0000000001", Data: []byte("s"), Owner: them, Session: them},
		{Kind: zktest.Written, Path: "/a/box", Data: []byte("full"), Session: them},
		{Kind: zktest.Created, Path: "/a/gone", Data: []byte{}, Owner: them, Session: them},
		{Kind: zktest.Deleted, Path: "/a/gone", Session: us},
		{Kind: zktest.Deleted, Path: "/a/seq-0000000001", Session: them},
		{Kind: zktest.Deleted, Path: "/a/box/plain", Session: us},
		{Kind: zktest.Deleted, Path: "/a/box"},
	}, next(t, e.Journal("/a")))
	changes, err := e.Journal("/a/").Next(hang.Context(t))
	require.NoError(t, err)
	assert.Equal(t, done[1].Stat.Mzxid, changes[3].Zxid, "both changes are of one transaction")
	assert.Len(t, next(t, e.Journal("/a/box")), 3)
}

// TestChangesAreWholeAfterLeadersHaveChanged: a member that comes back may be given
// a snapshot, and then has no log of what is in it.
func TestChangesAreWholeAfterLeadersHaveChanged(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3, Properties: map[string]string{"zookeeper.commitLogCount": "1"}})
	conn := e.Client(t)
	create(t, conn, "/a")
	j := e.Journal("/a")
	var all []zktest.Change
	for range 4 {
		var want []zktest.Change
		lead := leader(t, e)
		e.Member(lead).Kill()
		for range 3 {
			recovers(t, conn)
			path, err := conn.Create("/a/n-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
			want = append(want, zktest.Change{Kind: zktest.Created, Path: path, Data: []byte{}, Session: conn.SessionID()})
		}
		require.NoError(t, e.Member(lead).Wipe())
		require.NoError(t, e.Member(lead).Restart(hang.Context(t)))

		assert.Equal(t, want, next(t, j))
		assert.Empty(t, next(t, j))
		all = append(all, want...)
		assert.Equal(t, all, next(t, e.Journal("/a")))
	}
}

func TestTailsFollowWhatMembersWrite(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3, Config: map[string]string{"snapCount": "20"}}) // many files
	conn := e.Client(t)
	create(t, conn, "/a")
	var tails []*zktest.Tail
	for i := range e.Len() {
		tail := e.Member(i).Tail()
		t.Cleanup(func() { require.NoError(t, tail.Close()) })
		tails = append(tails, tail)
	}
	follows := func(members ...int) {
		var last int64
		for range 30 {
			stat, err := conn.Set("/a", make([]byte, 100_000), -1)
			require.NoError(t, err)
			require.Greater(t, stat.Mzxid, last)
			last = stat.Mzxid
		}
		for _, i := range members {
			hang.Until(t, func() bool {
				got, err := tails[i].Last()
				require.NoError(t, err)
				return got >= last
			}, "the tail does not follow")
		}
	}
	follows(0, 1, 2)
	for range 2 {
		lead := leader(t, e)
		e.Member(lead).Kill()
		recovers(t, conn)
		follows((lead+1)%3, (lead+2)%3)
		require.NoError(t, e.Member(lead).Restart(hang.Context(t)))
		recovers(t, conn)
		follows(0, 1, 2)
	}
}
