package zookeeper

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

// TestManyWaitersInOneSessionCostLittle is alone on the machine: it measures. In the
// first round buffers and tables grow, which stay; the second shows what a waiter costs.
func TestManyWaitersInOneSessionCostLittle(t *testing.T) {
	const n = 1000
	e, root := shared(t)
	admin := e.Client(t)
	p := newClient(t, root, 30*time.Second)
	h := &p.opts.Session.Hooks // what those for requests would remember is not the client's
	*h = session.Hooks{SessionOpened: h.SessionOpened, SessionLost: h.SessionLost}
	p.open(t, e.Endpoints()...)
	watched := func() int { return watches(t, e) }
	var before, waiting int64
	var threads, waitingThreads int
	for range 2 {
		before, threads = both.Settled(t, watched), runtime.NumGoroutine()
		h := p.Lock(t, "x")
		waiters := make([]*recipetest.Request, n)
		for i := range waiters {
			waiters[i] = p.Begin(t.Context(), "x")
		}
		awaitEntries(t, admin, root+"/x", n+1)
		waiting, waitingThreads = both.Settled(t, watched), runtime.NumGoroutine()
		t.Logf("%d bytes of heap for each that waits, %.2f goroutines, %.2f watches at the server",
			(waiting-before)/n, float64(waitingThreads-threads)/n, float64(watches(t, e))/n)
		begin := recipetest.Now()
		recipetest.Unlock(t, h)
		inTurn(t, waiters)
		t.Logf("all had their turn in %s", recipetest.Now().Sub(begin))
		recipetest.Until(t, "nothing is left", func() bool { return entries(t, admin, root)+records(t, admin, root) == 0 })
	}

	assert.Less(t, (waiting-before)/n, int64(4<<10), "bytes of heap for each that waits")
	assert.LessOrEqual(t, waitingThreads-threads, 2*n+20, "at most one goroutine in addition to the caller's")
	both.FewGoroutines(t, threads+20)
	p.Kept(t)
}

// inTurn waits for the grant of each request, in the order of their tokens, which is not
// the order of the calls, and releases it.
func inTurn(t *testing.T, waiters []*recipetest.Request) {
	t.Helper()
	granted := make(chan *session.Hold, len(waiters))
	for _, r := range waiters {
		go func() {
			<-r.Done
			granted <- r.Hold
		}()
	}
	var last session.Token
	for range waiters {
		h := recipetest.Wait(t, granted, "a grant")
		require.NotNil(t, h)
		assert.Greater(t, h.Token(), last)
		last = h.Token()
		recipetest.Unlock(t, h)
	}
}

// TestAnIdleSessionSendsHeartbeatsOnly has a hold, and a waiter without events. Except for
// heartbeats, only the timer of the waiter sends a request: it reads the queue at most once
// in the time that the test watches.
func TestAnIdleSessionSendsHeartbeatsOnly(t *testing.T) {
	t.Parallel()
	const ttl, watching = 4 * time.Second, 6 * time.Second
	e, root := shared(t)
	var mu sync.Mutex
	sent := map[int32]int{}
	w := &wire{before: func(f zkframe.Frame) bool {
		mu.Lock()
		defer mu.Unlock()
		if proves(f) {
			sent[f.Op()]++
		}
		return true
	}}
	p := newClient(t, root, ttl)
	p.opts.Dial = w.dial
	p.open(t, e.Endpoints()...)
	h := p.Lock(t, "x")
	r := p.Begin(recipetest.Bounded(t), "x")
	awaitEntries(t, e.Client(t), root+"/x", 2)
	// The watches are made, one of them after a moment.
	recipetest.Until(t, "watches", func() bool { return w.count(func(f zkframe.Frame) bool { return f.Op() == zkframe.OpGetData }) >= 2 })
	recipetest.Until(t, "the record of the grant", func() bool {
		queue, err := p.Session.Queue(recipetest.Bounded(t), "x")
		return err == nil && len(queue) == 2 && !queue[0].Granted.IsZero()
	})
	others := func() (ops []int32) {
		requests, _ := w.seen()
		for _, f := range requests {
			if !proves(f) {
				ops = append(ops, f.Op())
			}
		}
		return ops
	}
	recipetest.Until(t, "all that these began", func() bool { // which is quiet then for a second
		w.forget()
		time.Sleep(time.Second)
		return len(others()) == 0
	})
	var more []int32
	var stalled, window time.Duration
	machine := pace(t)
	recipetest.Until(t, "that the session keeps its connection", func() bool { // a busy machine may end it
		w.forget()
		mu.Lock()
		clear(sent)
		mu.Unlock()
		before, began := w.connections(e.Endpoints()[0]), time.Now()
		time.Sleep(watching) // nothing happens, so there is nothing to wait for
		more = others()
		stalled, _ = machine.Between(began, time.Now())
		window = time.Since(began)
		return w.connections(e.Endpoints()[0]) == before
	})
	mu.Lock()
	proofs := maps.Clone(sent) // the session goes on
	mu.Unlock()
	total := proofs[zkframe.OpSync] + proofs[zkframe.OpPing] + proofs[zkframe.OpMulti]
	r.Waits(t)
	recipetest.Unlock(t, h)
	recipetest.Unlock(t, r.Granted(t))

	perMinute := float64(total) * float64(time.Minute) / float64(watching)
	t.Logf("%v in %s: %.0f a minute with a TTL of %s, %.0f with the default", proofs, watching, perMinute, ttl,
		perMinute*float64(ttl)/float64(session.DefaultTTL))
	// A waiter reads the queue again after 7.5 s to 12.5 s without an event.
	rereads := slices.Repeat([]int32{zkframe.OpGetChildren2}, 1+int(window/(7500*time.Millisecond)))
	assert.Subset(t, rereads, more, "requests that are no heartbeats")
	assert.LessOrEqual(t, len(more), len(rereads), "requests that are no heartbeats")
	// Every eighth of the TTL, and the library's own pings every third.
	want := float64(watching) / float64(ttl) * 11
	assert.LessOrEqual(t, float64(total), want+6, "heartbeats")
	if stalled < watching/5 { // a busy machine delays so many that they are fewer
		assert.GreaterOrEqual(t, float64(total), want-6, "heartbeats")
	}
	p.Kept(t)
}

// entries returns how many entries are below a path. It reads each folder once, because two
// reads for each are too many.
func entries(t testing.TB, admin *zk.Conn, root string) (n int) {
	t.Helper()
	for _, dir := range children(t, admin, root) {
		if dir != "%v2" {
			n += len(children(t, admin, root+"/"+dir))
		}
	}
	return n
}

// records returns how many records of grants are below a path. The servers remove the
// folders that contained them.
func records(t testing.TB, admin *zk.Conn, root string) (n int) {
	t.Helper()
	for _, queue := range children(t, admin, root+"/%v2") {
		n += len(children(t, admin, root+"/%v2/"+queue+"/details"))
	}
	return n
}
