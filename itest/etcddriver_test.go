package itest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/client/v3/namespace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/session/driver"
)

// patience bounds what should take milliseconds on a machine that is busy.
const patience = 20 * time.Second

// leased is a driver session and what it reported.
type leased struct {
	driver.Session
	b      driver.Backend
	client *clientv3.Client
	mu     sync.Mutex
	proofs []driver.Instant
	gone   []error
}

func (l *leased) newest() driver.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Max(l.proofs)
}

func (l *leased) isGone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.gone) > 0
}

// lease opens a driver session on a client.
func lease(t testing.TB, client *clientv3.Client, opts *etcdbackend.Options, ttl time.Duration) *leased {
	t.Helper()
	b, err := etcdbackend.NewBackend(client, opts)
	require.NoError(t, err)
	l := &leased{b: b, client: client}
	l.Session, err = b.Open(t.Context(), driver.Config{
		TTL: ttl, Window: ttl - b.Profile().Margin(ttl), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Proof: func(sent driver.Instant, _ time.Duration) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.proofs = append(l.proofs, sent)
		},
		Gone: func(err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.gone = append(l.gone, err)
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = l.Close(ctx)
	})
	return l
}

// join puts an exclusive entry, and fails the test if it cannot.
func (l *leased) join(t testing.TB, line string) driver.Joined {
	t.Helper()
	j, err := l.Join(t.Context(), driver.JoinRequest{Line: line, Meta: driver.Meta{Kind: "test"}})
	require.NoError(t, err)
	return j
}

func (l *leased) leave(t testing.TB, ref driver.Ref) driver.Left {
	t.Helper()
	left, err := l.Leave(t.Context(), driver.LeaveRequest{Ref: ref})
	require.NoError(t, err)
	return left
}

// events collects what a watch tells.
type events chan driver.Event

func (l *leased) watch(t testing.TB, req driver.WatchRequest) events {
	ch := make(events, 1000)
	t.Cleanup(l.Watch(req, func(ev driver.Event) { ch <- ev }))
	return ch
}

// next returns the next event of one of the kinds, skipping no other kind but
// those of a remade stream.
func (ch events) next(t testing.TB, kind driver.EventKind) driver.Event {
	t.Helper()
	select {
	case ev := <-ch:
		require.Equal(t, kind, ev.Kind, "kind of event at %d", ev.Rev)
		return ev
	case <-time.After(patience):
		require.Fail(t, "no event", "kind %d", kind)
		return driver.Event{}
	}
}

// faults is a gRPC interceptor that loses answers and holds requests up.
type faults struct {
	lose atomic.Int32 // so many answers to transactions that were applied
	mu   sync.Mutex
	hold map[string]chan struct{} // transactions on a key wait, then are sent late
	late sync.WaitGroup
}

func (f *faults) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(f.unary)}
}

