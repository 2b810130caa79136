package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// numbersUsedAgain: the servers remove a folder that has become empty, and in
// the next one the numbers begin at 0. A delete that comes late must not hit the
// entry that has the number now, and tokens go on.
func numbersUsedAgain(t *testing.T) {
	e := zktest.New(t, &zktest.Options{ContainerCheck: 300 * time.Millisecond})
	conn := e.Client(t)
	reaped := func() {
		t.Helper()
		recipetest.Until(t, "the folder is removed", func() bool {
			there, _, err := conn.Exists("/fairlock/x")
			return err == nil && !there
		})
	}
	slow := drive(t, recipetest.CalmTTL, zkbackend.Options{}, e.Endpoints()...)
	p := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)
	heirs := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)

	old := slow.join(t, "x")
	require.NoError(t, conn.Delete(old.Entry.Key, -1))
	reaped()
	late := p.Lock(t, "x")
	require.NoError(t, conn.Delete(recipetest.Refs(late)[0].Key, -1))
	recipetest.Wait(t, ended(late), "the end of the hold")
	reaped()
	heir := heirs.Lock(t, "x")
	left, err := slow.Leave(recipetest.Bounded(t), driver.LeaveRequest{Ref: old.Entry.Ref})
	require.NoError(t, err)
	require.Equal(t, []driver.Left{driver.WasGone}, left)
	require.ErrorIs(t, late.Unlock(), session.ErrLost)

	for _, place := range []int64{old.Entry.Place, recipetest.Refs(late)[0].Place, recipetest.Refs(heir)[0].Place} {
		assert.LessOrEqual(t, place, int64(2), "sequence numbers have begun anew")
	}
	assert.Len(t, children(t, conn, "/fairlock/x"), 1, "no other entry was deleted")
	assert.Positive(t, heir.Remaining())
	assert.Greater(t, heir.Token(), late.Token())
	assert.Greater(t, int64(late.Token()), old.Entry.Token)
	recipetest.Unlock(t, heir)
	heirs.Kept(t)
}

// foldersVanishAtAnyMoment has the servers remove folders as fast as they can,
// and locks that are taken at just that rate.
func foldersVanishAtAnyMoment(t *testing.T) {
	const turns = 60
	e := zktest.New(t, &zktest.Options{ContainerCheck: 5 * time.Millisecond})
	conn := e.Client(t)
	p := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)
	fresh := 0
	recipetest.Each(4, func(i int) {
		m := mutex.New(p.Session, fmt.Sprint("a/b/x", i))
		var token session.Token
		for range turns {
			lock := m.Lock
			if rand.N(2) == 0 {
				lock = m.TryLock
			}
			ctx := recipetest.Bounded(t)
			h, err := lock(ctx)
			for errors.Is(err, session.ErrUnavailable) && ctx.Err() == nil {
				h, err = lock(ctx) // a try waits for an answer for at most 5 s, less than servers of a busy machine may take
			}
			if !assert.NoError(t, err) {
				return
			}
			assert.Greater(t, h.Token(), token)
			token = h.Token()
			if recipetest.Refs(h)[0].Place <= 2 && i == 0 {
				fresh++
			}
			recipetest.Unlock(t, h)
			<-time.After(rand.N(12 * time.Millisecond))
		}
	})
	t.Logf("%d of %d turns were the first of a new folder", fresh, turns)
	assert.Greater(t, fresh, turns/20)
	recipetest.Until(t, "all is removed", func() bool {
		there, _, err := conn.Exists("/fairlock/a")
		return err == nil && !there
	})
	p.Kept(t)
}

