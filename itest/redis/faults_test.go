package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/redistest"
	"github.com/fairlock/fairlock/session"
)

// short is the TTL of sessions that a fault outlasts.
const short = 6 * time.Second

// pair is a holder and a waiter on a server of the test's own.
type pair struct {
	store
	server *redistest.Server
	a, b   *recipetest.Client
}

func newPair(t *testing.T, opts *redistest.Options, ttl time.Duration) pair {
	t.Helper()
	server := redistest.New(t, opts)
	p := pair{store: newStore(t, oneOption(server), 1, ttl), server: server}
	p.a, p.b = p.client(t, ttl), p.client(t, ttl)
	return p
}

// A server that loses its scripts, its connections and its clients' notices ends no hold.
func TestWhatTheServerForgetsEndsNoHold(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"SCRIPT FLUSH", "CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, nil, recipetest.EventTTL)
			for range 20 {
				h := p.a.Lock(t, "x")
				r := p.b.Begin(hang.Context(t), "x")
				p.b.Stands(t, 1)
				require.NoError(t, p.server.Do(hang.Context(t), strings.Fields(command)...).Error())
				require.True(t, waits(r))
				recipetest.UnlockInTrouble(t, h)
				recipetest.UnlockInTrouble(t, r.Granted(t))
			}
			p.a.Kept(t)
			p.b.Kept(t)
		})
	}
}

func TestAStoppedServerEndsHoldsByTheirDeadline(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil, short)
	h := p.a.Lock(t, "x")
	r := p.b.Begin(hang.Context(t), "x")
	p.b.Stands(t, 1)
	require.NoError(t, p.server.Pause())
	recipetest.Wait(t, h.Context().Done(), "the end of the hold")
	require.True(t, waits(r))
	require.NoError(t, p.server.Resume())
	recipetest.UnlockInTrouble(t, r.Granted(t))
}

// Only tokens follow the clock, and they never fall.
func TestTheClockOfTheServerMayJump(t *testing.T) {
	t.Parallel()
	p := newPair(t, &redistest.Options{Clock: true}, recipetest.EventTTL)
	last := session.Token(0)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 0} {
		require.NoError(t, p.server.SetClock(ahead))
		for range 3 {
			h := p.a.Lock(t, "x")
			r := p.b.Begin(hang.Context(t), "x")
			p.b.Stands(t, 1)
			require.Greater(t, h.Token(), last)
			last = h.Token()
			recipetest.Unlock(t, h)
			next := r.Granted(t)
			require.Greater(t, next.Token(), last)
			last = next.Token()
			recipetest.Unlock(t, next)
		}
	}
	p.a.Kept(t)
	p.b.Kept(t)
}

// The last number of the root goes with the data. A program that waits carries what it has seen to the new life,
// so also the tokens of others begin above that; one that comes later goes on above what it has seen itself.
func TestTokensRiseWhenDataIsLostAfterTheClockWasAhead(t *testing.T) {
	t.Parallel()
	p := newPair(t, &redistest.Options{Clock: true}, longest)
	require.NoError(t, p.server.SetClock(time.Hour))
	before := p.a.Lock(t, "x")
	waiter := p.b.Begin(hang.Context(t), "x")
	p.b.Queued(t, "x", 2)
	require.NoError(t, p.server.SetClock(0))
	lose := func() { require.NoError(t, p.server.Do(hang.Context(t), "FLUSHALL").Error()) }

	lose()
	fresh := p.client(t, longest)
	require.ErrorIs(t, before.Unlock(), session.ErrLost)
	for _, h := range []*session.Hold{fresh.Lock(t, "y"), waiter.Granted(t)} {
		assert.Greater(t, h.Token(), before.Token())
		recipetest.Unlock(t, h)
	}

	lose()
	require.NoError(t, redisbackend.Init(hang.Context(t), p.option, &p.opts), "nobody waits")
	h := p.a.Lock(t, "x")
	assert.Greater(t, h.Token(), before.Token())
	recipetest.Unlock(t, h)
}

// A dead session is found by the order of renewals, which has nothing to do with the time of day.
func TestADeadHolderIsFoundWhateverTheClockShows(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			t.Parallel()
			server := redistest.New(t, &redistest.Options{Clock: true})
			s := newStore(t, oneOption(server), 1, longest)
			d := openDriver(t, s)
			joins(t, d, "x")
			c := s.client(t, longest)
			r := c.Begin(hang.Context(t), "x")
			c.Stands(t, 1)
			require.NoError(t, server.SetClock(ahead))
			d.Abandon()
			recipetest.Unlock(t, r.Granted(t))
		})
	}
}

