package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zktest"
)

// inside counts the holders at a time.
type inside struct{ now, most atomic.Int64 }

func (in *inside) visit() {
	in.most.Store(max(in.most.Load(), in.now.Add(1)))
	in.now.Add(-1)
}

// watched opens a client whose requests are recorded.
func watched(t *testing.T, root string, servers ...string) (*lockClient, *wire) {
	t.Helper()
	w := &wire{}
	p := newClient(t, root, recipetest.CalmTTL)
	p.opts.Dial = w.dial
	return p.open(t, servers...), w
}

// rests waits until every request is answered and nothing but heartbeats has been sent
// for a moment. Then it begins to count anew.
func rests(t *testing.T, wires ...*wire) {
	t.Helper()
	sum := func() (sent int, idle bool) {
		idle = true
		for _, w := range wires {
			all, back := w.answered()
			sent += len(all)
			for _, f := range all {
				_, is := back[f.Xid()]
				idle = idle && is
			}
		}
		return sent, idle
	}
	last, since := 0, recipetest.Now()
	recipetest.Until(t, "a rest", func() bool {
		if n, idle := sum(); n != last || !idle {
			last, since = n, recipetest.Now()
		}
		return recipetest.Now().Sub(since) > 60*time.Millisecond
	})
	for _, w := range wires {
		w.forget()
	}
}

// awaitWatches waits until a session watches so many entries more than when counting
// began: a waiter its own and the one before it, a holder that did not have to
// wait its own, after a moment.
func awaitWatches(t *testing.T, w *wire, entries int) {
	t.Helper()
	recipetest.Until(t, "watches", func() bool {
		return w.count(func(f zkframe.Frame) bool { return f.Op() == zkframe.OpGetData && f.Watches() }) == entries
	})
}

// handOff counts requests by kind, and the bytes that came back, without those of listings. It
// leaves out what a hold sends after a second, whatever else happens: the time of its grant.
func handOff(wires ...*wire) (byKind map[int32]int, down int) {
	byKind = map[int32]int{}
	for _, w := range wires {
		all, back := w.answered()
		for _, f := range slices.DeleteFunc(all, stores) {
			if byKind[f.Op()]++; f.Op() != zkframe.OpGetChildren2 {
				down += back[f.Xid()]
			}
		}
	}
	return byKind, down
}

// stores reports whether a request makes a node next to a queue.
func stores(f zkframe.Frame) bool {
	return slices.ContainsFunc(f.Parts(), func(p zkframe.Part) bool {
		return (p.Op == zkframe.OpCreate || p.Op == zkframe.OpCreateContainer) && strings.Contains(p.Path, "/%v2")
	})
}

// handOffCostsLittle, however long the queue is: a release is one request, and the next
// holder reads nothing, also where the servers enforce no permissions.
func handOffCostsLittle(t *testing.T) {
	shared, root := shared(t)
	for _, e := range []*zktest.Ensemble{shared, zktest.New(t, lax())} {
		for try := 0; !handsOnCheaply(t, e, fmt.Sprint(root, "/", try)); try++ {
			require.NoError(t, t.Context().Err())
		}
	}
}

