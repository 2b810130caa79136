package zookeeper

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/itest/child"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/zkbackend"
)

func TestTwentyProcessesTakeTurnsInOrder(t *testing.T) {
	e, root := shared.use(t)
	lookout := lookAt(t, e, root)
	turns := child.Job{
		Do: child.Turns, Servers: e.Servers(), Root: root, Name: "x", TTL: recipetest.CalmTTL, Turns: 10,
	}.TakenByMany(t, 20)

	lookout.checkTurns(t, turns)
	child.LogPace(t, turns)
}

// TestAHundredGoroutinesTakeTurnsInOrder has some of them give up while they
// wait: those leave, and all others keep their places.
func TestAHundredGoroutinesTakeTurnsInOrder(t *testing.T) {
	t.Parallel()
	const goroutines, each = 100, 5
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	e, root := shared.use(t)
	lookout := lookAt(t, e, root)
	p := newClient(t, root, recipetest.CalmTTL).open(t, e.Servers()...)
	m := mutex.New(p.Session, "x")
	type report struct {
		turn child.Turn
		err  error
	}
	reports := make(chan report, goroutines*each)
	for g := range goroutines {
		random := rand.New(rand.NewPCG(seed, uint64(g)))
		go func() { // ends with its turns, or with the Session
			for range each {
				ctx, cancel := context.WithCancel(context.Background())
				if random.IntN(3) == 0 {
					time.AfterFunc(time.Duration(random.Int64N(int64(100*time.Millisecond))), cancel)
				}
				var r report
				h, err := m.Lock(ctx)
				if r.err = err; err == nil {
					r.turn = child.TurnOf(h)
					r.turn.End = recipetest.Now()
					r.err = h.Unlock()
				}
				cancel()
				reports <- r
			}
		}()
	}
	var turns []child.Turn
	gaveUp := 0
	for range goroutines * each {
		r := recipetest.Wait(t, reports, "a turn")
		if r.err == nil {
			turns = append(turns, r.turn)
			continue
		}
		require.ErrorIs(t, r.err, context.Canceled)
		gaveUp++
	}
	p.Kept(t)
	lookout.seesNothingLeft(t)

	require.Positive(t, gaveUp)
	held := map[string]bool{}
	for _, u := range turns {
		held[u.Key] = true
	}
	gone := func(key string) bool { return !held[key] }
	lookout.mu.Lock()
	made, ended := slices.DeleteFunc(slices.Clone(lookout.made), gone), slices.DeleteFunc(slices.Clone(lookout.ended), gone)
	lookout.mu.Unlock()
	child.CheckTurns(t, turns, func(u child.Turn) string { return u.Key }, made, ended)
	child.LogPace(t, turns)
	t.Logf("%d gave up, %d of them after they had joined", gaveUp, len(lookout.made)-len(made))
}

func TestAStoppedHoldersLateWriteIsRefused(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	e, root := shared.use(t)
	lookout := lookAt(t, e, root)
	key := root + "-result"
	_, err := lookout.admin.Create(key, nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	resource := child.NewResource(t)
	old := child.Job{
		Do: child.Hold, Servers: e.Servers(), Root: root, Name: "x", TTL: ttl, Key: key, Resource: resource.URL,
	}.Start(t)
	held := child.Report[child.Held](t, old)
	p := newClient(t, root, recipetest.CalmTTL).open(t, e.Servers()...)
	next := p.Begin(recipetest.Bounded(t), "x")
	lookout.sees(t, 2)

	stopped := recipetest.Now()
	old.Stop(t)
	h := next.Granted(t)
	gone := lookout.seesEnd(t, held.Key)
	ok, err := guarded(lookout.admin, zkbackend.Guard(h), key, "in time")
	require.NoError(t, err)
	require.True(t, ok)
	require.True(t, resource.Put(h.Token()))
	old.Tell(t, "write") // it reads that first when it goes on
	old.Continue(t)
	r := child.Report[child.Written](t, old)
	old.Ends(t)

	r.Refused(t, held.Token, h)
	assert.Greater(t, next.At.Sub(stopped), ttl*3/4, "granted before the holder expired")
	ok, err = guarded(lookout.admin, zkbackend.Guard(h), key, "still in time")
	require.NoError(t, err)
	assert.True(t, ok)
	require.True(t, resource.Put(h.Token()))
	value, stat, err := lookout.admin.Get(key)
	require.NoError(t, err)
	assert.Equal(t, "still in time", string(value))
	assert.EqualValues(t, 2, stat.Version, "writes that went through")
	written, refused := resource.Counts()
	assert.Equal(t, [2]int{2, 1}, [2]int{written, refused}, "writes to the resource that went through, and were refused")
	t.Logf("stopped holder's entry gone after %s, next granted %s later; the holder knew %s after it went on: %s",
		gone.Sub(stopped), next.At.Sub(gone), r.Told, r.Cause)
	recipetest.Unlock(t, h)
	p.Kept(t)
	lookout.seesNothingLeft(t)
}

// TestKilledProcessesLeaveNothing kills a waiter and then the holder: the one
// behind both is granted when the holder has expired, and not before.
func TestKilledProcessesLeaveNothing(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	e, root := shared.use(t)
	lookout := lookAt(t, e, root)
	job := child.Job{Do: child.Hold, Servers: e.Servers(), Root: root, Name: "x", TTL: ttl}
	holder := job.Start(t)
	held := child.Report[child.Held](t, holder)
	waiter := job.Start(t)
	entries := lookout.sees(t, 2)
	p := newClient(t, root, recipetest.CalmTTL).open(t, e.Servers()...)
	next := p.Begin(recipetest.Bounded(t), "x")
	lookout.sees(t, 3)

	killed := recipetest.Now()
	waiter.Kill()
	waiterGone := lookout.seesEnd(t, entries[1])
	next.Waits(t)
	line, err := mutex.New(p.Session, "x").Queue(recipetest.Bounded(t))
	require.NoError(t, err)
	require.Len(t, line, 2)
	assert.Equal(t, holder.Pid(), line[0].Meta.PID)
	holder.Kill()
	holderGone := lookout.seesEnd(t, held.Key)
	h := next.Granted(t)

	assert.Greater(t, waiterGone.Sub(killed), ttl/2, "by expiry")
	assert.Greater(t, int64(h.Token()), held.Token)
	assert.Greater(t, next.At.Sub(waiterGone), ttl*3/4, "granted before the holder expired")
	assert.Less(t, next.At.Sub(holderGone), recipetest.Relooks, "without the look that is made for want of events")
	t.Logf("the waiter's entry was gone %s after its end, the next granted %s after that of the holder", waiterGone.Sub(killed), next.At.Sub(holderGone))
	recipetest.Unlock(t, h)
	p.Kept(t)
	lookout.seesNothingLeft(t)
}