func (f *faults) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	txn, ok := req.(*pb.TxnRequest)
	if !ok {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	f.mu.Lock()
	var held chan struct{}
	for key, ch := range f.hold {
		for _, op := range txn.Success {
			if p := op.GetRequestPut(); p != nil && strings.HasPrefix(string(p.Key), key) {
				held = ch
				delete(f.hold, key)
			}
		}
	}
	f.mu.Unlock()
	if held != nil {
		f.late.Go(func() {
			<-held
			_ = invoke(context.WithoutCancel(ctx), method, req, &pb.TxnResponse{}, cc)
		})
		return status.Error(codes.Unavailable, "connection reset by the test")
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	if err == nil && f.lose.Add(-1) >= 0 {
		return status.Error(codes.Unavailable, "answer lost by the test")
	}
	return err
}

func faultyClient(t testing.TB, c *etcdtest.Cluster) (*clientv3.Client, *faults) {
	t.Helper()
	f := &faults{hold: map[string]chan struct{}{}}
	f.lose.Store(-1 << 30)
	client, err := c.NewClient(func(cfg *clientv3.Config) { cfg.DialOptions = f.options() })
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client, f
}

func count(t testing.TB, c *clientv3.Client, prefix string) int {
	t.Helper()
	r, err := c.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	return int(r.Count)
}

func TestEtcdDriverLineInOrder(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	l := lease(t, client, nil, 5*time.Second)

	first := l.join(t, "a/b")
	second := l.join(t, "a/b")
	third, err := l.Join(t.Context(), driver.JoinRequest{Line: "a/b", Mode: driver.Weighted, Weight: 3})
	require.NoError(t, err)

	assert.Equal(t, 0, first.Ahead)
	assert.Equal(t, "fairlock/a%2Fb/"+l.ID()+".0", first.Entry.Key)
	require.Equal(t, 1, second.Ahead)
	require.Len(t, second.Known, 1)
	assert.Equal(t, first.Entry.Ref, second.Known[0].Ref)
	assert.Equal(t, l.ID(), second.Known[0].Session)
	assert.Equal(t, "test", second.Known[0].Meta.Kind)
	assert.Equal(t, 2, third.Ahead)
	assert.Empty(t, third.Known)
	assert.True(t, strings.HasSuffix(third.Entry.Key, ".2.w3"))

	for _, nearest := range []int{0, 1, 2, 5} {
		v, err := l.Look(t.Context(), driver.LookRequest{Line: "a/b", Upto: third.Entry.Place, Nearest: nearest, NotBefore: third.Entry.Place})
		require.NoError(t, err)
		want := []driver.Ref{first.Entry.Ref, second.Entry.Ref, third.Entry.Ref}
		if nearest == 1 {
			want = want[1:]
		}
		var got []driver.Ref
		for _, e := range v.Entries {
			got = append(got, e.Ref)
		}
		assert.Equal(t, want, got, "nearest %d", nearest)
		assert.Equal(t, nearest != 1, v.Complete, "nearest %d", nearest)
		assert.Equal(t, int64(3), v.Entries[len(v.Entries)-1].Weight)
	}

	left := l.leave(t, second.Entry.Ref)
	assert.Positive(t, left.Rev)
	_, err = l.Leave(t.Context(), driver.LeaveRequest{Ref: second.Entry.Ref})
	require.ErrorIs(t, err, driver.ErrGone)
	left, err = l.Leave(t.Context(), driver.LeaveRequest{Ref: first.Entry.Ref, Probe: third.Entry.Ref})
	require.NoError(t, err)
	assert.True(t, left.Probed && left.Alive)

	list, err := l.b.List(t.Context(), "a/b", 0)
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, third.Entry, func() driver.Entry { e := list[0]; e.Meta = third.Entry.Meta; return e }())
	names, err := l.b.Names(t.Context(), "a/")
	require.NoError(t, err)
	assert.Equal(t, []string{"a/b"}, names)

	require.NoError(t, l.Close(t.Context()))
	assert.Equal(t, 0, count(t, client, "fairlock/"))
}