// Where a script may say so, what keeps a session and what frees memory runs also without memory.
func TestAServerWithoutMemoryKeepsHoldsAndReleasesThem(t *testing.T) {
	t.Parallel()
	p := newPair(t, &redistest.Options{Config: []string{"maxmemory-policy noeviction"}}, short)
	h := p.a.Lock(t, "x")
	r := p.b.Begin(hang.Context(t), "x")
	p.b.Stands(t, 1)
	require.NoError(t, p.server.Do(hang.Context(t), "CONFIG", "SET", "maxmemory", "1").Error())
	<-time.After(short * 3 / 2) // the time for which it has none
	require.NoError(t, h.Context().Err())
	recipetest.Unlock(t, h)
	recipetest.Unlock(t, r.Granted(t))
	_, err := mutex.New(p.a.Session, "y").Lock(hang.Ending(t, time.Second))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, p.server.Do(hang.Context(t), "CONFIG", "SET", "maxmemory", "0").Error())
	recipetest.UnlockInTrouble(t, p.a.Lock(t, "y"))
	p.a.Kept(t)
	p.b.Kept(t)
}

// Between two renewals a waiter asks nothing, and a holder neither.
func TestAWaiterSendsOnlyRenewals(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil, recipetest.EventTTL)
	h := p.a.Lock(t, "x")
	r := p.b.Begin(hang.Context(t), "x")
	p.b.Stands(t, 1)
	calls := func() (all int64) {
		info, err := p.server.Info(hang.Context(t), "commandstats")
		require.NoError(t, err)
		for name, stat := range info {
			var n int64
			_, err := fmt.Sscanf(stat, "calls=%d", &n)
			require.NoError(t, err)
			if strings.HasPrefix(name, "cmdstat_eval") || strings.Contains(name, "subscribe") {
				all += n
			}
		}
		return all
	}
	<-time.After(time.Second) // the watch is armed
	before, began := calls(), time.Now()
	<-time.After(3 * time.Second)
	sent := calls() - before
	most := int64(time.Since(began)/time.Second) + 2 // of the waiter: one a second is the look at whom it waits for
	assert.LessOrEqual(t, sent, most)
	recipetest.Unlock(t, h)
	recipetest.Unlock(t, r.Granted(t))
}

// All sessions that are dead are counted at the same time.
func TestAHundredDeadWaitersCostOneTTL(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, nil)
	s := newStore(t, oneOption(server), 1, longest)
	var all []interface{ Abandon() }
	for range 100 {
		d := openDriver(t, s)
		joins(t, d, "x")
		all = append(all, d)
	}
	c := s.client(t, longest)
	r := c.Begin(hang.Context(t), "x")
	c.Stands(t, 1)
	<-time.After(2 * longest / 5) // every session was renewed once
	watch := metronome.Begin(t)
	for _, d := range all {
		d.Abandon()
	}
	h := r.Granted(t)
	assert.Less(t, watch.Passed(), 2*longest, "one TTL for all, and not one for each")
	recipetest.Unlock(t, h)
}

// The options of a root are those of each program, and a server must keep what it is asked to keep.
func TestWhatKeepsNoLockIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, nil)
	s := newStore(t, oneOption(server), 1, longest)
	change := func(f func(o *redisbackend.Options)) func(*rueidis.ClientOption, *redisbackend.Options) {
		return func(_ *rueidis.ClientOption, o *redisbackend.Options) { f(o) }
	}
	err := s.refused(t, change(func(o *redisbackend.Options) { o.MaxTTL = 2 * longest }))
	require.ErrorIs(t, err, session.ErrRefused)
	require.ErrorContains(t, err, "MaxTTL")
	err = s.refused(t, change(func(o *redisbackend.Options) { o.Nodes = 3 }))
	require.ErrorIs(t, err, session.ErrRefused)
	require.ErrorContains(t, err, "Nodes")
	err = s.refused(t, change(func(o *redisbackend.Options) { o.Session.TTL = 2 * longest }))
	require.ErrorIs(t, err, session.ErrInvalidOptions)

	require.NoError(t, server.Do(hang.Context(t), "CONFIG", "SET", "maxmemory-policy", "allkeys-lru").Error())
	err = s.refused(t)
	require.ErrorIs(t, err, session.ErrRefused)
	require.ErrorContains(t, err, "maxmemory-policy")
	s.client(t, longest, change(func(o *redisbackend.Options) { o.AcceptWeaker = true }))
	require.NoError(t, server.Do(hang.Context(t), "CONFIG", "SET", "maxmemory-policy", "volatile-lru").Error())
	s.client(t, longest)
	require.NoError(t, server.Do(hang.Context(t), "CONFIG", "SET", "maxmemory-policy", "noeviction").Error())

	require.NoError(t, server.Do(hang.Context(t), "HSET", "{"+s.opts.Root+"}:meta", "layout", "3").Error())
	err = s.refused(t)
	require.ErrorIs(t, err, session.ErrRefused)
	require.ErrorContains(t, err, "layout 3")
}

