package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/itest/worker"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

// cutWaiter is a holder past the proxy, and a waiter behind it whose watches have been cut
// off: the proxy accepts no connection until it is healed. The waiter must be granted by
// its watches.
type cutWaiter struct {
	cluster        *etcdtest.Cluster
	direct         *clientv3.Client
	monitor        *monitor
	meter          meter
	watches        int64 // before the cut
	streams        int64
	holder, waiter *lockClient
	held           *session.Hold
	waiting        *recipetest.Request
}

func newCutWaiter(t *testing.T) *cutWaiter {
	s := &cutWaiter{cluster: etcdtest.New(t, &etcdtest.Options{Proxied: true})}
	s.direct = clientOf(t, s.cluster, 0)
	s.monitor = watchPrefix(t, s.direct, "root/")
	s.holder = newClient(t, "root", recipetest.CalmTTL).open(t, s.direct)
	s.waiter = newClient(t, "root", recipetest.EventTTL).open(t, clientWith(t, s.cluster, s.meter.on))
	s.held = s.holder.Lock(t, "x")
	s.waiting = s.waiter.Begin(recipetest.Bounded(t), "x")
	s.monitor.Sees(t, 2)
	recipetest.Until(t, "watches on its own entry and on the holder's", func() bool { return s.meter.watches.Load() >= 2 })

	s.cluster.Member(0).ClientProxy().Refuse(true)
	s.cluster.Member(0).ClientProxy().Reset()
	recipetest.Until(t, "no connection", func() bool {
		st := s.cluster.Member(0).ClientProxy().Stats()
		return st.Open == 0 && st.Refused > 0
	})
	s.watches, s.streams = s.meter.watches.Load(), s.meter.streams.Load()
	return s
}

func (s *cutWaiter) heal(t *testing.T) {
	s.cluster.Member(0).ClientProxy().Refuse(false)
	recipetest.Until(t, "new watches", func() bool { return s.meter.watches.Load() > s.watches })
	assert.Greater(t, s.meter.streams.Load(), s.streams, "on a stream of their own")
}

func compactionAndReset(t *testing.T) {
	s := newCutWaiter(t)
	// The server cannot send the events of that time afterwards.
	var rev int64
	for i := range 5 {
		r, err := s.direct.Put(recipetest.Bounded(t), "elsewhere", fmt.Sprint(i))
		require.NoError(t, err)
		rev = r.Header.Revision
	}
	_, err := s.direct.Compact(recipetest.Bounded(t), rev, clientv3.WithCompactPhysical())
	require.NoError(t, err)
	_, err = s.direct.Get(recipetest.Bounded(t), "elsewhere", clientv3.WithRev(rev-1))
	require.ErrorIs(t, err, rpctypes.ErrCompacted)
	s.heal(t)
	behind := s.holder.Begin(recipetest.Bounded(t), "x")
	tokens := s.monitor.Sees(t, 3)
	entries := s.holder.Queued(t, "x", 3)
	released := recipetest.Now()
	recipetest.Unlock(t, s.held)
	first := s.waiting.Granted(t)
	behind.Waits(t)

	assert.Equal(t, []int64{entries[0].Place, entries[1].Place, entries[2].Place}, tokens)
	assert.EqualValues(t, tokens[1], first.Token(), "the place that it had before")
	t.Logf("granted %s after the release", s.waiting.At.Sub(released))
	recipetest.Unlock(t, first)
	last := behind.Granted(t)
	assert.EqualValues(t, tokens[2], last.Token())
	recipetest.Unlock(t, last)
	s.waiter.Kept(t)
	s.monitor.SeesNothingLeft(t)
}

func releaseDuringACut(t *testing.T) {
	s := newCutWaiter(t)
	recipetest.Unlock(t, s.held)
	s.monitor.SeesEnd(t, int64(s.held.Token()))
	s.waiting.Waits(t)
	healed := recipetest.Now()
	s.cluster.Member(0).ClientProxy().Refuse(false)
	h := s.waiting.Granted(t)

	assert.EqualValues(t, s.monitor.Sees(t, 2)[1], h.Token())
	t.Logf("granted %s after the cut", s.waiting.At.Sub(healed))
	recipetest.Unlock(t, h)
	s.waiter.Kept(t)
	s.monitor.SeesNothingLeft(t)
}

