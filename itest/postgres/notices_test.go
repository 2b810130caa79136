package postgres

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
)

// A client that watches a queue and has no entry in it, such as one that waits for yield requests,
// would learn of a join only from its next read. The time in its row is one of the clock of the
// server, which may have jumped since.
func TestAJoinIsNotifiedToAClientThatWatchesTheQueue(t *testing.T) {
	t.Parallel()
	for _, until := range []string{"1 minute", "-1 hour", "1 year"} {
		t.Run(until, func(t *testing.T) {
			t.Parallel()
			joinIsNotified(t, until)
		})
	}
}

func joinIsNotified(t *testing.T, until string) {
	t.Helper()
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
	_, err = admin.Exec(ctx, "insert into fairlock.watcher (queue, until) values ($1, now() + $2::interval)", queue, until)
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

// A client that polls may not see the mark of a holder that is soon gone. A read of the client may
// have, so it no longer watches the entry, but the holders.
func TestAHolderThatGoesBetweenTwoLooksIsReported(t *testing.T) {
	t.Parallel()
	s := newSetup(t, nil)
	holder, other := openDriver(t, s, nil), openDriver(t, s, &pgbackend.Options{Listen: pgbackend.ListenOff})
	held := join(t, holder)
	join(t, other)
	events := make(chan driver.EventKind, 10)
	t.Cleanup(other.Watch(driver.Target{Kind: driver.OfHolders, Queue: "q"}, func(e driver.Event) { events <- e.Kind }))
	require.Equal(t, driver.Armed, hang.Receive(t, events, "the watch is not armed"))
	admin := s.server.Conn(t)

	for _, sql := range []string{
		"begin", // no look shows the mark
		"update fairlock.entry set marks = 2 where place = $1",
		"delete from fairlock.entry where place = $1",
		"commit",
	} {
		var args []any
		if strings.Contains(sql, "$1") {
			args = append(args, held.Place)
		}
		_, err := admin.Exec(hang.Context(t), sql, args...)
		require.NoError(t, err)
	}

	require.Equal(t, driver.Changed, hang.Receive(t, events, "the end of the holder is not reported"))
}
