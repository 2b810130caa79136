package zookeeper

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/testnet"
	"github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// requestsStayWithTheirSession: the client library goes on with a new session
// when the old one has expired, and sends what was meant for the old one there.
// A join whose answer is missing, and one that has no connection to go out on,
// must end with the session.
func requestsStayWithTheirSession(t *testing.T) {
	e, root := shared(t)
	conn, proxy := e.Client(t), proxyOf(t, e, 0)
	before := map[string]int{}
	o := drive(t, shortTTL, zkbackend.Options{Root: root}, proxy.Addr())
	for _, queue := range []string{"inflight", "queued"} { // so that the join is the only request
		require.NoError(t, o.quit(t, o.join(t, queue)))
		before[queue] = made(t, conn, root+"/"+queue)
	}
	held := o.join(t, "held").Entry
	gone := deletion(t, conn, held.Key)

	proxy.Hold(fault.Requests)
	errs := make(map[string]error)
	var mu sync.Mutex
	var joins sync.WaitGroup
	join := func(queue string) {
		joins.Go(func() {
			_, err := o.Join(recipetest.Bounded(t), driver.JoinRequest{Queue: queue})
			mu.Lock()
			defer mu.Unlock()
			errs[queue] = err
		})
	}
	join("inflight")
	waiting := proxy.Stats().Requests.Waiting
	recipetest.Until(t, "a request on its way", func() bool { return proxy.Stats().Requests.Waiting > waiting })
	proxy.Refuse(true)
	recipetest.Until(t, "no connection", func() bool { return proxy.Stats().Refused > 0 })
	join("queued")
	recipetest.Wait(t, gone, "the end of the session")
	proxy.Refuse(false)
	proxy.Heal(fault.Both)
	joins.Wait()
	for queue, err := range errs {
		assert.ErrorIs(t, err, driver.ErrSessionOver, queue)
		settle(t, err)
	}

	assert.NotEmpty(t, o.losses())
	for queue, n := range before {
		assert.Equal(t, n, made(t, conn, root+"/"+queue), queue)
	}
	_, err := o.Leave(recipetest.Bounded(t), driver.LeaveRequest{Ref: held.Ref})
	assert.ErrorIs(t, err, driver.ErrSessionOver)
}

// entriesBelongToTheSessionThatHolds is the same as its users see it.
func entriesBelongToTheSessionThatHolds(t *testing.T) {
	e, root := shared(t)
	conn, proxy := e.Client(t), proxyOf(t, e, 0)
	for _, name := range []string{"held", "behind", "queued"} {
		folder(t, conn, root+"/"+name) // to make it takes a number
	}
	calm := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	p := newClient(t, root, 3*shortTTL).open(t, proxy.Addr()) // it must be lost once only
	first := p.Service()
	held, blocker := p.Lock(t, "held"), calm.Lock(t, "behind")
	behind := p.Begin(recipetest.Bounded(t), "behind")
	p.Stands(t, 2)
	gone := deletion(t, conn, recipetest.Refs(held)[0].Key)

	proxy.Refuse(true)
	proxy.Reset()
	queued := p.Begin(recipetest.Bounded(t), "queued")
	recipetest.Wait(t, gone, "the end of the session")
	recipetest.Unlock(t, blocker)
	proxy.Refuse(false)
	for _, h := range []*session.Hold{queued.Granted(t), behind.Granted(t)} {
		path := recipetest.Refs(h)[0].Key
		assert.NotEqual(t, first, p.Service())
		assert.Equal(t, p.Service(), ownerOf(t, conn, path))
		recipetest.Unlock(t, h)
	}

	require.ErrorIs(t, held.Unlock(), session.ErrLost)
	assert.Equal(t, 2, made(t, conn, root+"/queued"), "the entry, and the node of a first join")
	assert.Equal(t, 6, made(t, conn, root+"/behind"), "the blocker's, the lost one, and the one after it, each with such a node")
	awaitEntries(t, conn, root+"/behind", 0)
	assert.Len(t, p.Lost(), 1)
	assert.Len(t, p.Rejoined(), 1)
}

