package zookeeper

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/engine"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// foreignClient writes nodes next to the queues of two clients.
type foreignClient struct {
	conn     *zk.Conn
	root     string
	one, two *lockClient
}

// path returns the path of a node that belongs to a queue and is no entry.
func (m *foreignClient) path(queue, what string) string { return m.root + "/%v2/" + queue + "/" + what }

// record writes a record as a client would, and returns the paths of its nodes.
func (m *foreignClient) record(t testing.TB, queue, record, value string) []string {
	t.Helper()
	const version = "1z"
	node := "records/" + strings.ReplaceAll(record, "/", "%2F")
	m.put(t, queue, node, value+"\n#"+version)
	m.put(t, queue, node+"@"+version, "")
	return []string{m.path(queue, node), m.path(queue, node+"@"+version)}
}

// put makes a node next to a queue, or gives it other data.
func (m *foreignClient) put(t testing.TB, queue, path, value string) {
	t.Helper()
	path = m.path(queue, path)
	folder(t, m.conn, path[:strings.LastIndexByte(path, '/')])
	_, err := m.conn.Create(path, []byte(value), 0, zk.WorldACL(zk.PermAll))
	if err != nil {
		require.ErrorIs(t, err, zk.ErrNodeExists)
		_, err = m.conn.Set(path, []byte(value), -1)
	}
	require.NoError(t, err)
}

// TestForeignHolderNodesOnlyDelay: a node of another client marks an entry as admitted. The
// end of that entry may not be reported; then a waiter reads the queue by its timer.
func TestForeignHolderNodesOnlyDelay(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	m := &foreignClient{conn: e.Client(t), root: root}
	const ttl = recipetest.CalmTTL / 2 // a waiter reads after 12.5 s at the latest
	m.one, m.two = newClient(t, root, ttl).open(t, e.Endpoints()...), newClient(t, root, ttl).open(t, e.Endpoints()...)
	t.Run("what cannot be removed", m.stuck)
	t.Run("a mark that stays", m.marked)
	m.one.Kept(t)
	m.two.Kept(t)
}

// detail: the detail of an entry with a value is a node next to the queue that belongs to the
// owner of the entry. Another client can only make one for an entry of its own.
func (m *foreignClient) detail(t testing.TB, candidate driver.Ref, value string) {
	t.Helper()
	_, err := m.conn.Set(m.path(candidate.Queue, "details/"+guidOf(candidate.Key)), []byte(value), -1)
	require.ErrorIs(t, err, zk.ErrNoAuth)
	m.put(t, candidate.Queue, "details/0123456789abcdef", value)
	_, err = m.conn.Create(m.root+"/"+candidate.Queue+"/0123456789abcdefv-lock-", []byte(value), zk.FlagSequence|zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

// stuck: a node with children cannot be deleted. A client that puts one where that of an
// entry belongs keeps no holder from releasing.
func (m *foreignClient) stuck(t *testing.T) {
	sem := semaphore.New(m.one.Session, "stuck", 1)
	h, err := sem.Acquire(recipetest.Bounded(t), 1)
	require.NoError(t, err)
	waiter := m.two.BeginWith(func() (*session.Hold, error) {
		return semaphore.New(m.two.Session, "stuck", 1).Acquire(recipetest.Bounded(t), 1)
	})
	var entries []string
	recipetest.Until(t, "a waiter", func() bool { entries = entriesBelow(t, m.conn, m.root+"/stuck"); return len(entries) == 2 })
	m.put(t, "stuck", "holders/"+guidOf(slices.MaxFunc(entries, bySequence))+"/child", "") // where its admission will be recorded
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
	m.put(t, "stuck-ledger", "records/ledger/child", "")
	recipetest.Unlock(t, h)
	h = robust(m.two)
	assert.Equal(t, engine.PastDied, recipetest.Previous(h), "the name could not be deleted")
	recipetest.Unlock(t, h)
}

// marked: another client marks its entry as admitted, by a node that stays when the entry
// ends. The waiter behind that entry is granted all the same when the entry ends.
func (m *foreignClient) marked(t *testing.T) {
	sem := semaphore.New(m.one.Session, "marked", 1)
	h, err := sem.Acquire(recipetest.Bounded(t), 1)
	require.NoError(t, err)
	path, err := m.conn.Create(m.root+"/marked/0123456789abcdefw1-lock-", nil, zk.FlagSequence|zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	m.put(t, "marked", "holders/"+guidOf(path), "")
	waiter := m.two.BeginWith(func() (*session.Hold, error) {
		return semaphore.New(m.two.Session, "marked", 1).Acquire(recipetest.Bounded(t), 1)
	})
	recipetest.Until(t, "a waiter", func() bool { return len(entriesBelow(t, m.conn, m.root+"/marked")) == 3 })
	recipetest.Unlock(t, h)
	waiter.Waits(t)
	require.NoError(t, m.conn.Delete(path, -1))
	recipetest.Unlock(t, waiter.Granted(t))
}

// guidOf returns the random part of the name of an entry.
func guidOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:][:16] }

// bySequence orders entries as the servers numbered them.
func bySequence(a, b string) int { return strings.Compare(a[len(a)-10:], b[len(b)-10:]) }

// deleteChildless deletes each node of a tree that has no child, except for those of sessions, as
// clean-up jobs of other programs do.
func deleteChildless(conn *zk.Conn, path string) {
	names, stat, err := conn.Children(path)
	if err != nil || stat.EphemeralOwner != 0 {
		return
	}
	for _, name := range names {
		deleteChildless(conn, path+"/"+name)
	}
	_ = conn.Delete(path, -1)
}

// TestACleanUpFailsNoCall: another program deletes each childless node below the root, all the time:
// folders, and the limit of a semaphore.
func TestACleanUpFailsNoCall(t *testing.T) {
	t.Parallel()
	e, root := shared(t)
	over := make(chan struct{})
	var cleaner, users sync.WaitGroup
	conn := e.Client(t)
	cleaner.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				deleteChildless(conn, root)
			}
		}
	})
	for range 3 {
		p := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
		for name, acquire := range map[string]func(context.Context) (*session.Hold, error){
			"semaphore": func(ctx context.Context) (*session.Hold, error) {
				return semaphore.New(p.Session, "gpu", 2).Acquire(ctx, 1)
			},
			"mutex": mutex.New(p.Session, "jobs/m").Lock,
		} {
			users.Go(func() {
				for range 100 {
					h, err := acquire(recipetest.Bounded(t))
					if !assert.NoError(t, err, name) {
						return
					}
					recipetest.UnlockInTrouble(t, h)
				}
			})
		}
	}
	users.Wait()
	close(over)
	cleaner.Wait()
}
