package demo

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/journal"
	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/zktest"
)

// recorded is a listener that records the events.
type recorded []string

func (h *recorded) created(p entry) {
	*h = append(*h, fmt.Sprintf("created %d %s", p.token, p.meta.Label))
}

func (h *recorded) deleted(token, rev int64) {
	*h = append(*h, fmt.Sprintf("deleted %d by %d", token, rev))
}
func (h *recorded) endMarked()     { *h = append(*h, "marked") }
func (h *recorded) fail(err error) { *h = append(*h, err.Error()) }

func TestReportPassesOnOnlyTheEventsOfTheQueue(t *testing.T) {
	const queue = "/fairlock/ledger"
	meta := func(label string) []byte { return owner.Meta{Label: label}.Encode() }
	var h recorded
	live := map[string]int64{}
	for _, txn := range []journal.Txn{
		{Zxid: 2, Ops: []journal.Op{{Created: true, Path: "/fairlock"}}},
		{Zxid: 3, Ops: []journal.Op{{Created: true, Path: queue}}},
		{Zxid: 4, Ops: []journal.Op{{Created: true, Path: queue + "/x-lock-0000000000", Data: meta("ada")}}},
		{Zxid: 5, Ops: []journal.Op{{Created: true, Path: queue + "/y-lock-0000000001", Data: meta("bob")}}},
		{Zxid: 6, Ops: []journal.Op{{Created: true, Path: queue + "s/z-lock-0000000000", Data: meta("eve")}}},
		{Zxid: 7, Ops: []journal.Op{{Path: queue + "/y-lock-0000000001"}, {Path: queue + "s/z-lock-0000000000"}, {Path: queue + "/x-lock-0000000000"}}},
		{Zxid: 8, Ops: []journal.Op{{Path: queue}}},
		{Zxid: 9, Ops: []journal.Op{{Created: true, Path: endMarkPath}}},
	} {
		(&zkService{queue: queue, containers: map[string]bool{}}).report(&h, live, txn)
	}

	assert.Equal(t, recorded{"created 4 ada", "created 5 bob", "deleted 5 by 7", "deleted 4 by 7", "marked"}, h)
	assert.Empty(t, live)
}

// closing is a connection that is closed after it has listed the one node of a queue.
type closing struct{}

func (closing) Sync(string) (string, error) { return "/", nil }

func (closing) Children(string) ([]string, *zk.Stat, error) {
	return []string{"a-lock-0000000000"}, &zk.Stat{}, nil
}

func (closing) Exists(string) (bool, *zk.Stat, error) { return false, nil, zk.ErrConnectionClosed }

func TestFirstInReturnsAnErrorIfTheConnectionIsClosed(t *testing.T) {
	_, err := firstIn(closing{}, "/fairlock/ledger")

	assert.ErrorIs(t, err, zk.ErrConnectionClosed)
}

func TestBySequenceIgnoresThePrefix(t *testing.T) {
	names := []string{"0a-lock-0000000010", "ff-lock-0000000009", "short"}

	slices.SortFunc(names, bySequence)

	assert.Equal(t, []string{"ff-lock-0000000009", "0a-lock-0000000010", "short"}, names)
}

// zooKeeper returns a real server, which removes empty folders only every three seconds.
func zooKeeper(t *testing.T) *zkService {
	t.Helper()
	e, err := zktest.Start(t.Context(), &zktest.Options{
		ContainerCheck: 3 * time.Second, Properties: map[string]string{maxNeverUsed: "1000"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	conn, err := e.NewClient(nil)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return &zkService{ensemble: e, conn: conn, containers: map[string]bool{}}
}

// create creates a node.
func (s *zkService) create(t *testing.T, path string, flags int32) {
	t.Helper()
	createNode := s.conn.Create
	if flags == zk.FlagContainer {
		createNode = s.conn.CreateContainer
		s.containers[path] = true
	}
	_, err := createNode(path, nil, flags, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

func TestFolderThatTheServerWillRemoveIsNotLeftBehind(t *testing.T) {
	s := zooKeeper(t)
	s.create(t, "/fairlock", zk.FlagContainer)
	s.create(t, "/fairlock/ledger", zk.FlagContainer)
	s.create(t, "/unused", zk.FlagContainer)
	path := ""
	for name, flags := range map[string]int32{"persistent": zk.FlagPersistent, "ephemeral": zk.FlagEphemeral} {
		before := path
		path = "/fairlock/ledger/" + name
		s.create(t, path, flags)
		if before != "" { // the folder was never empty: the server would remove it
			require.NoError(t, s.conn.Delete(before, -1))
		}
		nodes, _, err := s.leftovers(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"/fairlock", "/fairlock/ledger", path}, nodes, "and the folders that the server keeps for it")
	}
	require.NoError(t, s.conn.Delete(path, -1))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTooLong)
	_, _, err := s.leftovers(ctx)
	require.ErrorIs(t, err, errTooLong)

	nodes, sessions, err := s.leftovers(t.Context())
	require.NoError(t, err)
	assert.Empty(t, nodes)
	assert.Zero(t, sessions)
	for _, path := range []string{"/fairlock", "/unused"} {
		there, _, err := s.conn.Exists(path)
		require.NoError(t, err)
		assert.False(t, there, "leftovers returned before the server had removed %s", path)
	}
	s.create(t, "/left", zk.FlagPersistent)
	nodes, _, err = s.leftovers(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"/left"}, nodes)
}

func TestEveryServiceHasANameAndTerms(t *testing.T) {
	assert.Equal(t, []string{"etcd", "zk", "postgres", "redis"}, Services())
	for _, name := range Services() {
		s, err := kindOf(name)

		assert.NoError(t, err)
		assert.NotContains(t, []string{s.terms.Service, s.terms.Key, s.terms.Lease}, "")
	}
	_, err := kindOf("consul")
	assert.EqualError(t, err, `no service is called "consul": there is etcd, zk, postgres, redis`)
}
