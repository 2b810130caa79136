package etcd

import (
	"context"
	"log/slog"
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

// owner is a session of the backend, and what it has reported.
type owner struct {
	driver.Session
	b    driver.Backend
	mu   sync.Mutex
	gone []error
}

func (o *owner) losses() []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gone
}

// open opens a session on a client.
func open(t testing.TB, client *clientv3.Client, opts *etcdbackend.Options, ttl time.Duration) *owner {
	t.Helper()
	b, err := etcdbackend.NewBackend(client, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.Close() }) // it may have made connections of its own
	return openOn(t, b, ttl)
}

// config returns the configuration of a session whose reports no test reads.
func config() driver.Config {
	return driver.Config{
		TTL: 10 * time.Second, Margin: func(time.Duration) time.Duration { return time.Second }, Logger: slog.New(slog.DiscardHandler),
		Renewed: func(driver.Instant, time.Duration, time.Duration) {}, Gone: func(error) {},
	}
}

// openOn opens a session of a backend.
func openOn(t testing.TB, b driver.Backend, ttl time.Duration) *owner {
	t.Helper()
	o, cfg := &owner{b: b}, config()
	cfg.TTL, cfg.Margin, cfg.Logger = ttl, b.Info().Margin, slog.New(slog.NewTextHandler(t.Output(), nil))
	cfg.Gone = func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.gone = append(o.gone, err)
	}
	var err error
	o.Session, err = b.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = o.Close(ctx)
	})
	return o
}

// join puts an entry, and fails the test if it cannot.
func (o *owner) join(t testing.TB, req driver.JoinRequest) driver.Joined {
	t.Helper()
	joined, err := o.Join(t.Context(), req)
	require.NoError(t, err)
	return joined[0]
}

// put puts the entry of a writer, which can become a reader.
func (o *owner) put(t testing.TB, queue string) driver.Ref {
	t.Helper()
	return o.join(t, driver.JoinRequest{Queue: queue, Family: driver.FamilyReadWrite, Data: []byte("{}")}).Entry.Ref
}

func (o *owner) leave(t testing.TB, ref driver.Ref, ops ...driver.Op) driver.Left {
	t.Helper()
	left, err := o.Leave(t.Context(), driver.LeaveRequest{Ref: ref, Ops: ops})
	require.NoError(t, err)
	return left[0]
}

func (o *owner) read(t testing.TB, req driver.ReadRequest) driver.View {
	t.Helper()
	v, err := o.Read(t.Context(), req)
	require.NoError(t, err)
	return v
}

func refs(es []driver.Entry) []driver.Ref {
	all := []driver.Ref{}
	for _, e := range es {
		all = append(all, e.Ref)
	}
	return all
}

// events collects what a watch reports.
type events chan driver.Event

func (o *owner) watch(t testing.TB, target driver.Target) events {
	ch := make(events, 1000)
	t.Cleanup(o.Watch(target, func(ev driver.Event) { ch <- ev }))
	return ch
}

// next returns the next event, which must be of a kind.
func (ch events) next(t testing.TB, kind driver.EventKind) driver.Event {
	t.Helper()
	select {
	case ev := <-ch:
		require.Equal(t, kind, ev.Kind, "kind of event")
		return ev
	case <-time.After(recipetest.Patience):
		require.Fail(t, "no event", "kind %d", kind)
		return driver.Event{}
	}
}

// until skips events before one of a kind.
func (ch events) until(t testing.TB, kind driver.EventKind) {
	t.Helper()
	for end := time.After(recipetest.Patience); ; {
		select {
		case ev := <-ch:
			if ev.Kind == kind {
				return
			}
		case <-end:
			require.Fail(t, "no event", "kind %d", kind)
		}
	}
}

// wire sees the requests of a client, and can lose answers.
type wire struct {
	lose atomic.Int32 // so many answers to transactions that were carried out
	lost func()       // called before each of them is lost, if set

	mu   sync.Mutex
	sent []any // requests, in order
	got  []any // their answers
	late int   // how many were given up
}

// wired returns a client whose requests are seen.
func wired(t testing.TB, c *etcdtest.Cluster) (*clientv3.Client, *wire) {
	w := &wire{}
	return clientWith(t, c, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(w.unary))
	}), w
}

func (w *wire) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if renews(req) {
		return err
	}
	w.mu.Lock()
	w.sent, w.got = append(w.sent, req), append(w.got, reply)
	if status.Code(err) == codes.Canceled {
		w.late++
	}
	w.mu.Unlock()
	if _, ok := req.(*pb.TxnRequest); ok && err == nil && w.lose.Add(-1) >= 0 {
		if w.lost != nil {
			w.lost()
		}
		return status.Error(codes.Unavailable, "answer lost by the test")
	}
	return err
}

// requests returns the requests that f sends, and the answers. It calls f again if an
// attempt had no answer in time: then it was sent once more, and not all that one attempt
// shows is known. What f has changed is undone by prepare, which may be nil and is called
// before each call of f.
func (w *wire) requests(t testing.TB, prepare, f func()) (sent, got []any) {
	t.Helper()
	for range 5 {
		if prepare != nil {
			prepare()
		}
		w.mu.Lock()
		n := len(w.sent)
		w.mu.Unlock()
		late := w.gaveUp()
		f()
		again := w.gaveUp() != late
		w.mu.Lock()
		sent, got = w.sent[n:], w.got[n:]
		w.mu.Unlock()
		if !again {
			return sent, got
		}
	}
	require.Fail(t, "some attempt was given up each time")
	return nil, nil
}

// gaveUp returns how many attempts were given up so far.
func (w *wire) gaveUp() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late
}

// deletes requires that a leave deletes its entry: for certain if no attempt was given up.
func (w *wire) deletes(t testing.TB, leave func() driver.Left, why string) {
	t.Helper()
	w.finds(t, leave, driver.Deleted, why)
}

// finds requires what became of an entry. If an attempt was given up, a leave may leave open
// whether that one has deleted the entry.
func (w *wire) finds(t testing.TB, leave func() driver.Left, want driver.Left, why string) {
	t.Helper()
	late := w.gaveUp()
	if left := leave(); w.gaveUp() == late || left != driver.Unclear {
		assert.Equal(t, want, left, why)
	}
}

func count(t testing.TB, c *clientv3.Client, prefix string) int {
	t.Helper()
	r, err := c.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	return int(r.Count)
}