func TestReplicasThatAreNotCountedAreRefused(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, nil)
	_, err := server.Replica(hang.Context(t), nil)
	require.NoError(t, err)
	s := newStoreWith(t, oneOption(server), redisbackend.Options{MaxTTL: longest, Nodes: 2})
	s.client(t, longest)
	one := store{s.option, redisbackend.Options{Root: "one", MaxTTL: longest}}
	err = redisbackend.Init(hang.Context(t), one.option, &one.opts)
	require.ErrorIs(t, err, session.ErrRefused)
	require.ErrorContains(t, err, "Nodes")
}

func TestLoginsAndTLS(t *testing.T) {
	t.Parallel()
	server := redistest.New(t, &redistest.Options{TLS: true, Config: []string{"user app on >secret ~* &* +@all", "user default off"}})
	secure, err := server.CA().Client("app")
	require.NoError(t, err)
	app := func(password string) rueidis.ClientOption {
		return rueidis.ClientOption{InitAddress: []string{server.Addr()}, Username: "app", Password: password, TLSConfig: secure}
	}
	s := newStore(t, app("secret"), 1, longest)
	c := s.client(t, longest)
	recipetest.Unlock(t, c.Lock(t, "x"))

	err = s.refused(t, func(o *rueidis.ClientOption, _ *redisbackend.Options) { *o = app("wrong") })
	require.ErrorIs(t, err, session.ErrDenied)
	_, err = s.open(hang.Ending(t, 2*time.Second), t, longest, func(o *rueidis.ClientOption, _ *redisbackend.Options) { o.TLSConfig = nil })
	require.ErrorIs(t, err, session.ErrUnavailable)
}

// The slot of the root moves to another shard while a client holds and another one waits. The new shard
// has a life of its own.
func TestARootThatMovesInItsClusterHasANewLife(t *testing.T) {
	t.Parallel()
	all := redistest.NewCluster(t, nil)
	s := newStore(t, rueidis.ClientOption{InitAddress: all.Addrs()}, 1, longest)
	a, b := s.client(t, longest), s.client(t, longest)
	h := a.Lock(t, "x")
	ends := holdEnds(h)
	r := b.Begin(hang.Context(t), "x")
	b.Stands(t, 1)
	key := "{" + s.opts.Root + "}:meta"
	from, err := all.Owner(hang.Context(t), key)
	require.NoError(t, err)
	to := all.Nodes()[0]
	if to == from {
		to = all.Nodes()[1]
	}
	require.NoError(t, all.Move(hang.Context(t), key, to))
	next := r.Granted(t)
	assert.Less(t, hang.Receive(t, ends, "the end of the hold"), r.At)
	assert.Greater(t, next.Token(), h.Token())
	recipetest.UnlockInTrouble(t, next)
}

// One for calls, one for renewals with their acknowledgement, and one for notices.
func TestASessionHasThreeConnections(t *testing.T) {
	t.Parallel()
	g := newGroup(t, nil)
	a, b := g.client(t, longest), g.client(t, longest)
	h := a.Lock(t, "x")
	r := b.Begin(hang.Context(t), "x")
	b.Stands(t, 1)
	<-time.After(longest / 2) // both have been renewed
	list, err := g.master.Do(hang.Context(t), "CLIENT", "LIST").ToString()
	require.NoError(t, err)
	clients := 0
	for line := range strings.Lines(list) {
		if strings.Contains(line, "user=default") && !strings.Contains(line, "cmd=replconf") {
			clients++
		}
	}
	assert.Equal(t, 6, clients, "of two sessions: %s", list)
	recipetest.Unlock(t, h)
	recipetest.Unlock(t, r.Granted(t))
}
