package etcd

import (
	"context"
	"log/slog"
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
	b    driver.Backend
	mu   sync.Mutex
	gone []error
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
	l := &leased{b: b}
	l.Session, err = b.Open(t.Context(), driver.Config{
		TTL: ttl, Window: ttl - b.Profile().Margin(ttl), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Proof: func(driver.Instant, time.Duration) {},
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

// faults is a gRPC interceptor that loses answers.
type faults struct {
	lose atomic.Int32 // so many answers to transactions that were applied
}

func (f *faults) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if _, ok := req.(*pb.TxnRequest); ok && err == nil && f.lose.Add(-1) >= 0 {
		return status.Error(codes.Unavailable, "answer lost by the test")
	}
	return err
}

func faultyClient(t testing.TB, c *etcdtest.Cluster, more ...grpc.UnaryClientInterceptor) (*clientv3.Client, *faults) {
	t.Helper()
	f := &faults{}
	f.lose.Store(-1 << 30)
	all := append([]grpc.UnaryClientInterceptor{f.unary}, more...)
	return clientWith(t, c, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(all...))
	}), f
}

func count(t testing.TB, c *clientv3.Client, prefix string) int {
	t.Helper()
	r, err := c.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	return int(r.Count)
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

func TestEtcdDriverSlotOfASettledJoinIsFree(t *testing.T) {
	client, f := faultyClient(t, etcdtest.New(t, nil))
	l := lease(t, client, nil, 5*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	f.lose.Store(1 << 20)
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := l.Join(ctx, driver.JoinRequest{Line: "x"})
	var pending *driver.PendingError
	require.ErrorAs(t, err, &pending)
	f.lose.Store(-1 << 30)
	require.NoError(t, pending.Settle(t.Context()))

	again := l.join(t, "x")
	assert.True(t, strings.HasSuffix(again.Entry.Key, ".0"), again.Entry.Key)
}

func TestEtcdDriverTryFindsTheHolder(t *testing.T) {
	client := etcdtest.New(t, nil).Client(t)
	l := lease(t, client, nil, 5*time.Second)
	held := l.join(t, "x")
	for range 40 { // a deep line is read before it is written to
		l.join(t, "x")
	}
	before, err := client.Get(t.Context(), "x")
	require.NoError(t, err)
	for range 3 {
		_, err = l.Join(t.Context(), driver.JoinRequest{Line: "x", IfEmpty: true})
		var taken *driver.TakenError
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
