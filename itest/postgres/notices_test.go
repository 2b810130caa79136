package postgres

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// A client that watches a queue and has no entry in it, such as one that waits for yield requests,
// would learn of a join only from its next read.
func TestAJoinIsNotifiedToAClientThatWatchesTheQueue(t *testing.T) {
	t.Parallel()
	server := newSetup(t, nil).server
	ctx := hang.Context(t)
	s, err := pgbackend.Dial(ctx, server.URL(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	admin := server.Conn(t)
	const queue = "fairlock\x01qx"
	var secret, name string
	require.NoError(t, admin.QueryRow(ctx, "select secret from fairlock.meta").Scan(&secret))
	require.NoError(t, admin.QueryRow(ctx, "select "+channel, queue, secret).Scan(&name))
	_, err = admin.Exec(ctx, "listen "+name)
	require.NoError(t, err)
	_, err = admin.Exec(ctx, "insert into fairlock.watcher (queue, until) values ($1, now() + interval '1 hour')", queue)
	require.NoError(t, err)

	h, err := mutex.New(s, "x").Lock(ctx)
	require.NoError(t, err)
	recipetest.Unlock(t, h)
	h, err = mutex.New(s, "x").TryLock(ctx)
	require.NoError(t, err)
	_, err = admin.Exec(ctx, "select pg_notify($1, 'end')", name)
	require.NoError(t, err)

	var payloads []string
	for {
		n, err := admin.WaitForNotification(ctx)
		require.NoError(t, err)
		if n.Payload == "end" {
			break
		}
		payloads = append(payloads, n.Payload[:1])
	}
	assert.Equal(t, []string{"j", "g", "j"}, payloads, "joined, gone, joined")
	recipetest.Unlock(t, h)
}
