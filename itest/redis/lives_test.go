package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/drivertest"
)

// longest is the greatest TTL where a case waits for it.
const longest = 4 * time.Second

// The ways in which Redis begins a new life. In all of them the clients find the data at the same
// address, or by the same Sentinels.
const (
	emptied   = "EmptyRestart" // the server has kept nothing
	restarted = "Restart"      // it has kept everything
	flushed   = "Flush"        // its data was deleted
)

// mortal is a server of one case that can begin a new life.
type mortal struct {
	*service
	server *redistest.Server
}

// NewLife implements drivertest.Lives.
func (m mortal) NewLife(t *testing.T, way string) {
	switch way {
	case flushed:
		require.NoError(t, m.server.Do(hang.Context(t), "FLUSHALL").Error())
		return
	case emptied:
		m.server.Kill()
		require.NoError(t, m.server.Wipe())
	case restarted:
		require.NoError(t, m.server.Stop(hang.Context(t)))
	}
	require.NoError(t, m.server.Restart(hang.Context(t)))
}

// overLives is a harness whose cases have a server each, with a greatest TTL for which they can wait.
func overLives(t *testing.T) drivertest.Harness {
	t.Helper()
	h := oneServer(t, nil).harness(t)
	h.Lives, h.TTL, h.Calm = []string{emptied, restarted, flushed}, longest, 0
	var cases atomic.Int64
	h.Service = func(t *testing.T) drivertest.Service {
		server := redistest.New(t, &redistest.Options{Persistence: redistest.Log})
		s := setup{
			option: oneOption(server), servers: []string{server.Addr()}, nodes: 1, publish: "PUBLISH",
			master: func() *redistest.Server { return server },
		}
		return mortal{newService(t, s, fmt.Sprint("case", cases.Add(1)), longest), server}
	}
	return h
}

func TestDriverOverLives(t *testing.T) {
	h := overLives(t)
	h.Topics = []string{"life"}
	drivertest.Run(t, h)
}

func TestRecipesOverLives(t *testing.T) {
	t.Parallel()
	h := overLives(t)
	h.Topics = []string{"life"}
	recipetest.Run(t, h)
}

// group is a master with two replicas, of which one must have each renewal.
type group struct {
	store
	master *redistest.Server
	a, b   *redistest.Server
}

func newGroup(t *testing.T, opts *redistest.Options) group {
	t.Helper()
	g := group{master: redistest.New(t, opts)}
	for _, r := range []**redistest.Server{&g.a, &g.b} {
		replica, err := g.master.Replica(hang.Context(t), nil)
		require.NoError(t, err)
		*r = replica
	}
	option := rueidis.ClientOption{InitAddress: []string{g.master.Addr(), g.a.Addr(), g.b.Addr()}}
	g.store = newStore(t, option, 3, longest)
	return g
}

// on returns a change that makes a client know some of the servers only.
func on(servers ...*redistest.Server) func(*rueidis.ClientOption, *redisbackend.Options) {
	return func(o *rueidis.ClientOption, _ *redisbackend.Options) { o.InitAddress = addrs(servers) }
}

// holdEnds returns where the end of a hold is noted.
func holdEnds(h *session.Hold) <-chan driver.Instant {
	ends := make(chan driver.Instant, 1)
	context.AfterFunc(h.Context(), func() { ends <- recipetest.Now() })
	return ends
}

// The replicas do not know the newest hold. Its holder may believe for the greatest TTL.
func TestAPromotedReplicaGrantsNothingForTheGreatestTTL(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, -30 * time.Second} {
		t.Run(fmt.Sprint("clock ", ahead), func(t *testing.T) {
			t.Parallel()
			g := newGroup(t, &redistest.Options{Clock: true})
			require.NoError(t, g.a.SetClock(ahead))
			p, q := g.client(t, longest), g.client(t, longest)
			known := p.Lock(t, "known")
			require.NoError(t, g.a.CatchUp(hang.Context(t)))
			g.master.CutReplicas()
			unknown := p.Lock(t, "unknown")
			knownEnds, unknownEnds := holdEnds(known), holdEnds(unknown)

			g.master.Kill()
			died := recipetest.Now()
			require.NoError(t, g.a.Promote(hang.Context(t)))
			require.NoError(t, g.b.Follow(hang.Context(t), g.a))
			for name, held := range map[string]*session.Hold{"known": known, "unknown": unknown} {
				r := q.Begin(hang.Context(t), name)
				h := r.Granted(t)
				ends := knownEnds
				if held == unknown {
					ends = unknownEnds
				}
				assert.Less(t, hang.Receive(t, ends, "the end of the hold on %s", name), r.At, "the context of the hold ends before the next grant")
				assert.Greater(t, h.Token(), held.Token())
				if held == known {
					assert.GreaterOrEqual(t, r.At.Sub(died), longest)
				}
				recipetest.UnlockInTrouble(t, h)
			}
		})
	}
}

