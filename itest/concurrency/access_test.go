package concurrency_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/compat/concurrency"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

// withUsers turns authentication on, and returns a client of the user "web", who may read and write
// what begins with the prefixes and nothing else. That of the fixture is "root".
func (f *fixture) withUsers(prefixes ...string) *clientv3.Client {
	f.t.Helper()
	must := func(_ any, err error) { require.NoError(f.t, err) }
	ctx := f.soon()
	must(f.client.UserAdd(ctx, "root", "secret"))
	must(f.client.UserGrantRole(ctx, "root", "root"))
	must(f.client.RoleAdd(ctx, "locks"))
	for _, p := range prefixes {
		must(f.client.RoleGrantPermission(ctx, "locks", p, clientv3.GetPrefixRangeEnd(p), clientv3.PermissionType(clientv3.PermReadWrite)))
	}
	must(f.client.UserAdd(ctx, "web", "secret"))
	must(f.client.UserGrantRole(ctx, "web", "locks"))
	must(f.client.AuthEnable(ctx))
	as := func(user string) *clientv3.Client {
		client, err := f.cluster.NewClient(func(cfg *clientv3.Config) { cfg.Username, cfg.Password = user, "secret" })
		require.NoError(f.t, err)
		f.t.Cleanup(func() { assert.NoError(f.t, client.Close()) })
		return client
	}
	f.client = as("root")
	return as("web")
}

// everything uses each part of the package, and leaves nothing.
func (f *fixture) everything(client *clientv3.Client) {
	t := f.t
	s := f.sessionOn(client, concurrency.WithTTL(600))
	m, e := concurrency.NewMutex(s, "a"), concurrency.NewElection(s, "e")
	other := concurrency.NewMutex(f.sessionOn(client, concurrency.WithTTL(600)), "a")
	next := concurrency.NewElection(f.sessionOn(client, concurrency.WithTTL(600)), "e")
	require.NoError(t, m.Lock(f.soon()))
	require.ErrorIs(t, other.TryLock(f.soon()), concurrency.ErrLocked)
	locks := inBackground(func() error { return other.Lock(f.soon()) })
	require.NoError(t, e.Campaign(f.soon(), "one"))
	campaigns := inBackground(func() error { return next.Campaign(f.soon(), "three") })
	seen := next.Observe(f.soon())
	value := func() string { return string(recipetest.Wait(t, seen, "a value").Kvs[0].Value) }
	assert.Equal(t, "one", value())
	f.queued("a/", 2)
	f.queued("e/", 2)
	_, err := f.client.UserAdd(f.soon(), "another", "secret") // all logins are of an older revision now
	require.NoError(t, err)

	require.NoError(t, e.Proclaim(f.soon(), "two"))
	assert.Equal(t, "two", value())
	require.NoError(t, m.Unlock(f.soon()))
	require.NoError(t, recipetest.Wait(t, locks, "the lock"))
	require.NoError(t, e.Resign(f.soon()))
	require.NoError(t, recipetest.Wait(t, campaigns, "the leadership"))
	assert.Equal(t, "three", value())
	require.NoError(t, other.Unlock(f.soon()))
	require.NoError(t, next.Resign(f.soon()))
	require.NoError(t, m.Lock(f.soon()))
	require.NoError(t, s.Close(), "the keys of the lease can be deleted")
	f.queued("a/", 0)
	f.queued("e/", 0)
}

func TestWithAuthentication(t *testing.T) {
	f := newFixture(t, nil)
	f.everything(f.withUsers("a/", "e/", "fairlock/"))
}

// TestTheRootNeedsAPermissionToo, which a program that used etcd's package may not have: the error
// names it.
func TestTheRootNeedsAPermissionToo(t *testing.T) {
	f := newFixture(t, nil)
	s := f.sessionOn(f.withUsers("a/"))
	err := concurrency.NewMutex(s, "a").Lock(f.soon())
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	assert.ErrorContains(t, err, `READWRITE on the prefix "fairlock/"`)
}

func TestAMissingPermissionIsReported(t *testing.T) {
	f := newFixture(t, nil)
	s := f.sessionOn(f.withUsers("a/", "fairlock/"))
	m, e := concurrency.NewMutex(s, "b"), concurrency.NewElection(s, "b")
	for what, err := range map[string]error{
		"Lock": m.Lock(f.soon()), "TryLock": m.TryLock(f.soon()), "Campaign": e.Campaign(f.soon(), "leader"),
	} {
		require.ErrorIs(t, err, rpctypes.ErrPermissionDenied, what)
		require.ErrorIs(t, err, session.ErrDenied, what)
		assert.ErrorContains(t, err, `"b`, what)
	}
	_, err := e.Leader(f.soon())
	require.ErrorIs(t, err, rpctypes.ErrPermissionDenied)
	require.NoError(t, s.Ctx().Err(), "it is not the end of the session")
	require.NoError(t, s.Close())
}