// foreignChildrenAreLeftAlone, whatever they are called, and names that go on
// where others end do not meet. Those whose paths are used as locks have no data.
func foreignChildrenAreLeftAlone(t *testing.T) {
	e, root := shared(t)
	conn := e.Client(t)
	foreign := []string{
		"_c_x", "_c_", "README", "config", "lock-", "lock-1", "x-lock-000000000", "settle", "settle/deep", "settle/config",
		"0000000000", "x-1-0000000000", "lease-0000000000",
	}
	dir := folder(t, conn, root+"/orders")
	stats := map[string]zk.Stat{}
	names := []string{"orders", "orders/settle", "orders/settle/deep", "orders/settle/deep/er", "orders/config"}
	for _, name := range foreign {
		data := []byte("not ours")
		if slices.Contains(names, "orders/"+name) {
			data = nil
		}
		_, err := conn.Create(dir+"/"+name, data, 0, zk.WorldACL(zk.PermAll))
		require.NoError(t, err, name)
	}
	for _, name := range foreign {
		_, stat, err := conn.Get(dir + "/" + name)
		require.NoError(t, err)
		stats[name] = *stat
	}
	p := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	other := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	var held []*session.Hold
	for _, name := range names {
		held = append(held, p.Lock(t, name))
	}
	for i, name := range names {
		entries, err := other.Queue(recipetest.Bounded(t), name)
		require.NoError(t, err)
		assert.Len(t, entries, 1, name)
		_, err = mutex.New(other.Session, name).TryLock(recipetest.Bounded(t))
		require.ErrorIs(t, err, session.ErrNotAcquired, name)
		waiting := other.Begin(recipetest.Bounded(t), name)
		p.Queued(t, name, 2)
		recipetest.Unlock(t, held[i])
		recipetest.Unlock(t, waiting.Granted(t))
		p.Queued(t, name, 0)
		h, err := mutex.New(other.Session, name).TryLock(recipetest.Bounded(t))
		require.NoError(t, err, "free, whatever else is there")
		recipetest.Unlock(t, h)
	}

	for _, name := range foreign {
		_, stat, err := conn.Get(dir + "/" + name)
		require.NoError(t, err, name)
		assert.Equal(t, stats[name].Czxid, stat.Czxid, name)
		assert.Equal(t, stats[name].DataLength, stat.DataLength, name)
	}
	awaitEmpty(t, conn, dir)
	p.Kept(t)
	other.Kept(t)
}

// tokensAlwaysRise, whatever happens to servers and folders.
func tokensAlwaysRise(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Members: 3})
	p := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)
	var token session.Token
	turn := func(after string) {
		t.Helper()
		h := p.Lock(t, "x")
		assert.Greater(t, h.Token(), token, after)
		token = h.Token()
		recipetest.UnlockInTrouble(t, h)
	}
	folderGone := func() {
		t.Helper()
		conn := e.Client(t) // a new client, because the library may wait for killed servers that it knows
		awaitEntries(t, conn, "/fairlock/x", 0)
		require.NoError(t, conn.Delete("/fairlock/x", -1))
	}
	turn("at first")
	turn("again")
	leader, err := e.Leader(recipetest.Bounded(t))
	require.NoError(t, err)
	e.Member(leader).Kill()
	turn("the leader was killed")
	require.NoError(t, e.Member(leader).Restart(recipetest.Bounded(t)))
	turn("it is back")
	folderGone()
	turn("the folder was deleted")
	all := recipetest.Bounded(t)
	for i := range e.Len() {
		e.Member(i).Kill()
	}
	restarted := make(chan error, e.Len())
	for i := range e.Len() {
		go func(ctx context.Context) { restarted <- e.Member(i).Restart(ctx) }(all)
	}
	waiting := p.Begin(recipetest.Bounded(t), "x")
	for range e.Len() {
		require.NoError(t, recipetest.Wait(t, restarted, "a member is back"))
	}
	h := waiting.Granted(t)
	assert.Greater(t, h.Token(), token, "all were restarted")
	assert.Greater(t, h.Token()>>32, session.Token(1), "an epoch of its own")
	recipetest.UnlockInTrouble(t, h)
}
