package etcd

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/telemetry/health"
)

// closedClient: a program closes its client before the session, as with defers in
// the wrong order. All calls return, with contexts that have no end.
func closedClient(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	// returns requires that f comes back with ErrClosed long before the session
	// ends, without the help of a context.
	returns := func(what string, f func() error) {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- f() }()
		select {
		case err := <-done:
			require.ErrorIs(t, err, session.ErrClosed, what)
		case <-recipetest.Bounded(t).Done():
			require.Fail(t, what+" has not returned")
		}
	}
	forever := context.Background()

	holder := newClient(t, "root", recipetest.CalmTTL).open(t, cluster.Client(t))
	h := holder.Lock(t, "held")

	client, err := cluster.NewClient(nil)
	require.NoError(t, err)
	s, err := etcdbackend.Open(recipetest.Bounded(t), client, &etcdbackend.Options{Root: "root", Session: session.Options{TTL: recipetest.CalmTTL}})
	require.NoError(t, err)
	own, err := mutex.New(s, "own").Lock(recipetest.Bounded(t))
	require.NoError(t, err)
	joined := make(chan error, 1)
	go func() { joined <- second(mutex.New(s, "held").Lock(forever)) }()
	holder.Queued(t, "held", 2)
	live := func() int {
		w := httptest.NewRecorder()
		health.New(s).Live().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/livez", http.NoBody))
		return w.Code
	}
	require.Equal(t, http.StatusOK, live())
	require.NoError(t, client.Close())
	returns("Lock", func() error { return second(mutex.New(s, "n").Lock(forever)) })
	returns("TryLock", func() error { return second(mutex.New(s, "n").TryLock(forever)) })
	returns("Queue", func() error { return second(s.Queue(forever, "n")) })
	returns("Lock of a waiter", func() error { return <-joined })
	require.Equal(t, http.StatusServiceUnavailable, live(), "only a restart cures it")
	if err := own.Unlock(); !errors.Is(err, session.ErrReleasePending) {
		require.ErrorIs(t, err, session.ErrLost)
	}
	require.NotEqual(t, context.DeadlineExceeded, s.Close())
	returns("Term", func() error { return second(session.Engine(door.Key{}).Of(s).Live(forever)) })
	recipetest.Unlock(t, h)
}
