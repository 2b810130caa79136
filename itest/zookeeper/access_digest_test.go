package zookeeper

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// TestServersWithAnotherDigestAlgorithm is on servers that compute the digests of
// passwords by another algorithm than the default.
func TestServersWithAnotherDigestAlgorithm(t *testing.T) {
	t.Parallel()
	e := zktest.New(t, &zktest.Options{Properties: map[string]string{
		"zookeeper.DigestAuthenticationProvider.digestAlg": "SHA-256",
	}})
	t.Run("ALeaderProclaims", func(t *testing.T) {
		p := newClient(t, "/election", recipetest.CalmTTL).open(t, e.Endpoints()...)
		el := election.New(p.Session, "x")
		h, err := el.Campaign(recipetest.Bounded(t), "one")
		require.NoError(t, err)
		require.NoError(t, el.Proclaim(recipetest.Bounded(t), h, "two"))
		leader, err := el.Leader(recipetest.Bounded(t))
		require.NoError(t, err)
		assert.Equal(t, "two", leader.Value)
		recipetest.Unlock(t, h)
	})
	t.Run("ASemaphoreGrantsAllThatFit", func(t *testing.T) { semaphoreGrantsAllThatFit(t, e) })
	t.Run("AuthIsTheLoginsOfTheUser", func(t *testing.T) { authIsTheUsersLogins(t, e) })
}

// semaphoreGrantsAllThatFit: the mark Admitted of its predecessor grants a waiter, and not
// the timer that reads again.
func semaphoreGrantsAllThatFit(t *testing.T, e *zktest.Ensemble) {
	p := newClient(t, "/semaphore", recipetest.CalmTTL).open(t, e.Endpoints()...)
	m := semaphore.New(p.Session, "x", 2)
	both, err := m.Acquire(recipetest.Bounded(t), 2)
	require.NoError(t, err)
	one := p.BeginWith(func() (*session.Hold, error) { return m.Acquire(recipetest.Bounded(t), 1) })
	p.Stands(t, 2)
	two := p.BeginWith(func() (*session.Hold, error) { return m.Acquire(recipetest.Bounded(t), 1) })
	p.Stands(t, 3)
	recipetest.Unlock(t, both)
	first, next := one.Granted(t), two.Granted(t)

	recipetest.Until(t, "a mark on each entry", func() bool {
		entries, err := m.Queue(recipetest.Bounded(t))
		require.NoError(t, err)
		return len(entries) == 2 && recipetest.Detail(entries[0]).Marks != 0 && recipetest.Detail(entries[1]).Marks != 0
	})
	assert.Zero(t, logged(p, "cannot record that permits were acquired"), p.Log.String())
	recipetest.Unlock(t, first)
	recipetest.Unlock(t, next)
}

// authIsTheUsersLogins: the ACL "auth" is what the servers make of it, and so
// another session with the same login can use what this one has made.
func authIsTheUsersLogins(t *testing.T, e *zktest.Ensemble) {
	for range 2 {
		p := newClient(t, "/mine", recipetest.CalmTTL)
		p.opts.Auth = []zkbackend.Auth{zkbackend.DigestAuth("joe", goodPassword)}
		p.opts.ACL = zk.AuthACL(zk.PermAll)
		p.open(t, e.Endpoints()...)
		recipetest.Unlock(t, p.Lock(t, "x"))
		require.NoError(t, p.Close())
	}
	joe := e.Client(t)
	require.NoError(t, joe.AddAuth("digest", []byte("joe:"+goodPassword)))
	acl, _, err := joe.GetACL("/mine")
	require.NoError(t, err)
	assert.Len(t, acl, 1, "the user alone: %v", acl)
	_, err = joe.Create("/mine/other", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err, "the user can use the root")
}
