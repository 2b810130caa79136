package zookeeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/tier"
	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// watches returns how many watches the server has.
func watches(t testing.TB, e *zktest.Ensemble) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), recipetest.Patience)
	defer cancel() // at once: tests that measure the heap ask often
	text, err := e.Member(0).Command(ctx, "wchs")
	require.NoError(t, err)
	n, err := strconv.Atoi(regexp.MustCompile(`Total watches:(\d+)`).FindStringSubmatch(text)[1])
	require.NoError(t, err)
	return n
}

// TestCancelledWaitsLeaveNothing has many requests wait behind one holder and give up. A
// watch that no request needs any more cannot be removed at the server. It must neither be
// there twice nor leave anything in the client.
func TestCancelledWaitsLeaveNothing(t *testing.T) {
	const atOnce = 200
	n := 15 * atOnce
	if tier.All() {
		n = 50 * atOnce
	}
	e := zktest.New(t, nil)
	conn := e.Client(t)
	w := &wire{}
	holder, p := newClient(t, "/fairlock", recipetest.CalmTTL).open(t, e.Endpoints()...), newClient(t, "/fairlock", recipetest.CalmTTL)
	p.opts.Dial = w.dial
	var joined atomic.Int64
	p.opts.Session.Hooks.Joined = func(context.Context, session.Event) { joined.Add(1) }
	p.open(t, e.Endpoints()...)
	h := holder.Lock(t, "x")
	waits := func(n int) {
		for range n / atOnce {
			ctx, cancel := context.WithCancel(recipetest.Bounded(t))
			requests := make([]*recipetest.Request, atOnce)
			before := joined.Load()
			for i := range requests {
				requests[i] = p.Begin(ctx, "x")
			}
			recipetest.Until(t, "places in the queue", func() bool { return joined.Load() == before+atOnce })
			for _, r := range requests {
				r.Waits(t)
			}
			cancel()
			for _, r := range requests {
				recipetest.Wait(t, r.Done, "Lock returns")
				assert.ErrorIs(t, r.Err, session.ErrNotAcquired)
			}
			awaitEntries(t, conn, "/fairlock/x", 1)
		}
	}
	waits(10 * atOnce)
	rewatch(t, p, h, 1)
	w.forget()
	atServer := func() int { return watches(t, e) }
	before, threads := both.Settled(t, atServer), runtime.NumGoroutine()
	waits(n)
	rewatch(t, p, h, n)
	reads := w.count(func(f zkframe.Frame) bool {
		return f.Op() == zkframe.OpGetData && f.Watches() && f.Path() == recipetest.Refs(h)[0].Key
	})
	w.forget()
	after := both.Settled(t, atServer)

	t.Logf("%d waits: heap %d bytes more, %d goroutines more, %d reads of the holder, %d watches at the server",
		n, after-before, runtime.NumGoroutine()-threads, reads, watches(t, e))
	assert.LessOrEqual(t, reads, n+3*n/atOnce, "one for each watch, and one for all that wait at once")
	assert.Less(t, after-before, int64(256<<10), "bytes of heap")
	both.FewGoroutines(t, threads+10)
	assert.LessOrEqual(t, watches(t, e), 4)
	p.Kept(t)
	recipetest.Unlock(t, h)
	require.NoError(t, p.Close())
	require.NoError(t, holder.Close())
	recipetest.Until(t, "no watch at the server", func() bool { return watches(t, e) == 0 })
	assert.Empty(t, children(t, conn, "/fairlock/x"))
}

// rewatch watches the entry of another client, and cancels the watch, again and again, as
// each request does that waits behind it for a while, alone.
func rewatch(t *testing.T, p *lockClient, h *session.Hold, n int) {
	t.Helper()
	term, err := session.Engine(door.Key{}).Of(p.Session).Live(recipetest.Bounded(t))
	require.NoError(t, err)
	for range n {
		armed := make(chan struct{}, 1)
		stop := term.Driver().Watch(recipetest.Refs(h)[0].Target(), func(ev driver.Event) {
			if ev.Kind == driver.Armed {
				armed <- struct{}{}
			}
		})
		recipetest.Wait(t, armed, "a watch")
		stop()
	}
}

