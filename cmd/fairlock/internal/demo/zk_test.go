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

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/journal"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/zktest"
)

// heard is a listener that writes down what it is told.
type heard []string

func (h *heard) put(p place)           { *h = append(*h, fmt.Sprintf("put %d %s", p.token, p.meta.Label)) }
func (h *heard) gone(token, rev int64) { *h = append(*h, fmt.Sprintf("gone %d by %d", token, rev)) }
func (h *heard) marked()               { *h = append(*h, "marked") }
func (h *heard) fail(err error)        { *h = append(*h, err.Error()) }

func TestWhatTheServerLoggedIsToldAsTheLineAndNothingElse(t *testing.T) {
	const line = "/fairlock/ledger"
	meta := func(label string) []byte { return door.Meta{Label: label}.Encode() }
	var h heard
	live := map[string]int64{}
	for _, txn := range []journal.Txn{
		{Zxid: 2, Ops: []journal.Op{{Created: true, Path: "/fairlock"}}},
		{Zxid: 3, Ops: []journal.Op{{Created: true, Path: line}}},
		{Zxid: 4, Ops: []journal.Op{{Created: true, Path: line + "/x-lock-0000000000", Data: meta("ada")}}},
		{Zxid: 5, Ops: []journal.Op{{Created: true, Path: line + "/y-lock-0000000001", Data: meta("bob")}}},
		{Zxid: 6, Ops: []journal.Op{{Created: true, Path: line + "s/z-lock-0000000000", Data: meta("eve")}}},
		{Zxid: 7, Ops: []journal.Op{{Path: line + "/y-lock-0000000001"}, {Path: line + "s/z-lock-0000000000"}, {Path: line + "/x-lock-0000000000"}}},
		{Zxid: 8, Ops: []journal.Op{{Path: line}}},
		{Zxid: 9, Ops: []journal.Op{{Created: true, Path: endNode}}},
	} {
		(&zkStore{line: line, containers: map[string]bool{}}).tell(&h, live, txn)
	}

	assert.Equal(t, heard{"put 4 ada", "put 5 bob", "gone 5 by 7", "gone 4 by 7", "marked"}, h)
	assert.Empty(t, live)
}

// closing is a connection to a line of one node. It is closed before the node is read.
type closing struct{}

func (closing) Sync(string) (string, error) { return "/", nil }

func (closing) Children(string) ([]string, *zk.Stat, error) {
	return []string{"a-lock-0000000000"}, &zk.Stat{}, nil
}

func (closing) Exists(string) (bool, *zk.Stat, error) { return false, nil, zk.ErrConnectionClosed }

func TestAConnectionThatIsClosedWhileTheFirstIsReadIsAnError(t *testing.T) {
	_, err := firstIn(closing{}, "/fairlock/ledger")

	assert.ErrorIs(t, err, zk.ErrConnectionClosed)
}

func TestTheFirstInALineIsTheLowestNumberWhateverStandsBeforeIt(t *testing.T) {
	names := []string{"0a-lock-0000000010", "ff-lock-0000000009", "short"}

	slices.SortFunc(names, bySequence)

	assert.Equal(t, []string{"ff-lock-0000000009", "0a-lock-0000000010", "short"}, names)
}

// zooKeeper returns the store of a real server, which removes empty folders only every
// three seconds.
func zooKeeper(t *testing.T) *zkStore {
	t.Helper()
	e, err := zktest.Start(t.Context(), &zktest.Options{
		ContainerCheck: 3 * time.Second, Properties: map[string]string{neverUsed: "1000"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	conn, err := e.NewClient(nil)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return &zkStore{ensemble: e, conn: conn, containers: map[string]bool{}}
}

// plant creates a node.
func (s *zkStore) plant(t *testing.T, path string, flags int32) {
	t.Helper()
	create := s.conn.Create
	if flags == zk.FlagContainer {
		create = s.conn.CreateContainer
		s.containers[path] = true
	}
	_, err := create(path, nil, flags, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

func TestAFolderThatTheServerWillRemoveIsNotLeftBehind(t *testing.T) {
	s := zooKeeper(t)
	s.plant(t, "/fairlock", zk.FlagContainer)
	s.plant(t, "/fairlock/ledger", zk.FlagContainer)
	s.plant(t, "/unused", zk.FlagContainer)
	for name, flags := range map[string]int32{"persistent": zk.FlagPersistent, "ephemeral": zk.FlagEphemeral} {
		path := "/fairlock/ledger/" + name
		s.plant(t, path, flags)
		nodes, _, err := s.left(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{"/fairlock", "/fairlock/ledger", path}, nodes, "and the folders that the server keeps for it")
		require.NoError(t, s.conn.Delete(path, -1))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTooLong)
	_, _, err := s.left(ctx)
	require.ErrorIs(t, err, errTooLong)

	nodes, sessions, err := s.left(t.Context())
	require.NoError(t, err)
	assert.Empty(t, nodes)
	assert.Zero(t, sessions)
	for _, path := range []string{"/fairlock", "/unused"} {
		there, _, err := s.conn.Exists(path)
		require.NoError(t, err)
		assert.False(t, there, "left returned before the server had removed %s", path)
	}
	s.plant(t, "/left", zk.FlagPersistent)
	nodes, _, err = s.left(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"/left"}, nodes)
}

func TestEveryServiceHasANameAndTerms(t *testing.T) {
	assert.Equal(t, []string{"etcd", "zk"}, Services())
	for _, name := range Services() {
		s, err := serviceOf(name)

		assert.NoError(t, err)
		assert.NotContains(t, []string{s.terms.Service, s.terms.Key, s.terms.Lease}, "")
	}
	_, err := serviceOf("consul")
	assert.EqualError(t, err, `no service is called "consul": there is etcd, zk`)
}