func TestEtcdDriverSlotsAreUsedAgain(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	l := lease(t, client, nil, 5*time.Second)
	keys := map[string]bool{}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		wg.Go(func() {
			for range 50 {
				j, err := l.Join(context.Background(), driver.JoinRequest{Line: "x"})
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				keys[j.Entry.Key] = true
				mu.Unlock()
				_, err = l.Leave(context.Background(), driver.LeaveRequest{Ref: j.Entry.Ref})
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	assert.LessOrEqual(t, len(keys), 4)
}

func TestEtcdDriverTryFindsTheHolder(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	l := lease(t, client, nil, 5*time.Second)
	try := func() (driver.Joined, error) {
		return l.Join(t.Context(), driver.JoinRequest{Line: "x", IfEmpty: true})
	}

	held, err := try()
	require.NoError(t, err)
	_, err = try()
	var taken *driver.TakenError
	require.ErrorAs(t, err, &taken)
	assert.Equal(t, held.Entry.Ref, taken.First.Ref)
	assert.Equal(t, 1, taken.Count)

	for range 40 { // a deep line is read before it is written to
		l.join(t, "x")
	}
	before, err := client.Get(t.Context(), "x")
	require.NoError(t, err)
	for range 3 {
		_, err = try()
		require.ErrorAs(t, err, &taken)
		assert.Equal(t, 41, taken.Count)
		assert.Equal(t, held.Entry.Ref, taken.First.Ref)
	}
	after, err := client.Get(t.Context(), "x")
	require.NoError(t, err)
	assert.Equal(t, before.Header.Revision, after.Header.Revision, "a refused try writes nothing")
}

func TestEtcdDriverLostAnswersAreResolved(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	client, f := faultyClient(t, cluster)
	l := lease(t, client, nil, 5*time.Second)
	held := l.join(t, "x")

	f.lose.Store(1)
	j := l.join(t, "x")
	assert.Equal(t, 1, j.Ahead)
	assert.Equal(t, []driver.Ref{held.Entry.Ref}, []driver.Ref{j.Known[0].Ref})
	assert.Equal(t, 2, count(t, client, "fairlock/x/"))

	f.lose.Store(2) // the join's answer and that to its resolution
	j2 := l.join(t, "x")
	assert.Equal(t, 2, j2.Ahead)

	f.lose.Store(1)
	left := l.leave(t, j2.Entry.Ref)
	assert.Zero(t, left.Rev)
	assert.Equal(t, 2, count(t, client, "fairlock/x/"))
	assert.Equal(t, 0, count(t, client, "fairlock/%fence/"), "what was found needs no fence")
}

func TestEtcdDriverUnansweredLeaveIsRemembered(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	client, f := faultyClient(t, cluster)
	l := lease(t, client, nil, 5*time.Second)
	j := l.join(t, "x")

	ctx, cancel := context.WithCancel(t.Context())
	f.lose.Store(1)
	stop := context.AfterFunc(ctx, func() {})
	defer stop()
	time.AfterFunc(3*time.Millisecond, cancel)
	f.lose.Store(1 << 20)
	_, err := l.Leave(ctx, driver.LeaveRequest{Ref: j.Entry.Ref})
	require.ErrorIs(t, err, context.Canceled)
	f.lose.Store(-1 << 30)
	_, err = l.Leave(t.Context(), driver.LeaveRequest{Ref: j.Entry.Ref})
	require.NoError(t, err, "an earlier call of this kind did it")
	_, err = l.Leave(t.Context(), driver.LeaveRequest{Ref: j.Entry.Ref})
	require.ErrorIs(t, err, driver.ErrGone)
}

func TestEtcdDriverLatePutIsFencedOff(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	client, f := faultyClient(t, cluster)
	l := lease(t, client, nil, 5*time.Second)
	released := make(chan struct{})
	f.mu.Lock()
	f.hold["fairlock/x/"] = released
	f.mu.Unlock()

	j := l.join(t, "x") // the first attempt is on its way, the second is done
	l.leave(t, j.Entry.Ref)
	close(released)
	f.late.Wait()

	assert.Equal(t, 0, count(t, client, "fairlock/x/"), "the late put made an entry that nobody knows")
	assert.Equal(t, 1, count(t, client, "fairlock/%fence/"))
	assert.True(t, strings.HasSuffix(j.Entry.Key, ".0"), "the slot was free again once the fate was sealed")
}

func TestEtcdDriverPendingJoinSettles(t *testing.T) {
	for _, applied := range []bool{true, false} {
		t.Run(fmt.Sprintf("applied=%v", applied), func(t *testing.T) {
			cluster := etcdtest.New(t, nil)
			client, f := faultyClient(t, cluster)
			l := lease(t, client, nil, 5*time.Second)
			ctx, cancel := context.WithCancel(t.Context())
			released, blocked := make(chan struct{}), make(chan struct{})
			if applied {
				f.lose.Store(1 << 20)
			} else {
				f.mu.Lock()
				f.hold["fairlock/x/"] = released
				f.hold["fairlock/%fence/"] = blocked
				f.mu.Unlock()
				f.lose.Store(1 << 20)
			}
			time.AfterFunc(20*time.Millisecond, cancel)
			_, err := l.Join(ctx, driver.JoinRequest{Line: "x"})
			var pending *driver.PendingError
			require.ErrorAs(t, err, &pending)
			require.ErrorIs(t, err, context.Canceled)

			f.mu.Lock()
			clear(f.hold)
			f.mu.Unlock()
			dead, cancel2 := context.WithCancel(t.Context())
			cancel2()
			require.Error(t, pending.Settle(dead))
			f.lose.Store(-1 << 30)
			require.NoError(t, pending.Settle(t.Context()))
			require.NoError(t, pending.Settle(t.Context()))
			close(released)
			close(blocked)
			f.late.Wait()
			assert.Equal(t, 0, count(t, client, "fairlock/x/"))
			again := l.join(t, "x")
			assert.Equal(t, 0, again.Ahead)
			assert.True(t, strings.HasSuffix(again.Entry.Key, ".0"), again.Entry.Key)
		})
	}
}

func TestEtcdDriverWatchTellsTheEnd(t *testing.T) {
	for _, wrapped := range []bool{false, true} {
		t.Run(fmt.Sprintf("wrapped=%v", wrapped), func(t *testing.T) {
			cluster := etcdtest.New(t, nil)
			client := cluster.Client(t)
			if wrapped {
				client.KV = namespace.NewKV(client.KV, "team/")
				client.Watcher = namespace.NewWatcher(client.Watcher, "team/")
				client.Lease = namespace.NewLease(client.Lease, "team/")
			}
			l := lease(t, client, nil, 5*time.Second)
			assert.Equal(t, !wrapped, l.b.Profile().Ordered)
			a, b := l.join(t, "x"), l.join(t, "x")
			own := l.watch(t, driver.WatchRequest{Ref: b.Entry.Ref, Own: true})
			pre := l.watch(t, driver.WatchRequest{Ref: a.Entry.Ref})
			chg := l.watch(t, driver.WatchRequest{Ref: a.Entry.Ref, Changes: true})
			assert.GreaterOrEqual(t, own.next(t, driver.Armed).Rev, b.Entry.Place)
			pre.next(t, driver.Armed)
			chg.next(t, driver.Armed)

			_, err := client.Put(t.Context(), a.Entry.Key, "{}", clientv3.WithIgnoreLease())
			require.NoError(t, err)
			chg.next(t, driver.Changed)
			left := l.leave(t, a.Entry.Ref)
			assert.Equal(t, left.Rev, pre.next(t, driver.Gone).Rev)
			chg.next(t, driver.Gone)

			// The slot is used again; a watch on the old entry is not fooled.
			c := l.join(t, "x")
			require.Equal(t, a.Entry.Key, c.Entry.Key)
			second := l.watch(t, driver.WatchRequest{Ref: c.Entry.Ref, Own: true, Since: c.Entry.Place})
			second.next(t, driver.Armed)
			_, err = client.Delete(t.Context(), b.Entry.Key)
			require.NoError(t, err)
			own.next(t, driver.Gone)
			assert.Empty(t, second)
			assert.Empty(t, own)
			l.leave(t, c.Entry.Ref)
			second.next(t, driver.Gone)

			// An own entry that ended before it was watched.
			d := l.join(t, "x")
			_, err = client.Delete(t.Context(), d.Entry.Key)
			require.NoError(t, err)
			late := l.watch(t, driver.WatchRequest{Ref: d.Entry.Ref, Own: true, Since: d.Entry.Place})
			ev := <-late
			if ev.Kind == driver.Armed { // the news is still on its way
				ev = late.next(t, driver.Gone)
			}
			assert.Equal(t, driver.Gone, ev.Kind)
		})
	}
}

func TestEtcdDriverOwnEndComesBeforeLaterEvents(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	client := cluster.Client(t)
	other := lease(t, client, nil, 5*time.Second)
	l := lease(t, client, nil, 5*time.Second)
	for i := range 200 {
		line := fmt.Sprint("x", i%3)
		pre, mine := other.join(t, line), l.join(t, line)
		var mu sync.Mutex
		var seen []string
		armed, done := make(chan struct{}, 2), make(chan struct{}, 2)
		note := func(who string) func(driver.Event) {
			return func(ev driver.Event) {
				switch ev.Kind {
				case driver.Armed:
					armed <- struct{}{}
				case driver.Gone:
					mu.Lock()
					seen = append(seen, who)
					mu.Unlock()
					done <- struct{}{}
				case driver.Broken, driver.Changed:
				}
			}
		}
		l.Watch(driver.WatchRequest{Ref: mine.Entry.Ref, Own: true}, note("own"))
		l.Watch(driver.WatchRequest{Ref: pre.Entry.Ref}, note("other"))
		<-armed
		<-armed
		_, err := client.Delete(t.Context(), mine.Entry.Key)
		require.NoError(t, err)
		other.leave(t, pre.Entry.Ref)
		<-done
		<-done
		require.Equal(t, []string{"own", "other"}, seen)
	}
}

// A server whose channel to us is full tells events out of order. Then nobody
// may be granted on the word of the stream alone.
func TestEtcdDriverBurstsNeverHideTheOwnEnd(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{Proxied: true})
	direct, err := cluster.NewClient(func(cfg *clientv3.Config) { cfg.Endpoints = []string{cluster.Member(0).Direct()} })
	require.NoError(t, err)
	t.Cleanup(func() { _ = direct.Close() })
	other := lease(t, direct, nil, 30*time.Second)
	l := lease(t, cluster.Client(t), nil, 30*time.Second)
	const n = 600
	long := strings.Repeat("x", 400) // so that few events fill the connection
	pres, mines := make([]driver.Joined, n), make([]driver.Joined, n)
	var ready, gone sync.WaitGroup
	for i := range n {
		ready.Go(func() {
			pres[i] = other.join(t, fmt.Sprint(i, long))
			mines[i] = l.join(t, fmt.Sprint(i, long))
		})
	}
	ready.Wait()

	var mu sync.Mutex
	var state [n]driver.EventKind // of the own entries
	granted, disarmed, swapped := 0, 0, 0
	ready.Add(2 * n)
	gone.Add(2 * n)
	for i := range n {
		once := [2]sync.Once{}
		note := func(who int) func(driver.Event) {
			return func(ev driver.Event) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case ev.Kind == driver.Armed:
					once[who].Do(ready.Done)
				case ev.Kind == driver.Gone:
					gone.Done()
				case who == 0:
					disarmed++
				}
				if who == 0 {
					state[i] = ev.Kind
					return
				}
				if ev.Kind == driver.Gone && state[i] == driver.Armed {
					granted++
				}
				if ev.Kind == driver.Gone && state[i] != driver.Gone {
					swapped++
				}
			}
		}
		l.Watch(driver.WatchRequest{Ref: mines[i].Entry.Ref, Own: true}, note(0))
		l.Watch(driver.WatchRequest{Ref: pres[i].Entry.Ref}, note(1))
	}
	ready.Wait()
	proxy := cluster.Member(0).ClientProxy()
	proxy.Hold(etcdtest.Down)
	for chunk := range slices.Chunk(mines, 100) {
		var ops []clientv3.Op
		for _, j := range chunk {
			ops = append(ops, clientv3.OpDelete(j.Entry.Key))
		}
		_, err := direct.Txn(t.Context()).Then(ops...).Commit()
		require.NoError(t, err)
	}
	proxy.Heal(etcdtest.Down)
	require.NoError(t, other.Close(t.Context()))
	gone.Wait()

	t.Logf("told out of order %d, disarmed %d", swapped, disarmed)
	assert.Zero(t, granted, "entries that were gone before their predecessor")
	again := l.join(t, "x")
	l.watch(t, driver.WatchRequest{Ref: again.Entry.Ref, Own: true}).next(t, driver.Armed)
}