// anotherSessionIsNotOurs: some servers that speak ZooKeeper's protocol answer a handshake
// for a session that they have lost with a new session.
func anotherSessionIsNotOurs(t *testing.T) {
	e, root := shared(t)
	conn, proxy := e.Client(t), proxyOf(t, e, 0)
	var forgetful atomic.Bool
	w := &wire{handshake: func(f zkframe.Frame) {
		if forgetful.Load() {
			clear(f[20:28]) // the session
			clear(f[32:])   // its password
		}
	}}
	folder(t, conn, root+"/x")          // to make it takes a number
	p := newClient(t, root, 3*shortTTL) // it must be lost once only
	p.opts.Dial = w.dial
	p.open(t, proxy.Addr())
	old := p.Service()
	h := p.Lock(t, "x")
	gone, over := deletion(t, conn, recipetest.Refs(h)[0].Key), ended(h)
	waiting := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...).Begin(recipetest.Bounded(t), "x")
	awaitEntries(t, conn, root+"/x", 2)

	machine := pace(t)
	forgetful.Store(true)
	proxy.Reset()
	end := recipetest.Wait(t, over, "the end of the hold")
	forgetful.Store(false)
	again := p.Begin(recipetest.Bounded(t), "x")
	endedFirst(t, machine, end, recipetest.Wait(t, gone, "the end of the node"), "before the node")
	next := waiting.Granted(t)
	endedFirst(t, machine, end, waiting.At, "before the next grant")
	recipetest.Unlock(t, next)
	mine := again.Granted(t)

	var lost *session.LostError
	require.ErrorAs(t, context.Cause(h.Context()), &lost)
	assert.Equal(t, session.ReasonExpired, lost.Reason)
	assert.NotEqual(t, old, p.Service())
	assert.Equal(t, p.Service(), ownerOf(t, conn, recipetest.Refs(mine)[0].Key))
	assert.Equal(t, 6, made(t, conn, root+"/x"), "nothing was made on a session that is not ours") // each first join makes two nodes
	recipetest.Unlock(t, mine)
}

// wipedServer has lost all data, and refuses clients that have seen more than it
// has: the client library tries to connect forever.
func wipedServer(t *testing.T) {
	e := zktest.New(t, nil)
	p := newClient(t, "/fairlock", shortTTL).open(t, e.Endpoints()...)
	h := p.Lock(t, "x")
	over := ended(h)
	e.Member(0).Kill()
	watch, began := metronome.Begin(t), recipetest.Now()
	require.NoError(t, e.Member(0).Wipe())
	require.NoError(t, e.Member(0).Restart(recipetest.Bounded(t)))

	assert.Less(t, recipetest.Wait(t, over, "the end of the hold").Sub(began)-watch.Stalled(), shortTTL)
	require.ErrorIs(t, h.Unlock(), session.ErrLost)
	again := p.Lock(t, "x")
	conn := e.Client(t)
	assert.Equal(t, p.Service(), ownerOf(t, conn, recipetest.Refs(again)[0].Key))
	recipetest.Unlock(t, again)
	awaitEntries(t, conn, "/fairlock/x", 0)
}

// closeWithoutServers: contexts end first, and then Close tries for a while to
// end the session.
func closeWithoutServers(t *testing.T) {
	for name, harm := range map[string]func(*testnet.Proxy){
		"refused": func(p *testnet.Proxy) { p.Refuse(true); p.Reset() },
		"silent":  func(p *testnet.Proxy) { p.Hold(fault.Both) },
	} {
		e, root := shared(t)
		conn, proxy, machine := e.Client(t), proxyOf(t, e, 0), pace(t)
		p := newClient(t, root, shortTTL)
		var err error
		p.Session, err = zkbackend.Open(recipetest.Bounded(t), []string{proxy.Addr()}, &p.opts)
		require.NoError(t, err)
		h := p.Lock(t, "x")
		waiting := p.Begin(recipetest.Bounded(t), "x")
		over := ended(h)
		harm(proxy)
		queued := p.Begin(recipetest.Bounded(t), "y")

		watch, began := metronome.Begin(t), recipetest.Now()
		err = p.Close()
		took := recipetest.Now().Sub(began)
		end := recipetest.Wait(t, over, "the end of the hold")
		t.Logf("%s: the context ended after %v, Close returned after %v: %v", name, end.Sub(began), took, err)
		assert.Less(t, end, began.Add(took), "the context ends first")
		assert.Less(t, took-watch.Stalled(), 2*shortTTL)
		if machine.Stalled(time.Time{}) < shortTTL/2 { // else it may have expired before
			assert.ErrorIs(t, err, session.ErrUnavailable)
		}
		for _, r := range []*recipetest.Request{waiting, queued} {
			recipetest.Wait(t, r.Done, "Lock returns")
			assert.ErrorIs(t, r.Err, session.ErrClosed)
		}
		assert.ErrorIs(t, h.Unlock(), session.ErrLost)
		awaitEntries(t, conn, root+"/x", 0)
		proxy.Refuse(false)
		proxy.Heal(fault.Both)
	}
}

