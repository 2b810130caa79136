package zookeeper

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/kit"
	"github.com/fairlock/fairlock/itest/tour"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
)

// meddler writes what lies beside the lines of two parties.
type meddler struct {
	conn     *zk.Conn
	root     string
	one, two *party
}

// put makes a node beside a line, or gives it another value.
func (m *meddler) put(t *testing.T, line, path, value string) {
	t.Helper()
	path = m.beside(line, path)
	for i, c := range path {
		if c == '/' && i > 0 {
			_, err := m.conn.CreateContainer(path[:i], nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
			if err != nil {
				require.ErrorIs(t, err, zk.ErrNodeExists)
			}
		}
	}
	_, err := m.conn.Create(path, []byte(value), 0, zk.WorldACL(zk.PermAll))
	if err != nil {
		require.ErrorIs(t, err, zk.ErrNodeExists)
		_, err = m.conn.Set(path, []byte(value), -1)
	}
	require.NoError(t, err)
}

func TestWhatStrangersWriteBesideALineIsNotBelieved(t *testing.T) {
	t.Parallel()
	e, root := shared.use(t)
	m := &meddler{conn: e.Conn(t), root: root}
	m.one, m.two = newParty(t, root, kit.CalmTTL).open(t, e.Servers()...), newParty(t, root, kit.CalmTTL).open(t, e.Servers()...)
	t.Run("limits", m.limits)
	t.Run("numbers", m.numbers)
	t.Run("ledgers", m.ledgers)
	t.Run("what entries say", m.metas)
	m.one.Kept(t)
	m.two.Kept(t)
}

// TestWhoBelievesAStrangersNoteLooksByHimself: where a node says that an entry was
// admitted which has not said so itself, its end need not be told.
func TestWhoBelievesAStrangersNoteLooksByHimself(t *testing.T) {
	t.Parallel()
	e, root := shared.use(t)
	m := &meddler{conn: e.Conn(t), root: root}
	const ttl = kit.CalmTTL / 2 // the look comes after 12.5 s at the latest
	m.one, m.two = newParty(t, root, ttl).open(t, e.Servers()...), newParty(t, root, ttl).open(t, e.Servers()...)
	t.Run("what cannot be removed", m.stuck)
	t.Run("a note that stays", m.note)
	m.one.Kept(t)
	m.two.Kept(t)
}

// limits: one that cannot be read is told to who waits and to who asks, and who
// holds goes on.
func (m *meddler) limits(t *testing.T) {
	for i, child := range []string{"-1", "0", "1e99", " 8", "08", "+8", "NaN", "99999999999999999999", strings.Repeat("9", 100_000), "4"} {
		name := fmt.Sprint("limit", i)
		sem := semaphore.New(m.one.Session, name, 2)
		h, err := sem.Acquire(kit.Bounded(t), 2)
		require.NoError(t, err)
		waiter := m.two.BeginWith(func() (*session.Hold, error) { return semaphore.New(m.two.Session, name, 2).Acquire(kit.Bounded(t), 2) })
		kit.Until(t, "a waiter", func() bool { es, err := sem.Queue(kit.Bounded(t)); return err == nil && len(es) == 2 })
		m.put(t, name, "limit/"+child, "")
		begin := time.Now()
		kit.Wait(t, waiter.Done, "the end of the waiting")
		_, aerr := semaphore.NewWith(m.two.Session, name, 2, semaphore.Options{Follow: true}).Acquire(kit.Bounded(t), 1)
		_, lerr := sem.Limit(kit.Bounded(t))
		for what, err := range map[string]error{"waiter": waiter.Err, "acquire": aerr, "limit": lerr} {
			require.ErrorIs(t, err, session.ErrRefused, what)
			assert.Less(t, len(err.Error()), 500, what)
			assert.ErrorContains(t, err, "limit", what)
		}
		assert.Less(t, time.Since(begin), kit.Relooks, "told by an event")
		assert.NoError(t, context.Cause(h.Context()), "who holds goes on")
		kit.Unlock(t, h)
		require.NoError(t, m.conn.Delete(m.root+"/%beside/"+name+"/limit/"+child, -1))
		h, err = sem.Acquire(kit.Bounded(t), 2)
		require.NoError(t, err)
		kit.Unlock(t, h)
	}
}

// numbers: what is no number of an entry's is another's.
func (m *meddler) numbers(t *testing.T) {
	for i, value := range append(tour.Values(mostBytes), "0123456789abcdef-lock-0000000000") {
		name := fmt.Sprint("number", i)
		sem := semaphore.NewWith(m.one.Session, name, 3, semaphore.Options{Slots: true})
		for _, key := range []string{"0", "-1", "+1", "01", "0x1", "99999999999999999999", "☃"} {
			m.put(t, name, "slot/"+key, value)
		}
		h, err := sem.Acquire(kit.Bounded(t), 1)
		require.NoError(t, err, "%.40q", value)
		h2, err := sem.Acquire(kit.Bounded(t), 1)
		require.NoError(t, err, "%.40q", value)
		assert.Equal(t, []int{1, 2}, []int{h.Slot(), h2.Slot()}, "%.40q", value)
		kit.Unlock(t, h)
		kit.Unlock(t, h2)
	}
}

// ledgers: a name that nobody has is that of one who died, and the next knows it
// better.
func (m *meddler) ledgers(t *testing.T) {
	for i, value := range append(tour.Values(mostBytes), "x died", " ", " clean", "0123456789abcdef died") {
		name := fmt.Sprint("ledger", i)
		take := func(p *party) *session.Hold {
			h, err := mutex.NewWith(p.Session, name, mutex.Options{Robust: true}).Lock(kit.Bounded(t))
			require.NoError(t, err, "%.40q", value)
			return h
		}
		m.put(t, name, "ledger", value)
		kit.Unlock(t, take(m.one))
		h := take(m.two)
		assert.Equal(t, session.PastClean, h.Previous(), "after a hold that was given back: %.40q", value)
		kit.Unlock(t, h)
	}
}

// metas: what an entry with a value says of itself lies beside the line too, and
// is its owner's, like the entry. What is put there before is not.
func (m *meddler) metas(t *testing.T) {
	for i, value := range tour.Values(mostBytes) {
		name := fmt.Sprint("meta", i)
		h, err := election.New(m.one.Session, name).Campaign(kit.Bounded(t), "me")
		require.NoError(t, err)
		key := h.Refs()[0].Key
		meta := m.root + "/%beside/" + name + "/meta/" + nodeOf(key)[:16]
		_, err = m.conn.Set(meta, []byte(value), -1)
		require.ErrorIs(t, err, zk.ErrNoAuth)
		m.put(t, name, "meta/0123456789abcdef", value)
		_, err = m.conn.Create(m.root+"/"+name+"/0123456789abcdefv-lock-", []byte(value), zk.FlagSequence|zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		l, err := election.New(m.two.Session, name).Leader(kit.Bounded(t))
		require.NoError(t, err)
		assert.Equal(t, "me", l.Value)
		line, err := mutex.New(m.two.Session, name).Queue(kit.Bounded(t))
		require.NoError(t, err)
		require.Len(t, line, 2)
		kit.Unlock(t, h)
	}
}

// stuck: a node with children cannot be deleted. Who puts one where that of an
// entry's belongs keeps nobody from giving back.
func (m *meddler) stuck(t *testing.T) {
	sem := semaphore.New(m.one.Session, "stuck", 1)
	h, err := sem.Acquire(kit.Bounded(t), 1)
	require.NoError(t, err)
	waiter := m.two.BeginWith(func() (*session.Hold, error) {
		return semaphore.New(m.two.Session, "stuck", 1).Acquire(kit.Bounded(t), 1)
	})
	var line []string
	kit.Until(t, "a waiter", func() bool { line = entriesBelow(t, m.conn, m.root+"/stuck"); return len(line) == 2 })
	m.put(t, "stuck", "holders/"+nodeOf(slices.MaxFunc(line, bySequence))+"/child", "") // he will note his admission there
	kit.Unlock(t, h)
	second := waiter.Granted(t)
	third := m.one.BeginWith(func() (*session.Hold, error) { return sem.Acquire(kit.Bounded(t), 1) })
	kit.Until(t, "another", func() bool { return len(entriesBelow(t, m.conn, m.root+"/stuck")) == 2 })
	kit.Unlock(t, second)
	kit.Unlock(t, third.Granted(t))

	robust := func(p *party) *session.Hold {
		h, err := mutex.NewWith(p.Session, "stuck-ledger", mutex.Options{Robust: true}).Lock(kit.Bounded(t))
		require.NoError(t, err)
		return h
	}
	h = robust(m.one)
	m.put(t, "stuck-ledger", "ledger/child", "")
	kit.Unlock(t, h)
	h = robust(m.two)
	assert.Equal(t, session.PastDied, h.Previous(), "the name could not be struck out")
	kit.Unlock(t, h)
}

// note: somebody says of an entry of his that it was admitted, by a node that
// does not go with it. The end of that entry is noticed all the same.
func (m *meddler) note(t *testing.T) {
	sem := semaphore.New(m.one.Session, "note", 1)
	h, err := sem.Acquire(kit.Bounded(t), 1)
	require.NoError(t, err)
	path, err := m.conn.Create(m.root+"/note/0123456789abcdefw1-lock-", nil, zk.FlagSequence|zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	m.put(t, "note", "holders/"+nodeOf(path), "")
	waiter := m.two.BeginWith(func() (*session.Hold, error) {
		return semaphore.New(m.two.Session, "note", 1).Acquire(kit.Bounded(t), 1)
	})
	kit.Until(t, "a waiter", func() bool { return len(entriesBelow(t, m.conn, m.root+"/note")) == 3 })
	kit.Unlock(t, h)
	waiter.Waits(t)
	require.NoError(t, m.conn.Delete(path, -1))
	kit.Unlock(t, waiter.Granted(t))
}

// nodeOf is the last part of a path.
func nodeOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// bySequence orders entries as the servers numbered them.
func bySequence(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) }