func TestEtcdDriverStreamIsMadeAnew(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{Proxied: true})
	client, direct := cluster.Client(t), cluster
	l := lease(t, client, nil, 8*time.Second)
	a, b := l.join(t, "x"), l.join(t, "x")
	own := l.watch(t, driver.WatchRequest{Ref: b.Entry.Ref, Own: true})
	pre := l.watch(t, driver.WatchRequest{Ref: a.Entry.Ref})
	own.next(t, driver.Armed)
	pre.next(t, driver.Armed)

	direct.Member(0).ClientProxy().Reset()
	own.next(t, driver.Broken)
	pre.next(t, driver.Broken)
	own.next(t, driver.Armed)
	pre.next(t, driver.Armed)

	l.leave(t, a.Entry.Ref)
	pre.next(t, driver.Gone)
	l.leave(t, b.Entry.Ref)
	own.next(t, driver.Gone)
	assert.False(t, l.isGone())
}

func TestEtcdDriverSilentStreamIsGivenUp(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{Members: 3, Proxied: true})
	client := cluster.Client(t)
	other := cluster.Client(t)
	l := lease(t, client, nil, 4*time.Second)
	o := lease(t, other, nil, 30*time.Second)
	a := o.join(t, "x")
	pre := l.watch(t, driver.WatchRequest{Ref: a.Entry.Ref})
	pre.next(t, driver.Armed)

	// One of three connections goes silent; it may be the stream's.
	for i := range 3 {
		cluster.Member(i).ClientProxy().Hold(etcdtest.Both)
		begin := time.Now()
		heard := false
		for time.Since(begin) < 4*time.Second && !heard {
			select {
			case ev := <-pre:
				require.Equal(t, driver.Broken, ev.Kind)
				pre.next(t, driver.Armed)
				heard = true
			case <-time.After(50 * time.Millisecond):
			}
		}
		cluster.Member(i).ClientProxy().Heal(etcdtest.Both)
		if heard {
			t.Logf("stream of member %d given up after %s", i, time.Since(begin))
		}
	}
	assert.False(t, l.isGone(), "renewals go over other endpoints")
	o.leave(t, a.Entry.Ref)
	for ev := range pre {
		if ev.Kind == driver.Gone {
			break
		}
	}
}

