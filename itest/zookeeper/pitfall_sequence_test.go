package zookeeper

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
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

// inside counts the holders at a time.
type inside struct{ now, most atomic.Int64 }

func (in *inside) visit() {
	in.most.Store(max(in.most.Load(), in.now.Add(1)))
	in.now.Add(-1)
}

// theLastNumbers: the sequence numbers of a folder end at 2147483647, which every join gets
// from then on.
func theLastNumbers(t *testing.T) {
	const lockers, turns = 20, 3
	e := zktest.New(t, nil)
	for _, last := range []int32{lastNumbers - 3, math.MaxInt32 - 7} {
		name := fmt.Sprint("x", last)
		setSequence(t, e, "/fairlock/"+name, last)
		var clients [4]*lockClient
		for i := range clients {
			clients[i] = newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)
		}
		var in inside
		var token, place, low atomic.Int64
		recipetest.Each(lockers, func(i int) {
			for range turns {
				err := mutex.New(clients[i%4].Session, name).Do(recipetest.Bounded(t), func(_ context.Context, h *session.Hold) error {
					in.visit()
					assert.Greater(t, int64(h.Token()), token.Swap(int64(h.Token())))
					ref := recipetest.Refs(h)[0]
					assert.LessOrEqual(t, ref.Place, int64(lastNumbers))
					if place.Store(ref.Place); ref.Place <= 1<<20 {
						low.Add(1)
					}
					return nil
				})
				recipetest.Released(t, err)
			}
		})

		assert.EqualValues(t, 1, in.most.Load(), "holders at a time")
		assert.GreaterOrEqual(t, place.Load(), low.Load(), "the sequence numbers have begun anew, and once only")
		assert.Less(t, place.Load(), low.Load()+5+lockers, "few numbers are used to make the folder, by first joins, or by attempts that were not answered")
		t.Logf("from %d: %d of %d turns after the new beginning", last, low.Load(), lockers*turns)
		assert.Contains(t, clients[0].Log.String()+clients[1].Log.String()+clients[2].Log.String()+clients[3].Log.String(),
			"nearly used up")
		for _, p := range clients {
			p.Kept(t)
		}
	}
}

// beganAnew requires that a hold has one of the first numbers of its folder, of which one
// is used when the folder is made.
func beganAnew(t *testing.T, h *session.Hold) {
	t.Helper()
	assert.LessOrEqual(t, recipetest.Refs(h)[0].Place, int64(2), "the sequence numbers have begun anew")
}

// tryAtTheLastNumbers does that with tries.
func tryAtTheLastNumbers(t *testing.T) {
	e := zktest.New(t, nil)
	const dir = "/fairlock/x"
	conn := setSequence(t, e, dir, lastNumbers-1)
	p := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)
	m := mutex.New(p.Session, "x")
	h, err := m.TryLock(recipetest.Bounded(t))
	require.NoError(t, err)
	require.EqualValues(t, lastNumbers, recipetest.Refs(h)[0].Place)
	_, err = m.TryLock(recipetest.Bounded(t))
	require.ErrorIs(t, err, session.ErrNotAcquired)
	waiting := p.Begin(recipetest.Bounded(t), "x")
	recipetest.Until(t, "a request with one of the last numbers", func() bool { return made(t, conn, dir) > lastNumbers })
	_, err = m.TryLock(recipetest.Bounded(t))
	require.ErrorIs(t, err, session.ErrNotAcquired)
	waiting.Waits(t)
	recipetest.Unlock(t, h)
	next := waiting.Granted(t)
	beganAnew(t, next)
	assert.Greater(t, next.Token(), h.Token())
	recipetest.Unlock(t, next)

	setSequence(t, e, dir, lastNumbers)
	_, err = m.Queue(recipetest.Bounded(t)) // a try does not wait as long as it may take to connect again
	require.NoError(t, err)
	h, err = m.TryLock(recipetest.Bounded(t))
	require.NoError(t, err)
	beganAnew(t, h)
	assert.Greater(t, h.Token(), next.Token())
	recipetest.Unlock(t, h)
}

// othersAtTheLastNumbers: clients that do not know of the last numbers keep the queue from
// beginning anew, and cannot be excluded.
func othersAtTheLastNumbers(t *testing.T) {
	e := zktest.New(t, nil)
	const dir = "/fairlock/x"
	conn := setSequence(t, e, dir, math.MaxInt32-3)
	other := zk.NewLock(conn, dir, zk.WorldACL(zk.PermAll))
	require.NoError(t, other.Lock())
	p := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...)
	m := mutex.New(p.Session, "x")
	for name, lock := range map[string]func(context.Context) (*session.Hold, error){"Lock": m.Lock, "TryLock": m.TryLock} {
		_, err := lock(recipetest.Bounded(t))
		t.Log(name, err)
		if name == "TryLock" {
			require.ErrorIs(t, err, session.ErrNotAcquired)
			continue
		}
		require.ErrorIs(t, err, zkbackend.ErrSequence)
		require.ErrorIs(t, err, session.ErrRefused)
	}
	p.Log.WaitFor(t, "level=ERROR") // a moment later
	assert.Len(t, children(t, conn, dir), 1, "the other's")
	require.NoError(t, other.Unlock())

	h := p.Lock(t, "x")
	beganAnew(t, h)
	again := make(chan error, 1)
	go func() { again <- other.Lock() }()
	awaitEntries(t, conn, dir, 2)
	recipetest.Unlock(t, h)
	require.NoError(t, recipetest.Wait(t, again, "the other's turn in the new queue"))
	require.NoError(t, other.Unlock())

	// Folders of other names in it keep it from being removed.
	conn = setSequence(t, e, dir, lastNumbers)
	folder(t, conn, dir+"/y")
	folder(t, conn, dir+"/z")
	require.ErrorIs(t, second(m.Lock(recipetest.Bounded(t))), zkbackend.ErrSequence)
	require.ErrorIs(t, second(m.TryLock(recipetest.Bounded(t))), zkbackend.ErrSequence)
	assert.ElementsMatch(t, []string{"y", "z"}, children(t, conn, dir))
	recipetest.Unlock(t, p.Lock(t, "x/y"))
}

// second is the error of a call that returns something else too.
func second[T any](_ T, err error) error { return err }
