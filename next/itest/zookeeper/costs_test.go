package zookeeper

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/next/zkbackend"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/rwlock"
	"github.com/fairlock/fairlock/recipes/semaphore"
	"github.com/fairlock/fairlock/session"
	old "github.com/fairlock/fairlock/zkbackend"
	"github.com/fairlock/fairlock/zktest"
)

// counted counts the requests of one session, but for heartbeats. Watches count: each is a
// read, and a round trip if something waits for it.
type counted struct {
	*session.Session
	n *atomic.Int64
}

type countedConn struct {
	net.Conn
	n     *atomic.Int64
	shook bool
}

func (c *countedConn) Write(p []byte) (int, error) {
	f := zkframe.Frame(p)
	if c.shook && !proves(f) && f.Op() != zkframe.OpLogin {
		c.n.Add(1)
	}
	c.shook = true
	return c.Conn.Write(p) //nolint:wrapcheck // a connection
}

func counting(n *atomic.Int64) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return &countedConn{Conn: c, n: n}, err
	}
}

// open opens a session of a backend: this one, or the one of the first contract.
func open(t *testing.T, e *zktest.Ensemble, first bool) counted {
	t.Helper()
	n := new(atomic.Int64)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var s *session.Session
	var err error
	if first {
		s, err = old.Open(ctx, e.Endpoints(), &old.Options{Root: "/old", TickTime: zkTick, Dial: counting(n)})
	} else {
		s, err = zkbackend.Open(ctx, e.Endpoints(), &zkbackend.Options{Root: "/new", TickTime: zkTick, Dial: counting(n)})
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return counted{s, n}
}

// path is something that two sessions do, while another, by, looks.
type path struct {
	name string
	run  func(t *testing.T, a, b, by counted, count func(what string, act func()))
}

// waits starts an acquisition, and returns what waits for its grant once it has joined.
func waits(t *testing.T, by counted, name string, acquire func() (*session.Hold, error)) func() *session.Hold {
	got := make(chan *session.Hold, 1)
	queue := func() int {
		q, err := mutex.New(by.Session, name).Queue(t.Context())
		assert.NoError(t, err)
		return len(q)
	}
	before := queue()
	go func() {
		h, err := acquire()
		assert.NoError(t, err)
		got <- h
	}()
	for queue() == before {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond) // its watches are armed
	return func() *session.Hold { return <-got }
}

func paths() []path {
	ctx := context.Background()
	must := func(t *testing.T, h *session.Hold, err error) *session.Hold {
		t.Helper()
		require.NoError(t, err)
		return h
	}
	unlock := func(t *testing.T, h *session.Hold) {
		t.Helper()
		require.NoError(t, h.Unlock())
	}
	return []path{
		{"mutex", func(t *testing.T, a, b, by counted, count func(string, func())) {
			m, n := mutex.New(a.Session, "m"), mutex.New(b.Session, "m")
			var h *session.Hold
			count("lock alone", func() { x, err := m.Lock(ctx); h = must(t, x, err) })
			count("unlock alone", func() { unlock(t, h) })
			x, err := m.Lock(ctx)
			h = must(t, x, err)
			var next func() *session.Hold
			time.Sleep(300 * time.Millisecond) // the holder's own watch
			count("wait behind one", func() { next = waits(t, by, "m", func() (*session.Hold, error) { return n.Lock(ctx) }) })
			count("hand-off", func() { unlock(t, h); h = next() })
			unlock(t, h)
		}},
		{"robust mutex", func(t *testing.T, a, _, _ counted, count func(string, func())) {
			m := mutex.NewWith(a.Session, "r", mutex.Options{Robust: true})
			var h *session.Hold
			count("lock alone", func() { x, err := m.Lock(ctx); h = must(t, x, err) })
			count("unlock alone", func() { unlock(t, h) })
		}},
		{"rwlock", func(t *testing.T, a, b, by counted, count func(string, func())) {
			m, n := rwlock.New(a.Session, "w"), rwlock.New(b.Session, "w")
			x, err := m.Lock(ctx)
			h := must(t, x, err)
			time.Sleep(300 * time.Millisecond)
			var next func() *session.Hold
			count("reader waits behind writer", func() { next = waits(t, by, "w", func() (*session.Hold, error) { return n.RLock(ctx) }) })
			var r *session.Hold
			count("downgrade, and the reader is let in", func() { require.NoError(t, m.Downgrade(ctx, h)); r = next() })
			unlock(t, h)
			unlock(t, r)
			x, err = m.Lock(ctx)
			h = must(t, x, err)
			time.Sleep(300 * time.Millisecond)
			next = waits(t, by, "w", func() (*session.Hold, error) { return n.Lock(ctx) })
			count("hand-off of a writer", func() { unlock(t, h); h = next() })
			unlock(t, h)
		}},
		{"semaphore", func(t *testing.T, a, b, by counted, count func(string, func())) {
			m, n := semaphore.New(a.Session, "s", 2), semaphore.New(b.Session, "s", 2)
			var h *session.Hold
			x, err := m.Acquire(ctx, 1)
			unlock(t, must(t, x, err))
			y, err := n.Acquire(ctx, 1)
			unlock(t, must(t, y, err))
			count("acquire alone", func() { x, err := m.Acquire(ctx, 2); h = must(t, x, err) })
			time.Sleep(300 * time.Millisecond)
			var next func() *session.Hold
			count("wait", func() { next = waits(t, by, "s", func() (*session.Hold, error) { return n.Acquire(ctx, 2) }) })
			count("release, and the waiter is admitted", func() {
				unlock(t, h)
				h = next()
				time.Sleep(300 * time.Millisecond)
			})
			count("release alone", func() { unlock(t, h) })
		}},
		{"election", func(t *testing.T, a, b, by counted, count func(string, func())) {
			m, n := election.New(a.Session, "e"), election.New(b.Session, "e")
			var h *session.Hold
			count("campaign alone", func() { x, err := m.Campaign(ctx, "one"); h = must(t, x, err) })
			time.Sleep(300 * time.Millisecond)
			next := waits(t, by, "e", func() (*session.Hold, error) { return n.Campaign(ctx, "two") })
			count("proclaim", func() { require.NoError(t, m.Proclaim(ctx, h, "three")); time.Sleep(100 * time.Millisecond) })
			count("hand-off", func() { unlock(t, h); h = next() })
			unlock(t, h)
		}},
	}
}

// TestCostsOfTheMainPaths shows how many requests each step of both sessions takes, of this
// backend and of the first one.
func TestCostsOfTheMainPaths(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Tick: zkTick, Properties: zkOperator()})
	costs := [2]map[string]int64{{}, {}}
	var order []string
	for _, p := range paths() {
		for i, first := range []bool{true, false} {
			a, b, by := open(t, e, first), open(t, e, first), open(t, e, first)
			for round := range 2 { // in the first the folders are made
				p.run(t, a, b, by, func(what string, act func()) {
					before := a.n.Load() + b.n.Load()
					act()
					if round == 1 {
						what = fmt.Sprintf("%s: %s", p.name, what)
						costs[i][what] = a.n.Load() + b.n.Load() - before
						if first {
							order = append(order, what)
						}
					}
				})
			}
		}
	}
	for _, what := range order {
		t.Logf("%-50s %3d before, %3d now", what, costs[0][what], costs[1][what])
	}
}
