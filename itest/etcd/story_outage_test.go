package etcd

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// outageIsLoggedSparsely counts what reaches the logs of the user's own client and
// of the session together, while etcd is away and a Lock waits for it.
func outageIsLoggedSparsely(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{Processes: true})
	core, logged := observer.New(zapcore.WarnLevel)
	client, err := cluster.NewClient(func(cfg *clientv3.Config) { cfg.Logger = zap.New(core) })
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	p := newClient(t, "root", 2*time.Second).open(t, client)
	recipetest.Unlock(t, p.Lock(t, "x"))

	member := cluster.Member(0)
	require.NoError(t, member.Kill())
	away, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	_, err = mutex.New(p.Session, "x").Lock(away)
	cancel()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, member.Restart(recipetest.Bounded(t)))
	recipetest.Unlock(t, p.Lock(t, "x"))

	for _, e := range logged.All() {
		t.Log("client:", e.Message, e.ContextMap()["method"])
	}
	// A request is under way when the server dies, or is sent before the client notices.
	assert.LessOrEqual(t, logged.Len(), 2, "the client's own log")
	said := p.Log.String()
	assert.Equal(t, 1, strings.Count(said, "cannot open a session"), "once, since it lasted less than a minute")
	assert.Equal(t, 1, strings.Count(said, "reachable again"))
	// The lease, the watch stream, the session, and the two above, once each.
	assert.LessOrEqual(t, strings.Count(said, "level=WARN"), 5, said)
}