// The old master goes on for its clients, with all that it needs but a replica.
func TestAMasterThatWasReplacedKeepsNoHold(t *testing.T) {
	t.Parallel()
	g := newGroup(t, nil)
	p, q := g.client(t, longest, on(g.master)), g.client(t, longest, on(g.a, g.master))
	h := p.Lock(t, "x")
	ends := holdEnds(h)
	g.master.CutReplicas()
	require.NoError(t, g.a.Promote(hang.Context(t)))
	require.NoError(t, g.b.Follow(hang.Context(t), g.a))

	r := q.Begin(hang.Context(t), "x")
	next := r.Granted(t)
	assert.Less(t, hang.Receive(t, ends, "the end of the hold"), r.At)
	assert.Greater(t, next.Token(), h.Token())
	_, err := g.open(hang.Ending(t, longest), t, longest, on(g.master))
	require.ErrorIs(t, err, session.ErrUnavailable, "no session of the old master has a majority")
	recipetest.UnlockInTrouble(t, next)
}

// A master that becomes a replica answers WAIT with an error. That shows nothing about the script before it.
func TestAMasterThatIsDemotedWhileItWaitsOnlyDelays(t *testing.T) {
	t.Parallel()
	g := newGroup(t, nil)
	o := g.opts
	o.Session.TTL = longest
	first, err := redisbackend.Open(hang.Context(t), g.option, &o) // the server knows the scripts
	require.NoError(t, err)
	require.NoError(t, first.Close())
	g.master.CutReplicas()
	opened := make(chan error, 1)
	go func() { // ends with Open
		_, err := g.open(hang.Context(t), t, longest)
		opened <- err
	}()
	require.NoError(t, g.a.Promote(hang.Context(t)))
	require.NoError(t, g.b.Follow(hang.Context(t), g.a))
	hang.Until(t, func() bool {
		fields, err := g.master.Info(hang.Context(t), "clients")
		return err == nil && fields["blocked_clients"] == "1"
	}, "no client waits for the replicas")
	require.NoError(t, g.master.Follow(hang.Context(t), g.a))

	require.NoError(t, hang.Receive(t, opened, "the session"))
}

// A replica that lags proves nothing.
func TestARenewalThatNoReplicaHasIsNone(t *testing.T) {
	t.Parallel()
	g := newGroup(t, nil)
	p := g.client(t, longest)
	h := p.Lock(t, "x")
	g.master.CutReplicas()
	recipetest.Wait(t, h.Context().Done(), "the end of the hold")
	g.master.HealReplicas()
	recipetest.UnlockInTrouble(t, p.Lock(t, "x"))
}

func TestSentinelsPromoteAReplica(t *testing.T) {
	t.Parallel()
	all := redistest.NewSentinels(t, nil)
	option := rueidis.ClientOption{InitAddress: all.Addrs(), Sentinel: rueidis.SentinelOption{MasterSet: redistest.MasterName}}
	s := newStore(t, option, 3, longest)
	p, q := s.client(t, longest), s.client(t, longest)
	for _, kill := range []bool{true, false} {
		h := p.Lock(t, "x")
		ends := holdEnds(h)
		r := q.Begin(hang.Context(t), "x")
		q.Queued(t, "x", 2)
		old, err := all.Master(hang.Context(t))
		require.NoError(t, err)
		if kill {
			old.Kill()
			_, err = all.AwaitFailover(hang.Context(t), old)
		} else {
			_, err = all.Failover(hang.Context(t))
		}
		require.NoError(t, err)
		next := r.Granted(t)
		assert.Less(t, hang.Receive(t, ends, "the end of the hold"), r.At)
		assert.Greater(t, next.Token(), h.Token())
		recipetest.UnlockInTrouble(t, next)
		if kill {
			require.NoError(t, old.Restart(hang.Context(t)))
		}
	}
}

// The keys of a root whose clients are all dead go when any process comes.
func TestARootWithoutClientsIsEmptied(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, nil)
	s := newStore(t, oneOption(server), 1, longest)
	for range 40 {
		d := openDriver(t, s)
		joins(t, d, "x", "y")
		d.Abandon()
	}
	entries, err := server.Do(hang.Context(t), "ZCARD", "{"+s.opts.Root+"}:q:x").AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 40, entries)
	c := s.client(t, longest)
	hang.Until(t, func() bool { return len(s.keys(t, server)) == 3 }, "the root has the keys %v", s.keys(t, server))
	assert.ElementsMatch(t, []string{"meta", "ses", "s:" + c.Service()}, s.keys(t, server))
}
