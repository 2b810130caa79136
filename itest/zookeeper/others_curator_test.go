package zookeeper

import (
	"context"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/child"
	"github.com/fairlock/fairlock/recipes/mutex"
)

func TestTheLineIsSharedWithCuratorAndGoZooKeeper(t *testing.T) {
	t.Parallel()
	e, root := shared.use(t)
	p := newParty(t, root, calmTTL).open(t, e.Servers()...)
	curator := startCurator(t, e)
	c := &crowd{e: e, fair: p, theirs: map[string]*program{"curator": curator}}
	c.rotations(t, "fairlock", "curator", "gozk")
	assert.Zero(t, logged(p, "several protocols"))
	t.Run("ForeignChildrenAreIgnored", func(t *testing.T) {
		admin := e.Conn(t)
		for _, name := range []string{"", "/README", "/config", "/_c_x", "/lock-12345678901", "/__lock__x"} {
			_, err := admin.Create(root+"/plain"+name, []byte("x"), 0, zk.WorldACL(zk.PermAll))
			require.NoError(t, err, name)
		}
		// Curator sorts these behind all entries. zk.Lock fails at them.
		c.oneLine(t, "plain", []string{"curator", "fairlock", "fairlock", "curator", "fairlock"})
		assert.Len(t, children(t, admin, root+"/plain"), 5)
	})
	t.Run("CuratorRevokes", func(t *testing.T) { curatorRevokes(t, root, curator, p) })
	t.Run("CuratorsReadWriteLockIsTold", func(t *testing.T) { readWriteIsTold(t, root, curator) })
	p.kept(t)
	// The last: it kills Curator.
	t.Run("CuratorsHolderIsKilled", func(t *testing.T) { curatorIsKilled(t, root, curator, p) })
}

// curatorRevokes is about Curator's way to ask a holder to yield: it writes into
// the holder's entry. Ours do not yield, and nothing else comes of it.
func curatorRevokes(t *testing.T, root string, curator *program, p *party) {
	e := shared.ensemble
	lookout := lookAt(t, e, root+"/revoked")
	other := newParty(t, root, calmTTL).open(t, e.Servers()...)
	h := p.lock(t, "revoked")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leaver := p.ask(ctx, "revoked")
	lookout.sees(t, 2)
	next := other.ask(bounded(t), "revoked")
	lookout.sees(t, 3)
	theirs := curator.open(t, "mutex", root+"/revoked")
	theirs.told(t, "acquire")
	lookout.sees(t, 4)
	behind := other.ask(bounded(t), "revoked")
	entries := lookout.sees(t, 5)
	revoker := curator.open(t, "mutex", root+"/revoked")
	for range 3 { // a watch fires once, and must be made again
		for _, entry := range entries {
			revoker.does(t, "revoke", entry)
		}
	}
	data, _, err := lookout.admin.Get(h.Refs()[0].Key)
	require.NoError(t, err)
	require.Equal(t, "__REVOKE__", string(data))
	line, err := mutex.New(p.Session, "revoked").Queue(bounded(t))
	require.NoError(t, err)
	require.Len(t, line, 5)
	assert.EqualValues(t, h.Token(), line[0].Token)

	cancel()
	wait(t, leaver.done, "the end of the waiter")
	lookout.seesEnd(t, entries[1])
	revoker.does(t, "revoke", entries[2])
	next.waits(t)
	assert.Positive(t, h.Valid())
	require.NoError(t, context.Cause(h.Context()))
	require.NoError(t, h.Unlock())
	second := next.granted(t)
	behind.waits(t)
	assert.Empty(t, theirs.answers)
	require.NoError(t, second.Unlock())
	theirs.acquired(t)
	behind.waits(t)
	theirs.does(t, "release")
	require.NoError(t, behind.granted(t).Unlock())
	other.kept(t)
	lookout.seesNothingLeft(t)
}

// curatorIsKilled ends with the session of a holder that nobody gave back.
func curatorIsKilled(t *testing.T, root string, curator *program, p *party) {
	lookout := lookAt(t, shared.ensemble, root+"/killed")
	holder, waiter := curator.open(t, "mutex", root+"/killed"), curator.open(t, "mutex", root+"/killed")
	holder.told(t, "acquire")
	_, token := holder.acquired(t)
	waiter.told(t, "acquire")
	entries := lookout.sees(t, 2)
	next := p.ask(bounded(t), "killed")
	lookout.sees(t, 3)
	killed := now()
	curator.process.Halt()
	h := next.granted(t)
	gone := max(lookout.seesEnd(t, entries[0]), lookout.seesEnd(t, entries[1]))

	assert.Greater(t, int64(h.Token()), token)
	assert.Less(t, next.at.Sub(gone), relooks, "without the look that is made for want of events")
	t.Logf("their entries were gone %s after their end, ours granted %s after that", gone.Sub(killed), next.at.Sub(gone))
	require.NoError(t, h.Unlock())
	lookout.seesNothingLeft(t)
}

// readWriteIsTold has the names of Curator's read-write lock beside a mutex: its
// owners do not see each other's order, and the log says so, once.
func readWriteIsTold(t *testing.T, root string, curator *program) {
	p := newParty(t, root, calmTTL).open(t, shared.ensemble.Servers()...)
	lookout := lookAt(t, shared.ensemble, root+"/rw")
	theirs := curator.open(t, "write", root+"/rw")
	theirs.told(t, "acquire")
	theirs.acquired(t)
	one := p.ask(bounded(t), "rw")
	lookout.sees(t, 2)
	two := p.ask(bounded(t), "rw")
	lookout.sees(t, 3)
	until(t, "the log", func() bool { return logged(p, "several protocols") > 0 })
	one.waits(t)
	theirs.does(t, "release")
	require.NoError(t, one.granted(t).Unlock())
	require.NoError(t, two.granted(t).Unlock())
	lookout.seesNothingLeft(t)
	assert.Equal(t, 1, logged(p, "several protocols"))
	assert.Contains(t, p.log.String(), "__WRIT__")
}

// logged is how many lines of a log have a text.
func logged(p *party, text string) int { return strings.Count(p.log.String(), text) }

// TestWritesToEntriesGrantNobody has somebody write into every entry as soon as
// it is there, as Curator's Revoker would, while three sessions take turns.
func TestWritesToEntriesGrantNobody(t *testing.T) {
	t.Parallel()
	const parties, each = 3, 40
	e, root := shared.use(t)
	lookout := lookAt(t, e, root)
	turns := make(chan child.Turn, parties*each)
	for range parties {
		p := newParty(t, root, calmTTL).open(t, e.Servers()...)
		for range 2 {
			go func() { // ends with its turns, or with the Session
				for range each / 2 {
					h, err := mutex.New(p.Session, "x").Lock(context.Background())
					if !assert.NoError(t, err) {
						return
					}
					u := child.TurnOf(h)
					u.End = now()
					assert.NoError(t, h.Unlock())
					turns <- u
				}
			}()
		}
	}
	var all []child.Turn
	writes := 0
	for len(all) < parties*each {
		_, err := lookout.admin.Set(lookout.newest(), []byte("__REVOKE__"), -1)
		if err == nil {
			writes++
		}
		for more := true; more; {
			select {
			case u := <-turns:
				all = append(all, u)
			default:
				more = false
			}
		}
	}
	lookout.checkTurns(t, all)
	t.Logf("%d writes into entries", writes)
	assert.Greater(t, writes, each)
}