func waiterOnACutMember(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{Members: 3, Proxied: true})
	for _, who := range []string{"follower", "leader"} {
		t.Run(who, func(t *testing.T) {
			leader, err := cluster.Leader(recipetest.Bounded(t))
			require.NoError(t, err)
			cut := leader
			if who == "follower" {
				cut = (leader + 1) % 3
			}
			cutOffWaiters(t, cluster, who, cut)
		})
	}
}

// cutOffWaiters has five waiters, each behind its own holder. The stream of the
// first is on the member that is cut off, those of the others wherever their
// clients took them. No waiter reads without an event in the time of the test.
func cutOffWaiters(t *testing.T, cluster *etcdtest.Cluster, root string, cut int) {
	const n = 5
	majority := clientOf(t, cluster, (cut+1)%3, (cut+2)%3)
	monitor := watchPrefix(t, majority, root+"/")
	holder := newClient(t, root, recipetest.EventTTL).open(t, majority)
	var held [n]*session.Hold
	var waiters [n]*lockClient
	var waiting [n]*recipetest.Request
	for i := range n {
		name := fmt.Sprint("x", i)
		held[i] = holder.Lock(t, name)
		var meter meter
		client := clientWith(t, cluster, func(cfg *clientv3.Config) {
			meter.on(cfg)
			if i == 0 {
				cfg.Endpoints = cfg.Endpoints[cut : cut+1]
			}
		})
		waiters[i] = newClient(t, root, recipetest.EventTTL).open(t, client)
		waiting[i] = waiters[i].Begin(recipetest.Bounded(t), name)
		recipetest.Until(t, "its watches", func() bool { return meter.watches.Load() >= 2 })
		client.SetEndpoints(cluster.Endpoints()...) // the stream stays where it is
	}

	began := recipetest.Now()
	cluster.Member(cut).CutPeers()
	defer cluster.Member(cut).HealPeers()
	for _, h := range held {
		recipetest.UnlockInTrouble(t, h)
	}
	for i, r := range waiting {
		gone := monitor.SeesEnd(t, int64(held[i].Token()))
		h := r.Granted(t)
		t.Logf("waiter %d granted %s after the cut, %s after the release", i, r.At.Sub(began), r.At.Sub(gone))
		assert.Greater(t, h.Token(), held[i].Token())
	}

	// The cut was there all the time: the member never learned of the releases.
	at := clientOf(t, cluster, cut)
	for _, h := range held {
		r, err := at.Get(recipetest.Bounded(t), recipetest.Refs(h)[0].Key, clientv3.WithSerializable())
		require.NoError(t, err)
		assert.Len(t, r.Kvs, 1, "at the member that is cut off")
	}
	assert.Positive(t, heldBack(cluster), "bytes between members held back")
	cluster.Member(cut).HealPeers()
	for i, r := range waiting {
		recipetest.Unlock(t, r.Hold)
		waiters[i].Kept(t)
	}
	monitor.SeesNothingLeft(t)
}

// heldBack returns how many bytes between members have not arrived.
func heldBack(cluster *etcdtest.Cluster) (bytes int64) {
	for i := range cluster.Len() {
		st := cluster.Member(i).PeerProxy().Stats()
		bytes += st.Requests.Waiting + st.Replies.Waiting
	}
	return bytes
}

