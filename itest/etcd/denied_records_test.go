package etcd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

// recordsRole gives "worker" READWRITE on the root in three parts, so that the permission on
// the records of queues can be revoked by itself. It returns functions that revoke that
// permission and grant it again.
func recordsRole(t *testing.T, root *clientv3.Client) (revoke, grant func()) {
	t.Helper()
	const beside, behind = "root/%v2/", "root/%v20"
	readWrite := func(from, to string) error {
		return second(root.RoleGrantPermission(recipetest.Bounded(t), "rw", from, to, clientv3.PermissionType(clientv3.PermReadWrite)))
	}
	grant = func() { require.NoError(t, readWrite(beside, behind)) }
	revoke = func() {
		require.NoError(t, second(root.RoleRevokePermission(recipetest.Bounded(t), "rw", beside, behind)))
	}
	require.NoError(t, readWrite("root/", beside))
	require.NoError(t, readWrite(behind, "root0"))
	grant()
	require.NoError(t, second(root.RoleRevokePermission(recipetest.Bounded(t), "rw", "root/", "root0")))
	return revoke, grant
}

// holdOfEachKind acquires one lock of each kind that has keys next to its queue.
func holdOfEachKind(t *testing.T, s *session.Session) map[string]*session.Hold {
	t.Helper()
	holds := map[string]*session.Hold{}
	for _, name := range []string{"mutex", "robust", "slots", "election", "all"} {
		h, err := both.Acquirers()[name](recipetest.Bounded(t), s, name)
		require.NoError(t, err, name)
		holds[name] = h
	}
	return holds
}

// deniedRecords releases locks of every kind after an operator has revoked the permission
// on the records of the queues. etcd refuses a whole transaction for one key, and a release
// needs only the key of the entry.
func deniedRecords(t *testing.T) {
	endpoint := etcdWithLogins(t, 300)
	withUsers(t, endpoint, "root/")
	root := loggedIn(t, endpoint, "root", nil)
	revoke, grant := recordsRole(t, root)
	one := newClient(t, "root", recipetest.CalmTTL).open(t, loggedIn(t, endpoint, "worker", nil))
	two := newClient(t, "root", recipetest.CalmTTL).open(t, loggedIn(t, endpoint, "worker", nil))
	holds := holdOfEachKind(t, one.Session)
	there, here := two.Begin(recipetest.Bounded(t), "mutex"), one.Begin(recipetest.Bounded(t), "all")
	two.Stands(t, 1)
	one.Stands(t, 6)
	for _, name := range []string{"mutex", "robust", "slots", "election", "all", "all-2"} {
		recipetest.Until(t, "a record of the grant of "+name, func() bool {
			entries, err := mutex.New(two.Session, name).Queue(recipetest.Bounded(t))
			require.NoError(t, err)
			return !entries[0].Granted.IsZero()
		})
	}
	revoke()

	for _, h := range holds {
		recipetest.Unlock(t, h)
	}
	recipetest.Unlock(t, there.Granted(t))
	recipetest.Unlock(t, here.Granted(t))
	recipetest.Until(t, "the end of the entries of released locks", func() bool {
		entries, err := root.Get(recipetest.Bounded(t), "root/&", clientv3.WithRange("root0"), clientv3.WithKeysOnly())
		require.NoError(t, err)
		return len(entries.Kvs) == 0
	})
	const warning = `level=WARN msg="etcd: a lock is released, and records`
	recipetest.Until(t, "a record of the log", func() bool { return strings.Contains(one.Log.String(), warning) })
	assert.Equal(t, 1, strings.Count(one.Log.String(), warning), "of the ledger; all else is on the lease")
	assert.Contains(t, one.Log.String(), "keys=[root/%v2/robust/ledger]")
	grant()
	robust := mutex.NewWith(two.Session, "robust", mutex.Options{Robust: true})
	h, err := robust.Lock(recipetest.Bounded(t))
	require.NoError(t, err)
	assert.True(t, h.PreviousDied(), "the name that stays in the ledger errs on the safe side")
	recipetest.Unlock(t, h)
	h, err = robust.Lock(recipetest.Bounded(t))
	require.NoError(t, err)
	assert.False(t, h.PreviousDied())
	recipetest.Unlock(t, h)
	for _, h := range holdOfEachKind(t, one.Session) {
		recipetest.Unlock(t, h) // it finds what the release before it left
	}
	one.Kept(t)
	two.Kept(t)
}
