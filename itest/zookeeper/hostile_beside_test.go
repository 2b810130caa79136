package zookeeper

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// meddler writes what lies beside the lines of two parties.
type meddler struct {
	conn     *zk.Conn
	root     string
	one, two *lockClient
}

// put makes a node beside a line, or gives it another value.
func (m *meddler) put(t testing.TB, line, path, value string) {
	t.Helper()
	path = m.beside(line, path)
	folder(t, m.conn, path[:strings.LastIndexByte(path, '/')])
	_, err := m.conn.Create(path, []byte(value), 0, zk.WorldACL(zk.PermAll))
	if err != nil {
		require.ErrorIs(t, err, zk.ErrNodeExists)
		_, err = m.conn.Set(path, []byte(value), -1)
	}
	require.NoError(t, err)
}

func TestWhatStrangersSayOfAnEntryIsNotBelieved(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	m := &meddler{conn: e.Client(t), root: root}
	m.one, m.two = newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...), newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	m.metas(t)
	m.one.Kept(t)
	m.two.Kept(t)
}

// TestWhoBelievesAStrangersNoteLooksByHimself: where a node says that an entry was
// admitted which has not said so itself, its end need not be told.
func TestWhoBelievesAStrangersNoteLooksByHimself(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	m := &meddler{conn: e.Client(t), root: root}
	const ttl = recipetest.CalmTTL / 2 // the look comes after 12.5 s at the latest
	m.one, m.two = newClient(t, root, ttl).open(t, e.Endpoints()...), newClient(t, root, ttl).open(t, e.Endpoints()...)
	t.Run("what cannot be removed", m.stuck)
	t.Run("a note that stays", m.note)
	m.one.Kept(t)
	m.two.Kept(t)
}

// metas: what an entry with a value says of itself lies beside the line too, and
// is its owner's, like the entry. What is put there before is not.
func (m *meddler) metas(t *testing.T) {
	for i, value := range both.Values(mostBytes) {
		name := fmt.Sprint("meta", i)
		h, err := election.New(m.one.Session, name).Campaign(recipetest.Bounded(t), "me")
		require.NoError(t, err)
		key := recipetest.Refs(h)[0].Key
		meta := m.root + "/%beside/" + name + "/meta/" + nodeOf(key)[:16]
		_, err = m.conn.Set(meta, []byte(value), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		m.put(t, name, "meta/0123456789abcdef", value)
		_, err = m.conn.Create(m.root+"/"+name+"/0123456789abcdefv-lock-", []byte(value), zk.FlagSequence|zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		l, err := election.New(m.two.Session, name).Leader(recipetest.Bounded(t))
		require.NoError(t, err)
		assert.Equal(t, "me", l.Value)
		line, err := mutex.New(m.two.Session, name).Queue(recipetest.Bounded(t))
		require.NoError(t, err)
		require.Len(t, line, 2)
		recipetest.Unlock(t, h)
	}
}

// stuck: a node with children cannot be deleted. Who puts one where that of an
// entry's belongs keeps nobody from giving back.
func (m *meddler) stuck(t *testing.T) {
	sem := semaphore.New(m.one.Session, "stuck", 1)
	h, err := sem.Acquire(recipetest.Bounded(t), 1)
	require.NoError(t, err)
	waiter := m.two.BeginWith(func() (*session.Hold, error) {
		return semaphore.New(m.two.Session, "stuck", 1).Acquire(recipetest.Bounded(t), 1)
	})
	var line []string
	recipetest.Until(t, "a waiter", func() bool { line = entriesBelow(t, m.conn, m.root+"/stuck"); return len(line) == 2 })
	m.put(t, "stuck", "holders/"+nodeOf(slices.MaxFunc(line, bySequence))+"/child", "") // he will note his admission there
	recipetest.Unlock(t, h)
	second := waiter.Granted(t)
	third := m.one.BeginWith(func() (*session.Hold, error) { return sem.Acquire(recipetest.Bounded(t), 1) })
	recipetest.Until(t, "another", func() bool { return len(entriesBelow(t, m.conn, m.root+"/stuck")) == 2 })
	recipetest.Unlock(t, second)
	recipetest.Unlock(t, third.Granted(t))

	robust := func(p *lockClient) *session.Hold {
		h, err := mutex.NewWith(p.Session, "stuck-ledger", mutex.Options{Robust: true}).Lock(recipetest.Bounded(t))
		require.NoError(t, err)
		return h
	}
	h = robust(m.one)
	m.put(t, "stuck-ledger", "ledger/child", "")
	recipetest.Unlock(t, h)
	h = robust(m.two)
	assert.Equal(t, driver.PastDied, recipetest.Previous(h), "the name could not be struck out")
	recipetest.Unlock(t, h)
}

// note: somebody says of an entry of his that it was admitted, by a node that
// does not go with it. The end of that entry is noticed all the same.
func (m *meddler) note(t *testing.T) {
	sem := semaphore.New(m.one.Session, "note", 1)
	h, err := sem.Acquire(recipetest.Bounded(t), 1)
	require.NoError(t, err)
	path, err := m.conn.Create(m.root+"/note/0123456789abcdefw1-lock-", nil, zk.FlagSequence|zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	m.put(t, "note", "holders/"+nodeOf(path), "")
	waiter := m.two.BeginWith(func() (*session.Hold, error) {
		return semaphore.New(m.two.Session, "note", 1).Acquire(recipetest.Bounded(t), 1)
	})
	recipetest.Until(t, "a waiter", func() bool { return len(entriesBelow(t, m.conn, m.root+"/note")) == 3 })
	recipetest.Unlock(t, h)
	waiter.Waits(t)
	require.NoError(t, m.conn.Delete(path, -1))
	recipetest.Unlock(t, waiter.Granted(t))
}

// nodeOf is the last part of a path.
func nodeOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// bySequence orders entries as the servers numbered them.
func bySequence(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) }