// credentialsAreShownAgain on every connection; what the library does by itself
// there can block for ever.
func credentialsAreShownAgain(t *testing.T) {
	const workers, cuts = 8, 15
	e, root := shared(t)
	proxy := proxyOf(t, e, 0)
	var logins, broken atomic.Int64
	w := &wire{before: func(f zkframe.Frame) bool {
		return f.Op() != zkframe.OpLogin || logins.Add(1)%4 != 0 || broken.Add(1) == 0
	}}
	p := newClient(t, root, recipetest.CalmTTL)
	p.opts.Dial = w.dial
	p.opts.Auth = []zkbackend.Auth{zkbackend.DigestAuth("fair", "lock")}
	p.opts.ACL = zk.DigestACL(zk.PermAll, "fair", "lock")
	p.open(t, proxy.Addr())
	ctx, stop := context.WithCancel(recipetest.Bounded(t))
	var turns atomic.Int64
	var working sync.WaitGroup
	for i := range workers {
		working.Go(func() {
			for ctx.Err() == nil {
				err := mutex.New(p.Session, fmt.Sprint("x", i%4)).Do(recipetest.Bounded(t), func(context.Context, *session.Hold) error { return nil })
				recipetest.Released(t, err)
				turns.Add(1)
			}
		})
	}
	for range cuts {
		n := turns.Load()
		recipetest.Until(t, "work", func() bool { return turns.Load() > n+workers })
		proxy.Reset()
	}
	stop()
	working.Wait()
	p.Kept(t)
	assert.GreaterOrEqual(t, logins.Load(), int64(cuts))
	assert.Positive(t, broken.Load(), "logins that could not be written")
	t.Logf("%d turns, %d logins of which %d broke", turns.Load(), logins.Load(), broken.Load())

	other := newClient(t, root, recipetest.CalmTTL).open(t, e.Endpoints()...)
	_, err := mutex.New(other.Session, "x0").Lock(recipetest.Bounded(t))
	assert.ErrorIs(t, err, session.ErrDenied)
}

// openTriesAgain when a connection is lost that has just been made.
func openTriesAgain(t *testing.T) {
	e, root := shared(t)
	for _, spared := range []func(zkframe.Frame) bool{
		proves,
		func(f zkframe.Frame) bool { return f.Op() != zkframe.OpLogin }, // the last request of all
	} {
		var broken atomic.Int64
		w := &wire{before: func(f zkframe.Frame) bool { return spared(f) || broken.Add(1) > 3 }}
		p := newClient(t, root, recipetest.CalmTTL)
		p.opts.Dial = w.dial
		p.open(t, e.Endpoints()...)
		assert.Greater(t, broken.Load(), int64(3))
		recipetest.Unlock(t, p.Lock(t, "x"))
	}

	// For as long as the test wants.
	w := &wire{before: proves}
	p := newClient(t, root, recipetest.CalmTTL)
	p.opts.Dial = w.dial
	err := inTime(t, "Open", 300*time.Millisecond, func(ctx context.Context) error {
		return second(zkbackend.Open(ctx, e.Endpoints(), &p.opts))
	})
	assert.ErrorIs(t, err, session.ErrUnavailable)
}
