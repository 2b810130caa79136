package etcd

import (
	"context"
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
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
)

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
	case <-time.After(recipetest.Patience):
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