func leaderMovesAndDies(t *testing.T) {
	const n = 6
	cluster := etcdtest.New(t, &etcdtest.Options{Members: 3, Processes: true})
	monitor := watchPrefix(t, cluster.Client(t), "root/")
	var clients [n]*lockClient
	var requests [n]*recipetest.Request
	for i := range clients {
		clients[i] = newClient(t, "root", recipetest.CalmTTL).open(t, cluster.Client(t))
		requests[i] = clients[i].Begin(recipetest.Bounded(t), "x")
		monitor.Sees(t, i+1)
	}
	tokens := monitor.Sees(t, n)
	var turns []worker.Turn
	next := 0
	step := func(after string) {
		t.Helper()
		begin := recipetest.Now()
		h := requests[next].Granted(t)
		t.Logf("%-28s granted after %s", after, max(0, requests[next].At.Sub(begin)).Round(time.Millisecond))
		assert.Equal(t, tokens[next], int64(h.Token()))
		for _, r := range requests[next+1:] {
			r.Waits(t)
		}
		turns = append(turns, worker.Turn{Token: int64(h.Token()), Begin: requests[next].At, End: recipetest.Now()})
		recipetest.UnlockInTrouble(t, h)
		next++
	}
	requests[0].Granted(t)

	from, err := cluster.Leader(recipetest.Bounded(t))
	require.NoError(t, err)
	require.NoError(t, cluster.MoveLeader(recipetest.Bounded(t), (from+1)%3))
	step("at first")
	step("leader moved")
	requests[next].Granted(t)
	cluster.Member((from + 1) % 3).Kill()
	step("leader killed while it held")
	step("leader killed")
	other, err := cluster.Leader(recipetest.Bounded(t))
	require.NoError(t, err)
	assert.NotEqual(t, (from+1)%3, other)
	require.NoError(t, cluster.Member((from+1)%3).Restart(recipetest.Bounded(t)))
	step("the killed member is back")
	cluster.Member(other).Kill()
	step("another leader killed")

	monitor.CheckTurns(t, turns, false)
	for _, p := range clients {
		p.Kept(t)
	}
}

// outageIsLoggedSparsely has a Lock wait while etcd is away. The client of the user writes a
// line for each request that fails: for those under way when it notices, and for none later.
func outageIsLoggedSparsely(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{Processes: true})
	core, logged := observer.New(zapcore.WarnLevel)
	var underWay atomic.Int64
	client, err := cluster.NewClient(func(cfg *clientv3.Config) {
		cfg.Logger = zap.New(core)
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			underWay.Add(1)
			defer underWay.Add(-1)
			return invoke(ctx, method, req, reply, cc, opts...)
		}))
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	p := newClient(t, "root", 6*time.Second).open(t, client) // it ends in the outage and not before
	recipetest.Unlock(t, p.Lock(t, "x"))

	member := cluster.Member(0)
	member.Kill()
	began := recipetest.Now()
	recipetest.Until(t, "a client that has noticed", func() bool {
		return client.ActiveConnection().GetState() == connectivity.TransientFailure && underWay.Load() == 0
	})
	time.Sleep(time.Second) // what has failed by now is logged then
	logged.TakeAll()
	away, cancel := context.WithCancel(recipetest.Bounded(t))
	defer cancel()
	waiting := p.Begin(away, "x")
	lines := func(text string) int { return strings.Count(p.Log.String(), text) }
	recipetest.Until(t, "a session that has ended, and one that cannot be opened", func() bool { return lines("cannot open a session") > 0 })
	cancel()
	recipetest.Wait(t, waiting.Done, "the end of Lock")
	require.ErrorIs(t, waiting.Err, context.Canceled)
	later := logged.TakeAll() // a server that has just started may answer late
	require.NoError(t, member.Restart(recipetest.Bounded(t)))
	recipetest.Unlock(t, p.Lock(t, "x"))
	recipetest.Until(t, "the end of the outage in the log", func() bool { return lines("reachable again") > 0 })

	for _, e := range later {
		assert.Fail(t, "the client's own log", "%s %v", e.Message, e.ContextMap()["method"])
	}
	minutes := 1 + int(recipetest.Now().Sub(began)/time.Minute)
	assert.LessOrEqual(t, lines("cannot open a session"), minutes)
	assert.Equal(t, 1, lines("reachable again"))
	// The lease, the watch stream, the session, and the two above, once each.
	assert.LessOrEqual(t, len(warnings(p.Log.String())), 5*minutes, &p.Log)
}