// handsOnCheaply reports whether it could count: not if a release was not answered in its
// time, as on a machine that is too busy. Such a release is sent again.
func handsOnCheaply(t *testing.T, e *zktest.Ensemble, root string) bool {
	t.Helper()
	conn := e.Client(t)
	one, oneWire := watched(t, root, e.Endpoints()...)
	two, twoWire := watched(t, root, e.Endpoints()...)
	three, threeWire := watched(t, root, e.Endpoints()...)
	held := one.Lock(t, "x")
	awaitWatches(t, oneWire, 1)
	second := two.Begin(recipetest.Bounded(t), "x")
	awaitEntries(t, conn, root+"/x", 2)
	awaitWatches(t, twoWire, 2)
	rests(t, oneWire, twoWire, threeWire)
	if !answered(t, held.Unlock()) {
		return false
	}
	next := second.Granted(t)
	sent, _ := handOff(twoWire)
	assert.Empty(t, sent, "requests of the next one")
	sent, _ = handOff(oneWire)
	isRelease(t, sent, "requests of the one before")
	rests(t, oneWire, twoWire)

	third := three.Begin(recipetest.Bounded(t), "x")
	awaitEntries(t, conn, root+"/x", 2)
	awaitWatches(t, threeWire, 2)
	fourth := one.Begin(recipetest.Bounded(t), "x")
	awaitEntries(t, conn, root+"/x", 3)
	awaitWatches(t, oneWire, 3) // its own, the nearest and the second nearest
	rests(t, oneWire, twoWire, threeWire)
	if !answered(t, next.Unlock()) {
		return false
	}
	next = third.Granted(t)
	sent, down := handOff(twoWire, threeWire)
	t.Logf("second to third: %v, %d bytes back", sent, down)
	isRelease(t, sent, "third knew that only the second was ahead")
	rests(t, oneWire, twoWire, threeWire)

	if !answered(t, next.Unlock()) {
		return false
	}
	next = fourth.Granted(t)
	sent, down = handOff(oneWire, threeWire)
	t.Logf("third to fourth: %v, %d bytes back", sent, down)
	isRelease(t, sent, "and fourth only the third")
	assert.Less(t, down, 400)
	answered(t, next.Unlock())
	return true
}

// isRelease asserts that the requests of a hand-off were one release.
func isRelease(t *testing.T, sent map[int32]int, why string) {
	t.Helper()
	assert.Equal(t, map[int32]int{zkframe.OpMulti: 1}, sent, why)
}

// answered reports whether an Unlock was acknowledged in its time, and fails the test if
// it returned another error than ErrReleasePending.
func answered(t *testing.T, err error) bool {
	t.Helper()
	if errors.Is(err, session.ErrReleasePending) {
		return false
	}
	require.NoError(t, err)
	return true
}

// longQueueIsHardlyEverListed has a thousand requests wait, of a few sessions. A release is
// sent when the release before it has been answered: a session whose own release is not
// answered yet lists the queue before it is granted its next entry.
func longQueueIsHardlyEverListed(t *testing.T) {
	e, root := shared(t)
	for try := range 3 {
		if longQueue(t, e, fmt.Sprint(root, "/", try)) {
			return
		}
	}
	assert.Fail(t, "the queue was listed often, three times")
}

// longQueue reports whether the queue was hardly ever listed. It fails the test if not,
// unless the machine is slow: a waiter may read when the queue rests between two hand-offs.
func longQueue(t *testing.T, e *zktest.Ensemble, root string) bool {
	t.Helper()
	const n, sessions, fast = 1000, 4, 2 * time.Millisecond
	conn := e.Client(t)
	var clients [sessions]*lockClient
	var wires [sessions]*wire
	for i := range clients {
		clients[i], wires[i] = watched(t, root, e.Endpoints()...)
	}
	held := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...).Lock(t, "x")
	ctx, cancel := context.WithTimeout(t.Context(), 3*recipetest.Patience)
	defer cancel()
	requests := make([]*recipetest.Request, n)
	for i := range requests {
		requests[i] = clients[i%sessions].Begin(ctx, "x")
	}
	awaitEntries(t, conn, root+"/x", n+1)
	for _, p := range clients {
		p.Stands(t, n/sessions)
	}
	rests(t, wires[:]...)
	began := recipetest.Now()
	recipetest.Unlock(t, held)
	var in inside
	var drained sync.WaitGroup
	var answers sync.Mutex
	for _, r := range requests {
		drained.Go(func() {
			<-r.Done
			if assert.NoError(t, r.Err) {
				in.visit()
				answers.Lock()
				defer answers.Unlock()
				recipetest.Unlock(t, r.Hold)
			}
		})
	}
	drained.Wait()
	took := recipetest.Now().Sub(began)
	byKind, down := handOff(wires[:]...)
	t.Logf("%d hand-offs in %v: requests by kind %v, %d bytes back", n, took, byKind, down)

	assert.EqualValues(t, 1, in.most.Load())
	assert.LessOrEqual(t, byKind[zkframe.OpGetData], n)
	assert.Less(t, down/n, 400, "bytes for each hand-off")
	for _, p := range clients {
		p.Kept(t)
	}
	// One for each session, if it has waited for seconds, or if a release was answered too late.
	rarely := byKind[zkframe.OpGetChildren2] < n/20
	assert.True(t, rarely || took/n > fast, "listings of the queue: %d", byKind[zkframe.OpGetChildren2])
	return rarely
}

