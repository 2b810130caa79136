package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/testnet"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// calm is one server that every test may use that does it no harm.
var calm = both.Shared[*zktest.Ensemble]{
	Start: func(ctx context.Context) (*zktest.Ensemble, error) {
		return zktest.Start(ctx, &zktest.Options{MaxSession: recipetest.EventTTL})
	},
}

// shared returns the calm server, and a root for this test alone.
func shared(t testing.TB) (e *zktest.Ensemble, root string) {
	t.Helper()
	e, user := calm.Use(t)
	return e, fmt.Sprint("/root", user)
}

// proxyOf returns a new proxy to a member, for faults.
func proxyOf(t testing.TB, e *zktest.Ensemble, member int) *testnet.Proxy {
	t.Helper()
	p, err := testnet.New(e.Member(member).Direct(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p
}

// lockClient is a session on ZooKeeper with the events of its hooks and its log.
type lockClient struct {
	recipetest.Client

	opts zkbackend.Options // to be changed before open
}

// newClient prepares a client; open makes its session.
func newClient(t testing.TB, root string, ttl time.Duration) *lockClient {
	p := &lockClient{}
	p.opts = zkbackend.Options{Root: root, TickTime: 100 * time.Millisecond, Session: p.SessionOptions(t, ttl)}
	return p
}

// open opens the Session on some servers.
func (p *lockClient) open(t testing.TB, servers ...string) *lockClient {
	t.Helper()
	s, err := zkbackend.Open(recipetest.Bounded(t), servers, &p.opts)
	require.NoError(t, p.Opened(t, s, err))
	return p
}

// children returns the names in a folder, nil if there is no such folder.
func children(t testing.TB, conn *zk.Conn, dir string) []string {
	t.Helper()
	_, err := conn.Sync("/")
	require.NoError(t, err)
	names, _, err := conn.Children(dir)
	if !errors.Is(err, zk.ErrNoNode) {
		require.NoError(t, err, dir)
	}
	return names
}

// awaitEntries waits until a folder has so many children.
func awaitEntries(t testing.TB, conn *zk.Conn, dir string, n int) []string {
	t.Helper()
	var names []string
	recipetest.Until(t, fmt.Sprintf("%d children in %s", n, dir), func() bool {
		names = children(t, conn, dir)
		return len(names) == n
	})
	return names
}

// awaitGranted waits until a queue shows since when its first entry holds.
func awaitGranted(t testing.TB, p *lockClient, name string) {
	t.Helper()
	recipetest.Until(t, "the time of the grant", func() bool {
		queue, err := p.Session.Queue(recipetest.Bounded(t), name)
		return err == nil && len(queue) > 0 && !queue[0].Granted.IsZero()
	})
}

// made returns how many children a folder has ever had: ZooKeeper shows creations plus
// deletions as Cversion.
func made(t testing.TB, conn *zk.Conn, dir string) int {
	t.Helper()
	_, stat, err := conn.Get(dir)
	require.NoError(t, err, dir)
	return int(uint32(stat.Cversion+stat.NumChildren) / 2)
}

// ownerOf returns the service session that keeps a node alive.
func ownerOf(t testing.TB, conn *zk.Conn, path string) string {
	t.Helper()
	there, stat, err := conn.Exists(path)
	require.NoError(t, err, path)
	require.True(t, there, path)
	return "0x" + strconv.FormatUint(uint64(stat.EphemeralOwner), 16)
}

// deletion returns a channel with the time at which the server deletes a node that is there now.
func deletion(t testing.TB, conn *zk.Conn, path string) <-chan driver.Instant {
	t.Helper()
	_, err := conn.Sync("/") // another server may have made it
	require.NoError(t, err)
	there, _, events, err := conn.ExistsW(path)
	require.NoError(t, err, path)
	require.True(t, there, path)
	gone := make(chan driver.Instant, 1)
	go func() {
		if ev := <-events; ev.Type == zk.EventNodeDeleted {
			gone <- recipetest.Now()
		}
	}()
	return gone
}

// ended returns a channel with the time at which a hold's context ends.
func ended(h *session.Hold) <-chan driver.Instant {
	end := make(chan driver.Instant, 1)
	go func() {
		<-h.Context().Done()
		end <- recipetest.Now()
	}()
	return end
}

// pace records when the process of the test did not run.
func pace(t testing.TB) *metronome.Metronome {
	t.Helper()
	m := metronome.Start()
	t.Cleanup(m.Stop)
	return m
}

// endedFirst asserts that the context of a hold ended before what the service did then. A
// process that did not run for a quarter of the least margin, in the two margins before the
// context ended, could not end it in time.
func endedFirst(t testing.TB, machine *metronome.Metronome, end, then driver.Instant, why string, args ...any) {
	t.Helper()
	const margin = shortTTL / 10
	at := time.Now().Add(end.Sub(recipetest.Now()))
	stalled, _ := machine.Between(at.Add(-2*margin), at)
	assert.True(t, end < then || stalled > margin/4, append([]any{why}, args...)...)
}