func TestEtcdDriverRenewsAroundABlackHole(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{Members: 3, Proxied: true})
	var ls []*leased
	for range 6 {
		ls = append(ls, lease(t, cluster.Client(t), nil, 4*time.Second))
	}
	for i := range 3 {
		cluster.Member(i).ClientProxy().Hold(etcdtest.Both)
		time.Sleep(5 * time.Second) // longer than the TTL
		cluster.Member(i).ClientProxy().Heal(etcdtest.Both)
		for _, l := range ls {
			require.False(t, l.isGone())
			assert.Less(t, l.b.Clock().Now().Sub(l.newest()), 3*time.Second, "window")
		}
	}
}

func TestEtcdDriverRevokedLeaseIsReported(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	l := lease(t, client, nil, 3*time.Second)
	j := l.join(t, "x")
	var id int64
	_, err := fmt.Sscanf(l.ID(), "%x", &id)
	require.NoError(t, err)
	_, err = client.Revoke(t.Context(), clientv3.LeaseID(id))
	require.NoError(t, err)

	l.Prove()
	require.Eventually(t, l.isGone, patience, time.Millisecond)
	_, err = l.Join(t.Context(), driver.JoinRequest{Line: "x"})
	require.ErrorIs(t, err, driver.ErrSessionOver)
	_, err = l.Leave(t.Context(), driver.LeaveRequest{Ref: j.Entry.Ref})
	require.ErrorIs(t, err, driver.ErrGone)
	require.NoError(t, l.Close(t.Context()))
}