// releaseWhileAway: the entry before a waiter goes while the waiter has no
// connection.
func releaseWhileAway(t *testing.T) {
	e, root := shared(t)
	conn, proxy := e.Client(t), proxyOf(t, e, 0)
	holder := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	p := newClient(t, root, recipetest.EventTTL).open(t, proxy.Addr()) // it does not read without an event
	for i, end := range []func(*session.Hold){
		func(h *session.Hold) { recipetest.Unlock(t, h) },
		func(h *session.Hold) { require.NoError(t, conn.Delete(recipetest.Refs(h)[0].Key, -1)) },
	} {
		h := holder.Lock(t, "x")
		waiting := p.Begin(recipetest.Bounded(t), "x")
		p.Stands(t, i+1)
		second := holder.Begin(recipetest.Bounded(t), "x")
		awaitEntries(t, conn, root+"/x", 3)
		proxy.Refuse(true)
		proxy.Reset()
		recipetest.Until(t, "no connection", func() bool { return proxy.Stats().Open == 0 })
		end(h)
		awaitEntries(t, conn, root+"/x", 2)
		waiting.Waits(t)
		healed := recipetest.Now()
		proxy.Refuse(false)
		next := waiting.Granted(t)
		t.Logf("granted %v after the network was back", waiting.At.Sub(healed))
		second.Waits(t)
		recipetest.Unlock(t, next)
		recipetest.Unlock(t, second.Granted(t))
	}
	p.Kept(t)
}

// reconnectsLoseNoPlace: sessions with many watches lose their connections again and again
// while locks are passed on.
func reconnectsLoseNoPlace(t *testing.T) {
	const clients, queues, rounds, cuts = 4, 20, 8, 20
	e, root := shared(t)
	var all [clients]*lockClient
	var cut [clients]func()
	for i := range all {
		proxy := proxyOf(t, e, 0)
		all[i] = newClient(t, root, recipetest.CalmTTL).open(t, proxy.Addr())
		cut[i] = proxy.Reset
	}
	var working, cutting sync.WaitGroup
	stop := make(chan struct{})
	cutting.Go(func() {
		for range cuts {
			cut[rand.N(clients)]()
			select {
			case <-time.After(rand.N(100 * time.Millisecond)):
			case <-stop:
				return
			}
		}
	})
	var turns atomic.Int64
	for q := range queues {
		in, token := &inside{}, new(atomic.Int64)
		for _, p := range all {
			working.Go(func() {
				for range rounds {
					err := mutex.New(p.Session, fmt.Sprint("x", q)).Do(recipetest.Bounded(t), func(_ context.Context, h *session.Hold) error {
						in.visit()
						turns.Add(1)
						assert.Greater(t, int64(h.Token()), token.Swap(int64(h.Token())))
						return nil
					})
					recipetest.Released(t, err)
				}
				assert.EqualValues(t, 1, in.most.Load())
			})
		}
	}
	working.Wait()
	close(stop)
	cutting.Wait()
	assert.EqualValues(t, clients*queues*rounds, turns.Load())
	for _, p := range all {
		p.Kept(t)
	}
}

// deletedEntriesGrantOneAtATime: an operator deletes the entry of a waiter right before the
// holder ahead releases, at every distance.
func deletedEntriesGrantOneAtATime(t *testing.T) {
	const rounds = 40
	e, root := shared(t)
	conn := e.Client(t)
	var in inside
	var clients [3]*lockClient
	for i := range clients {
		clients[i] = newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	}
	work := func(r *recipetest.Request) <-chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			<-r.Done
			if assert.NoError(t, r.Err) {
				in.most.Store(max(in.most.Load(), in.now.Add(1)))
				<-time.After(3 * time.Millisecond)
				in.now.Add(-1)
				recipetest.Unlock(t, r.Hold)
			}
		}()
		return done
	}
	for round := range rounds {
		name := fmt.Sprint("x", round)
		held := clients[0].Lock(t, name)
		second := clients[1].Begin(recipetest.Bounded(t), name)
		names := awaitEntries(t, conn, root+"/"+name, 2)
		third := clients[2].Begin(recipetest.Bounded(t), name)
		awaitEntries(t, conn, root+"/"+name, 3)
		if round%2 == 0 { // in the other half, the watches may not be armed yet
			<-time.After(5 * time.Millisecond)
		}
		key := root + "/" + name + "/" + names[0]
		if key == recipetest.Refs(held)[0].Key {
			key = root + "/" + name + "/" + names[1]
		}
		ends := []<-chan struct{}{work(second), work(third)}
		if round%5 == 0 { // what watches it fires, and must be made again
			if _, err := conn.Set(key, []byte("__REVOKE__"), -1); err != nil {
				require.ErrorIs(t, err, zk.ErrNoAuth)
			}
		}
		require.NoError(t, conn.Delete(key, -1))
		if round%4 > 1 {
			<-time.After(rand.N(2 * time.Millisecond))
		}
		recipetest.Unlock(t, held)
		for _, end := range ends {
			recipetest.Wait(t, end, "a turn")
		}
		awaitEntries(t, conn, root+"/"+name, 0)
	}
	assert.EqualValues(t, 1, in.most.Load(), "holders at a time")
	clients[0].Kept(t)
	clients[2].Kept(t)
}

