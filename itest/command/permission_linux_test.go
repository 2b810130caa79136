package command

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/yield"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// On ZooKeeper each znode has its own permissions. Here other logins may only read.
func TestWithoutPermissionOnZooKeeperNothingIsEvictedOrAsked(t *testing.T) {
	t.Parallel()
	ensemble := zktest.New(t, nil)
	holder, err := zkbackend.Open(hang.Context(t), ensemble.Endpoints(), &zkbackend.Options{
		Auth:    []zkbackend.Auth{zkbackend.DigestAuth("ops", goodPassword)},
		ACL:     append(zk.DigestACL(zk.PermAll, "ops", goodPassword), zk.WorldACL(zk.PermRead)...),
		Session: session.Options{Label: "nightly"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = holder.Close() })
	h := holdOf(t, holder, "x")
	url := "zk://" + ensemble.Endpoints()[0]

	for name, login := range map[string][]string{
		"no login":       nil,
		"another login":  {"--user", "eve", "--password-file", password(t, goodPassword)},
		"wrong password": {"--user", "ops", "--password-file", password(t, badPassword)},
	} {
		as := func(args ...string) result { return execute(t, url, append(args, login...)...) }
		require.Equal(t, 0, as("who", "x").code, name)

		got := as("evict", "--holder", "--yes", "x")

		assert.Equal(t, 77, got.code, name)
		assert.Regexp(t, `(?m)^fairlock: no entry was evicted: .*permission`, got.stderr, name)
		got = as("ask", "x")
		assert.Equal(t, 77, got.code, name)
		assert.Regexp(t, `(?m)^fairlock: .*permission`, got.stderr, name)
		require.NoError(t, h.Context().Err(), name)
	}

	asks, err := yield.List(hang.Context(t), holder, "x")
	require.NoError(t, err)
	assert.Empty(t, asks)
	got := execute(t, url, "evict", "--holder", "--yes", "x", "--user", "ops", "--password-file", password(t, goodPassword))
	require.Equal(t, 0, got.code, got.stderr)
	<-h.Context().Done()
}