func TestEtcdDriverContextsAreObeyed(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{Proxied: true})
	l := lease(t, cluster.Client(t), nil, 5*time.Second)
	j := l.join(t, "x")
	cluster.Member(0).ClientProxy().Hold(etcdtest.Both)
	for name, f := range map[string]func(context.Context) error{
		"join": func(ctx context.Context) error { _, err := l.Join(ctx, driver.JoinRequest{Line: "x"}); return err },
		"leave": func(ctx context.Context) error {
			_, err := l.Leave(ctx, driver.LeaveRequest{Ref: j.Entry.Ref})
			return err
		},
		"look":  func(ctx context.Context) error { _, err := l.Look(ctx, driver.LookRequest{Line: "x"}); return err },
		"list":  func(ctx context.Context) error { _, err := l.b.List(ctx, "x", 0); return err },
		"names": func(ctx context.Context) error { _, err := l.b.Names(ctx, "x"); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		begin := time.Now()
		err := f(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		assert.Less(t, time.Since(begin), 500*time.Millisecond, name)
	}
	cluster.Member(0).ClientProxy().Heal(etcdtest.Both)
}

func TestEtcdDriverStandsInLineWithMutex(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	l := lease(t, client, &etcdbackend.Options{Layout: etcdbackend.LayoutConcurrency}, 5*time.Second)
	cs, err := concurrency.NewSession(client, concurrency.WithTTL(5))
	require.NoError(t, err)
	m := concurrency.NewMutex(cs, "team/x")
	require.NoError(t, m.Lock(t.Context()))

	j := l.join(t, "team/x")
	require.Equal(t, 1, j.Ahead)
	assert.True(t, j.Known[0].Foreign)
	assert.False(t, j.Known[0].Unleased)
	assert.Equal(t, fmt.Sprintf("%x", int64(cs.Lease())), j.Known[0].Session)
	pre := l.watch(t, driver.WatchRequest{Ref: j.Known[0].Ref})
	pre.next(t, driver.Armed)
	require.NoError(t, m.Unlock(t.Context()))
	pre.next(t, driver.Gone)
	names, err := l.b.Names(t.Context(), "team/")
	require.NoError(t, err)
	assert.Equal(t, []string{"team/x"}, names)

	locked := make(chan error, 1)
	go func() { locked <- m.Lock(context.Background()) }()
	require.Eventually(t, func() bool { return count(t, client, "team/x/") == 2 }, patience, time.Millisecond)
	assert.Empty(t, locked)
	l.leave(t, j.Entry.Ref)
	require.NoError(t, <-locked)
	require.NoError(t, cs.Close())
}

func TestEtcdDriverFullQuotaIsNamed(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{QuotaBytes: 16 << 20})
	client := cluster.Client(t)
	l := lease(t, client, nil, 30*time.Second)
	held := l.join(t, "x")
	for i := 0; ; i++ {
		_, err := client.Put(t.Context(), fmt.Sprint("fill", i), strings.Repeat("x", 1<<20))
		if err != nil {
			break
		}
		require.Less(t, i, 100)
	}
	_, err := l.Join(t.Context(), driver.JoinRequest{Line: "x"})
	require.ErrorIs(t, err, driver.ErrRefused)
	var pending *driver.PendingError
	assert.False(t, errors.As(err, &pending))
	assert.ErrorContains(t, err, "NOSPACE")
	assert.ErrorContains(t, err, "disarm")
	_, err = l.b.Open(t.Context(), driver.Config{
		TTL: 5 * time.Second, Window: 4 * time.Second, Logger: slog.Default(),
		Proof: func(driver.Instant, time.Duration) {}, Gone: func(error) {},
	})
	require.ErrorIs(t, err, driver.ErrRefused)
	assert.Equal(t, 1, count(t, client, "fairlock/x/"))
	l.leave(t, held.Entry.Ref)
}

