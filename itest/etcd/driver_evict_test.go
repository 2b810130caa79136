package etcd

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

func TestEvictWithoutPermissionNamesTheKey(t *testing.T) {
	t.Parallel()
	endpoint := etcdWithLogins(t, 300)
	withUsers(t, endpoint, "root/")
	open := func(user string) *lockClient {
		p := newClient(t, "root", recipetest.CalmTTL)
		require.NoError(t, p.dial(t, etcdbackend.DialConfig{Endpoints: []string{endpoint}, Username: user, Password: goodPassword}))
		return p
	}
	worker, reader := open("worker"), open("reader")
	h := worker.Lock(t, "x")
	line, err := reader.Queue(recipetest.Bounded(t), "x")
	require.NoError(t, err)
	require.Len(t, line, 1)

	err = reader.Evict(recipetest.Bounded(t), line[0])
	require.ErrorIs(t, err, session.ErrDenied)
	require.ErrorContains(t, err, `"`+line[0].Key+`"`)
	require.ErrorContains(t, err, "permission to read and write the key is missing")
	assert.NotContains(t, err.Error(), goodPassword)
	require.NoError(t, h.Unlock(), "it stays")
	require.NoError(t, worker.Close())
	require.NoError(t, reader.Close())
}
