package zookeeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/testnet"
	"github.com/fairlock/fairlock/zktest"
)

// shortTTL is for sessions that are to expire: the shortest that servers grant.
const shortTTL = 2 * time.Second

// samples is how many sessions meet each fault, each at another moment between
// two heartbeats.
const samples = 4

// contextsEndBeforeNodes breaks the network between client and server in all
// the ways there are. The context of a hold ends before the server deletes the
// node, measured by a client whose network is whole.
func contextsEndBeforeNodes(t *testing.T) {
	slow := func(p *testnet.Proxy) {
		// Answers on their way are old, and proofs too.
		p.Delay(fault.Replies, shortTTL/5)
		<-time.After(shortTTL / 2)
		p.Hold(fault.Requests)
	}
	faults := map[string]breakage{
		"both directions": {harm: func(p *testnet.Proxy) { p.Hold(fault.Both) }},
		"requests":        {harm: func(p *testnet.Proxy) { p.Hold(fault.Requests) }, events: true},
		"replies":         {harm: func(p *testnet.Proxy) { p.Hold(fault.Replies) }},
		"reset":           {harm: func(p *testnet.Proxy) { p.Refuse(true); p.Reset() }},
		"slow replies":    {harm: slow},
	}
	var running sync.WaitGroup
	for name, f := range faults {
		running.Go(func() {
			t.Run(name, func(t *testing.T) {
				var slacks [samples]time.Duration
				e, root := shared(t)
				recipetest.Each(samples, func(i int) { slacks[i] = endsBeforeNode(t, e, fmt.Sprint(root, "-", i), f) })
				t.Logf("from the end of the context to the deletion: %v", slacks)
			})
		})
	}
	running.Wait()
}

// breakage is a way to break a network.
type breakage struct {
	harm   func(*testnet.Proxy)
	events bool // the server goes on sending events
}

func endsBeforeNode(t *testing.T, e *zktest.Ensemble, root string, f breakage) (slack time.Duration) {
	conn, proxy := e.Client(t), proxyOf(t, e, 0)
	p := newClient(t, root, shortTTL).open(t, proxy.Addr())
	fire := func() {}
	if f.events {
		fire = p.eventsWhileCut(t, newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...), conn)
	}
	machine := pace(t)
	var h *session.Hold
	var began driver.Instant
	var left time.Duration // then
	for tries := 0; left < shortTTL/2; tries++ {
		if h != nil {
			require.Less(t, tries, 50, "no hold has half of the TTL left")
			_ = h.Unlock() // the machine has stood still since the last heartbeat: h may be lost
		}
		h = p.Lock(t, "x")
		<-time.After(rand.N(shortTTL / 8)) // anywhere between two heartbeats
		began = recipetest.Now()
		left = h.Remaining()
	}
	gone, over := deletion(t, conn, recipetest.Refs(h)[0].Key), ended(h)
	f.harm(proxy)
	deadline := deadlineOf(h)
	fire()
	end := recipetest.Wait(t, over, "the end of the hold")
	deleted := recipetest.Wait(t, gone, "the end of the node")
	slack = deleted.Sub(end)

	assert.Greater(t, deleted.Sub(<-deadline), 50*time.Millisecond, "from the deadline to the end of the node")
	endedFirst(t, machine, end, deleted, "the context ended %s before the node", slack)
	assert.GreaterOrEqual(t, end, began.Add(left), "a session has all of its time to recover")
	var lost *session.LostError
	if assert.ErrorAs(t, context.Cause(h.Context()), &lost) && machine.Stalled(time.Time{}) < shortTTL/2 {
		assert.Equal(t, session.ReasonDeadline, lost.Reason)
	}
	assert.Zero(t, h.Remaining())
	proxy.Refuse(false)
	proxy.Delay(fault.Both, 0)
	proxy.Heal(fault.Both)
	recipetest.UnlockInTrouble(t, p.Lock(t, "x"))
	return slack
}

// deadlineOf follows a hold until it is over, and sends its deadline. That is when
// the context ends unless the process gets no processor just then, in which case
// Valid knows.
func deadlineOf(h *session.Hold) <-chan driver.Instant {
	deadline := make(chan driver.Instant, 1)
	go func() {
		var until driver.Instant
		for {
			asked := recipetest.Now()
			left := h.Remaining()
			if left == 0 {
				deadline <- until
				return
			}
			if answered := recipetest.Now(); answered.Sub(asked) < time.Millisecond {
				until = max(until, answered.Add(left))
			}
			<-time.After(shortTTL / 100)
		}
	}()
	return deadline
}