func TestEtcdDriverDeniedAtOnce(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	root := cluster.Client(t)
	ctx := t.Context()
	for _, err := range []error{
		second(root.RoleAdd(ctx, "locks")),
		second(root.RoleGrantPermission(ctx, "locks", "fairlock/", "fairlock0", clientv3.PermissionType(clientv3.PermReadWrite))),
		second(root.UserAdd(ctx, "root", "s3cret")), second(root.UserGrantRole(ctx, "root", "root")),
		second(root.UserAdd(ctx, "worker", "s3cret")), second(root.UserGrantRole(ctx, "worker", "locks")),
		second(root.UserAdd(ctx, "guest", "s3cret")),
		second(root.AuthEnable(ctx)),
	} {
		require.NoError(t, err)
	}
	as := func(user, password string) *clientv3.Client {
		c, err := cluster.NewClient(func(cfg *clientv3.Config) {
			cfg.Username, cfg.Password = user, password
			cfg.DialTimeout = time.Minute // checking a password takes seconds under the race detector
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	t.Cleanup(func() { _, _ = as("root", "s3cret").AuthDisable(context.Background()) })

	worker := lease(t, as("worker", "s3cret"), nil, 30*time.Second)
	j := worker.join(t, "x")
	w := worker.watch(t, driver.WatchRequest{Ref: j.Entry.Ref, Own: true})
	w.next(t, driver.Armed)
	worker.leave(t, j.Entry.Ref)
	w.next(t, driver.Gone)

	guest := lease(t, as("guest", "s3cret"), nil, 30*time.Second)
	_, err := guest.Join(t.Context(), driver.JoinRequest{Line: "x"})
	require.ErrorIs(t, err, driver.ErrDenied)

	_, err = etcdbackend.Dial(t.Context(), etcdbackend.DialConfig{
		Endpoints: cluster.Endpoints(), Username: "worker", Password: "wr0ng", Timeout: time.Minute,
	}, nil)
	require.ErrorIs(t, err, driver.ErrDenied)
	assert.NotContains(t, err.Error(), "wr0ng")

	s, err := etcdbackend.Dial(t.Context(), etcdbackend.DialConfig{
		Endpoints: cluster.Endpoints(), Username: "worker", Password: "s3cret", Timeout: time.Minute,
	}, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func second[T any](_ T, err error) error { return err }

func TestEtcdDriverUnreachableIsNamed(t *testing.T) {
	begin := time.Now()
	_, err := etcdbackend.Dial(t.Context(), etcdbackend.DialConfig{
		Endpoints: []string{"127.0.0.1:1"}, Timeout: 300 * time.Millisecond,
	}, nil)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	assert.ErrorContains(t, err, "127.0.0.1:1")
	assert.ErrorContains(t, err, "refused")
	assert.Less(t, time.Since(begin), 2*time.Second)
	t.Log(err)
}