// TestNoChangeOfAnEntryIsMissed: one that was before the watch, and one between the event
// and the watch that is made again after it.
func TestNoChangeOfAnEntryIsMissed(t *testing.T) {
	e, root := shared(t)
	owns := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	ref := owns.joinWith(t, driver.JoinRequest{Queue: "leader", Data: []byte("0"), Valued: true}).Entry.Ref
	var reads atomic.Int32
	var writing sync.Mutex // its owner writes an entry by one call at a time
	write := func(value string) {
		writing.Lock()
		defer writing.Unlock()
		owns.write(t, ref, value)
	}
	w := &wire{before: func(f zkframe.Frame) bool {
		if f.Op() == zkframe.OpGetData && f.Watches() && f.Path() == ref.Key && reads.Add(1) == 2 {
			write("3")
		}
		return true
	}}
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: w.dial}, e.Endpoints()...)
	value := func() string {
		v, err := o.Read(recipetest.Bounded(t), driver.ReadRequest{Queue: "leader", Nearest: 1, Detail: true})
		require.NoError(t, err)
		require.Len(t, v.Entries, 1)
		return string(v.Entries[0].Data)
	}
	write("1")
	events := make(chan driver.EventKind, 10)
	defer o.Watch(ref.Target(), func(ev driver.Event) { events <- ev.Kind })()
	require.Equal(t, driver.Armed, recipetest.Wait(t, events, "the watch"))
	require.Equal(t, "1", value(), "read after Armed")
	write("2")
	require.Equal(t, driver.Changed, recipetest.Wait(t, events, "the change"))
	require.Equal(t, "3", value(), "read after Changed: the watch is armed again by then")
}

// TestAnOwnEntryIsNotArmedWhileItIsReadAgain: an operator deletes the entry of a writer that waits,
// and the holder leaves before a read has shown whether that was a downgrade.
func TestAnOwnEntryIsNotArmedWhileItIsReadAgain(t *testing.T) {
	e, root := shared(t)
	holder := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root}, e.Endpoints()...)
	writer := driver.JoinRequest{Queue: "x", Family: driver.FamilyReadWrite, Nearest: 1}
	ahead := holder.joinWith(t, writer).Entry.Ref
	var key atomic.Pointer[string]
	var reads atomic.Int32
	again, gone := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(gone) })
	defer goOn() // also if the test fails: the session is to be closed
	w := &wire{before: func(f zkframe.Frame) bool {
		if own := key.Load(); own != nil && f.Op() == zkframe.OpGetData && f.Watches() && f.Path() == *own && reads.Add(1) == 2 {
			close(again)
			<-gone
		}
		return true
	}}
	o := drive(t, recipetest.CalmTTL, zkbackend.Options{Root: root, Dial: w.dial}, e.Endpoints()...)
	own := o.joinWith(t, writer).Entry.Ref
	key.Store(&own.Key)
	ofOwn, ofAhead := make(chan driver.EventKind, 10), make(chan driver.EventKind, 10)
	defer o.Watch(own.Target(), func(ev driver.Event) { ofOwn <- ev.Kind })()
	defer o.Watch(ahead.Target(), func(ev driver.Event) { ofAhead <- ev.Kind })()
	require.Equal(t, driver.Armed, recipetest.Wait(t, ofOwn, "the watch on the own entry"))
	require.Equal(t, driver.Armed, recipetest.Wait(t, ofAhead, "the watch on the entry ahead"))

	require.NoError(t, e.Client(t).Delete(own.Key, -1))
	recipetest.Wait(t, again, "the read of the own entry")
	_, err := holder.Leave(recipetest.Bounded(t), driver.LeaveRequest{Ref: ahead, First: true})
	require.NoError(t, err)
	require.Equal(t, driver.Gone, recipetest.Wait(t, ofAhead, "the end of the entry ahead"))
	assert.Len(t, ofOwn, 1, "a report before that")
	goOn()
	require.Equal(t, driver.Lost, recipetest.Wait(t, ofOwn, "the loss of the watch"))
	require.Equal(t, driver.Gone, recipetest.Wait(t, ofOwn, "the end of the own entry"))
}
