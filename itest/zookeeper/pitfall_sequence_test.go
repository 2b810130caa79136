package zookeeper

import (
	"context"
	"math"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// lastNumbers is where zkbackend begins to call numbers the last ones. The place of an
// entry is its number and one.
const lastNumbers = math.MaxInt32 - 1<<20

// setSequence restarts the server, and returns a new client: the library may wait for
// minutes for a server that was killed while the client was connected to it.
func setSequence(t *testing.T, e *zktest.Ensemble, dir string, n int32) *zk.Conn {
	t.Helper()
	require.NoError(t, e.SetSequence(recipetest.Bounded(t), folder(t, e.Client(t), dir), n))
	return e.Client(t)
}

// theLastNumbers: a request with one of the last numbers is refused and leaves nothing. The
// holder and the waiter before it are served, and then an operator deletes the folder.
func theLastNumbers(t *testing.T) {
	const dir = "/fairlock/x"
	e := zktest.New(t, nil)
	conn := setSequence(t, e, dir, lastNumbers-3)
	p := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)
	m := mutex.New(p.Session, "x")
	refused := func() {
		for name, lock := range map[string]func(context.Context) (*session.Hold, error){"Lock": m.Lock, "TryLock": m.TryLock} {
			err := second(lock(recipetest.Bounded(t)))
			require.ErrorIs(t, err, session.ErrRefused, name)
			require.ErrorIs(t, err, zkbackend.ErrSequence, name)
			assert.ErrorContains(t, err, dir, name)
		}
	}

	h := p.Lock(t, "x") // its first join in the folder takes two numbers
	require.EqualValues(t, lastNumbers-2, recipetest.Refs(h)[0].Place)
	waiting := p.Begin(recipetest.Bounded(t), "x")
	awaitEntries(t, conn, dir, 2)
	err := second(m.Lock(recipetest.Bounded(t)))
	require.ErrorIs(t, err, zkbackend.ErrSequence)
	assert.Len(t, children(t, conn, dir), 2, "the entry of the request that was refused is gone")
	require.ErrorIs(t, conn.Delete(dir, -1), zk.ErrNotEmpty, "an operator deletes no queue in use")
	recipetest.Unlock(t, h)
	next := waiting.Granted(t)
	assert.Greater(t, next.Token(), h.Token())
	recipetest.Unlock(t, next)
	awaitEntries(t, conn, dir, 0)
	refused()

	require.NoError(t, conn.Delete(dir, -1))
	last := p.Lock(t, "x")
	assert.LessOrEqual(t, recipetest.Refs(last)[0].Place, int64(2), "the sequence numbers have begun anew")
	assert.Greater(t, last.Token(), next.Token())
	recipetest.Unlock(t, last)
	p.Kept(t)
}

// theVeryLastNumber: from some time on, every join gets 2147483647.
func theVeryLastNumber(t *testing.T) {
	const dir = "/fairlock/x"
	e := zktest.New(t, nil)
	conn := setSequence(t, e, dir, math.MaxInt32-7)
	other := zk.NewLock(conn, dir, zk.WorldACL(zk.PermAll))
	require.NoError(t, other.Lock())
	p := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)
	recipetest.Each(20, func(int) {
		assert.ErrorIs(t, second(mutex.New(p.Session, "x").Lock(recipetest.Bounded(t))), zkbackend.ErrSequence)
	})
	assert.Len(t, children(t, conn, dir), 1, "the other's")
	require.NoError(t, other.Unlock())
	p.Kept(t)
}

// second is the error of a call that returns something else too.
func second[T any](_ T, err error) error { return err }
