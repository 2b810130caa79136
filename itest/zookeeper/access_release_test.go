package zookeeper

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zktest"
)

// TestAUsedUpByteQuotaDelaysNoRelease: a release needs to delete, and nothing
// else. What it writes as a hint is left out when a quota forbids it.
func TestAUsedUpByteQuotaDelaysNoRelease(t *testing.T) {
	t.Parallel()
	for name, skip := range map[string]string{"PermissionsEnforced": "no", "PermissionsSkipped": "yes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := zktest.New(t, &zktest.Options{Properties: map[string]string{
				"zookeeper.enforceQuota": "true", "zookeeper.skipACL": skip,
			}})
			t.Run("TheMostThatGoTogether", func(t *testing.T) {
				for try := 0; !manyUnderQuota(t, e, fmt.Sprint("/many", try)); try++ {
					require.NoError(t, t.Context().Err())
				}
			})
			for name, take := range both.Acquirers() {
				t.Run(name, func(t *testing.T) { releaseUnderQuota(t, e, "/"+name, take) })
			}
		})
	}
}

func releaseUnderQuota(t *testing.T, e *zktest.Ensemble, root string, take both.Acquirer) {
	conn := e.Client(t)
	p := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	held, err := take(recipetest.Bounded(t), p.Session, "x")
	require.NoError(t, err)
	next := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	useUpBytes(t, conn, root)
	require.ErrorIs(t, second(take(recipetest.Bounded(t), next.Session, "x")), session.ErrRefused, "no byte is left")

	recipetest.Unlock(t, held)
	awaitEmpty(t, conn, root)
	lift(t, conn, root)
	again, err := take(recipetest.Bounded(t), next.Session, "x")
	require.NoError(t, err)
	assert.False(t, again.PreviousDied())
	recipetest.Unlock(t, again)
	p.Kept(t)
}

// manyUnderQuota counts the transactions of a release of as many locks as there can be. It
// reports whether it could count: a release that is not answered in its time is sent again.
func manyUnderQuota(t *testing.T, e *zktest.Ensemble, root string) bool {
	t.Helper()
	conn, w := e.Client(t), &wire{}
	p := newClient(t, root, recipetest.CalmTTL)
	p.opts.Dial = w.dial
	p.open(t, e.Endpoints()...)
	var locks []*mutex.Mutex
	for i := range p.Info().MaxJoin {
		locks = append(locks, mutex.New(p.Session, fmt.Sprint("x", i)))
	}
	h, err := mutex.LockAll(recipetest.Bounded(t), locks...)
	require.NoError(t, err)
	useUpBytes(t, conn, root)
	w.forget()

	counts := answered(t, h.Unlock())
	if counts {
		assert.LessOrEqual(t, w.count(func(f zkframe.Frame) bool { return f.Op() == zkframe.OpMulti && !proves(f) }), 2,
			"with the release notices, and without them")
	}
	awaitEmpty(t, conn, root)
	p.Kept(t)
	return counts
}

// useUpBytes sets a quota on a folder that leaves no byte.
func useUpBytes(t *testing.T, conn *zk.Conn, path string) {
	useUp(t, conn, path, "byteHardLimit=1;countHardLimit=-1")
}

// useUp sets a quota on a folder, of which more is used than it allows.
func useUp(t *testing.T, conn *zk.Conn, path, quota string) {
	for i := range path {
		if i > 0 && path[i] == '/' {
			_, err := conn.Create("/zookeeper/quota"+path[:i], nil, 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err)
		}
	}
	for _, node := range []struct{ path, data string }{
		{"/zookeeper/quota" + path, ""},
		{"/zookeeper/quota" + path + "/zookeeper_limits", "count=-1,bytes=-1=;" + quota},
		{"/zookeeper/quota" + path + "/zookeeper_stats", "count=100,bytes=100000"},
	} {
		_, err := conn.Create(node.path, []byte(node.data), 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err, node.path)
	}
}

// lift removes a quota.
func lift(t *testing.T, conn *zk.Conn, path string) {
	for _, node := range []string{"/zookeeper_limits", "/zookeeper_stats", ""} {
		require.NoError(t, conn.Delete("/zookeeper/quota"+path+node, -1))
	}
}

// TestRecordsThatMayNotBeDeletedDelayNoRelease: a release deletes the nodes next to the
// queue with the entry if the session may delete them. Otherwise it deletes only the entry.
func TestRecordsThatMayNotBeDeletedDelayNoRelease(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	conn := e.Client(t)
	for name, take := range both.Acquirers() {
		p := newClient(t, root+"-"+name, recipetest.CalmTTL).open(t, e.Endpoints()...)
		h, err := take(recipetest.Bounded(t), p.Session, "x")
		require.NoError(t, err, name)
		if strings.HasSuffix(name, "all") {
			awaitEntries(t, conn, root+"-"+name+"/%v2/x-2/details", 1)
		}
		forbidDeletes(t, conn, root+"-"+name+"/%v2")

		recipetest.Unlock(t, h)
		for _, lock := range []string{"/x", "/x-2"} {
			awaitEmpty(t, conn, root+"-"+name+lock)
		}
		if strings.HasPrefix(name, "robust") { // its name stays in the ledger: that errs on the safe side
			again, err := take(recipetest.Bounded(t), p.Session, "x")
			require.NoError(t, err)
			assert.True(t, again.PreviousDied())
			assert.Contains(t, p.Log.String(), "a record cannot be changed; went on without")
			recipetest.Unlock(t, again)
		}
		p.Kept(t)
	}
}

// forbidDeletes removes the permission DELETE from a folder, if it exists, and from all
// below it.
func forbidDeletes(t *testing.T, conn *zk.Conn, dir string) {
	for _, child := range children(t, conn, dir) {
		forbidDeletes(t, conn, dir+"/"+child)
	}
	_, err := conn.SetACL(dir, zk.WorldACL(zk.PermRead|zk.PermWrite|zk.PermCreate|zk.PermAdmin), -1)
	if !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) { // nothing there, or no folder
		require.NoError(t, err, dir)
	}
}