// foreignWritesGrantNothing: third clients write to entries (Curator's Revoker does) and
// to the folder at the worst moments, while waiters give up and holders release.
func foreignWritesGrantNothing(t *testing.T) {
	e, root := shared(t)
	written, refused := foreignWrites(t, e, root)
	assert.Zero(t, written, "writes into entries")
	assert.Greater(t, refused, int64(40))
	written, refused = foreignWrites(t, zktest.New(t, lax()), root)
	assert.Greater(t, written, int64(40))
	assert.Zero(t, refused, "writes refused")
}

func foreignWrites(t *testing.T, e *zktest.Ensemble, root string) (written, refused int64) {
	const rounds = 40
	conn := e.Client(t)
	var clients [4]*lockClient
	for i := range clients {
		clients[i] = newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	}
	var in inside
	var done, denied atomic.Int64
	for round := range rounds {
		name := fmt.Sprint("x", round)
		dir := root + "/" + name
		held := clients[0].Lock(t, name)
		ctx, giveUp := context.WithCancel(recipetest.Bounded(t))
		quitter := clients[1].Begin(ctx, name)
		awaitEntries(t, conn, dir, 2)
		third := clients[2].Begin(recipetest.Bounded(t), name)
		awaitEntries(t, conn, dir, 3)
		last := clients[3].Begin(recipetest.Bounded(t), name)
		names := awaitEntries(t, conn, dir, 4)
		if round%3 > 0 {
			<-time.After(5 * time.Millisecond) // until the watches are armed
		}
		var writing sync.WaitGroup
		for range 2 {
			writing.Go(func() { scribble(conn, dir, names, &done, &denied) })
		}
		<-time.After(rand.N(2 * time.Millisecond))
		giveUp()
		recipetest.Wait(t, quitter.Done, "the waiter that gives up")
		require.ErrorIs(t, quitter.Err, session.ErrNotAcquired)
		awaitEntries(t, conn, dir, 3)
		<-time.After(rand.N(3 * time.Millisecond))
		third.Waits(t)
		last.Waits(t)
		in.now.Add(1) // the first still holds
		var turns sync.WaitGroup
		for _, r := range []*recipetest.Request{third, last} {
			turns.Go(func() {
				<-r.Done
				if assert.NoError(t, r.Err) {
					in.visit()
					recipetest.Unlock(t, r.Hold)
				}
			})
		}
		in.now.Add(-1)
		recipetest.Unlock(t, held)
		turns.Wait()
		writing.Wait()
		assert.Less(t, third.At, last.At)
	}
	assert.EqualValues(t, 1, in.most.Load(), "holders at a time")
	for _, p := range clients {
		p.Kept(t)
	}
	return done.Load(), denied.Load()
}

// scribble writes to entries and to their folder, in any order, and counts the writes
// into entries that were done and those that were refused.
func scribble(conn *zk.Conn, dir string, names []string, done, denied *atomic.Int64) {
	for range 4 {
		for _, i := range rand.Perm(len(names)) {
			switch _, err := conn.Set(dir+"/"+names[i], []byte("__REVOKE__"), -1); {
			case err == nil:
				done.Add(1)
			case errors.Is(err, zk.ErrNoAuth):
				denied.Add(1)
			default: // it may be gone
			}
			_, _ = conn.Set(dir, []byte("fairlock1 "+strings.Repeat("x", i)), -1)
		}
	}
}