// eventsWhileCut has watches of the client fire one by one while its requests are cut off:
// events keep the client library from closing the connection, and prove nothing. The
// events are the ends of calm's entries.
func (p *lockClient) eventsWhileCut(t *testing.T, calm *lockClient, conn *zk.Conn) (fire func()) {
	const n = 10
	held := make([]*session.Hold, n)
	for i := range held {
		name := fmt.Sprint("event", i)
		held[i] = calm.Lock(t, name)
		p.Begin(recipetest.Bounded(t), name)
	}
	for i := range held {
		awaitEntries(t, conn, fmt.Sprint(p.opts.Root, "/event", i), 2)
	}
	return func() {
		for _, h := range held {
			<-time.After(150 * time.Millisecond)
			recipetest.UnlockInTrouble(t, h)
		}
	}
}

// deadlineFollowsServer: the server decides on the timeout of a session, and may
// give more or less than was asked for.
func deadlineFollowsServer(t *testing.T) {
	const given, margin = 6 * time.Second, 600 * time.Millisecond // a tenth of what is given
	e := zktest.New(t, &zktest.Options{
		MaxSession: given, Config: map[string]string{"minSessionTimeout": fmt.Sprint(given.Milliseconds())},
	})
	conn := e.Client(t)
	recipetest.Each(2, func(i int) {
		asked := []time.Duration{30 * time.Second, shortTTL}[i]
		proxy := proxyOf(t, e, 0)
		p := newClient(t, "/fairlock", asked)
		var left struct {
			sync.Mutex
			most time.Duration
		}
		p.opts.Session.Hooks.SessionRenewed = func(ev session.Event) {
			left.Lock()
			defer left.Unlock()
			left.most = max(left.most, ev.Left)
		}
		p.open(t, proxy.Addr())
		h := p.Lock(t, fmt.Sprint(asked))
		gone, over := deletion(t, conn, recipetest.Refs(h)[0].Key), ended(h)
		heartbeat := func() {
			t.Helper()
			recipetest.Until(t, "a heartbeat", func() bool { left.Lock(); defer left.Unlock(); return left.most > 0 })
			left.Lock()
			defer left.Unlock()
			assert.LessOrEqual(t, left.most, given-margin)
			left.most = 0
		}
		heartbeat()
		proxy.Reset() // the next ones are of a session that goes on
		heartbeat()
		require.NoError(t, context.Cause(h.Context()))
		proxy.Hold(fault.Both)
		watch, began := metronome.Begin(t), recipetest.Now()
		end := recipetest.Wait(t, over, "the end of the hold")
		slack := recipetest.Wait(t, gone, "the end of the node").Sub(end)
		t.Logf("asked for %v, given %v: ended %v after the cut, %v before the node", asked, given, end.Sub(began), slack)

		assert.Equal(t, 1, logged(p, "a different session timeout than requested"))
		assert.Contains(t, p.Log.String(), "asked="+asked.String()+" given="+given.String())
		assert.Greater(t, slack+watch.Stalled(), margin/2)
		assert.Less(t, end.Sub(began)-watch.Stalled(), given)
		assert.ErrorIs(t, context.Cause(h.Context()), session.ErrLost)
		proxy.Heal(fault.Both)
	})
}

// silentConnection is one that is open and dead. There is another way to the
// service, and it is found while there is time: not by the client library, which
// waits for two thirds of the timeout.
func silentConnection(t *testing.T) {
	const ttl = 4 * shortTTL
	e, root := shared(t)
	ways := []*testnet.Proxy{proxyOf(t, e, 0), proxyOf(t, e, 0)}
	p := newClient(t, root, ttl).open(t, ways[0].Addr(), ways[1].Addr())
	h := p.Lock(t, "x")
	for range 2 {
		used, other := ways[0], ways[1]
		if other.Stats().Open > 0 {
			used, other = other, used
		}
		require.Equal(t, 1, used.Stats().Open)
		used.Hold(fault.Both)
		watch := metronome.Begin(t)
		recipetest.Until(t, "another connection", func() bool { return other.Stats().Open > 0 })
		took := watch.Passed()
		t.Logf("another connection after %v", took)
		assert.Less(t, took, ttl/2)
		recipetest.Unlock(t, p.Lock(t, "y"))
		used.Heal(fault.Both)
		recipetest.Until(t, "the end of the old one", func() bool { return used.Stats().Open == 0 })
	}
	assert.Positive(t, h.Remaining())
	recipetest.Unlock(t, h)
	p.Kept(t)
}
