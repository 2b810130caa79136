package etcdbackend

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/session/driver"
)

// TestAMemberThatServesNothingCostsNoSession: whatever is sent, each turn of the client's
// connection leads to the other member. A learner refuses at once, a member that is cut off from
// its peers refuses or does not answer.
func TestAMemberThatServesNothingCostsNoSession(t *testing.T) {
	for name, fault := range map[string]func(ctx context.Context) error{
		"a learner":                   func(context.Context) error { return rpctypes.ErrGRPCNotSupportedForLearner },
		"a member without a leader":   func(context.Context) error { return rpctypes.ErrGRPCNoLeader },
		"a member that never answers": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &voter{store: &kv{rev: 100, keys: make(map[string]*mvccpb.KeyValue)}}
			p := &phase{bad: 1}
			client := inPhase(t, serve(t, v, 1, fault), serve(t, v, 2, nil), p)
			b, err := NewBackend(client, nil)
			require.NoError(t, err)
			defer func() { assert.NoError(t, b.Close()) }()

			renewals, gone := make(chan driver.Instant, 100), make(chan error, 100)
			ctx := hang.Context(t)
			s, err := b.Open(ctx, driver.Config{
				TTL: 2 * time.Second, Margin: func(time.Duration) time.Duration { return 0 }, Logger: slog.New(slog.DiscardHandler),
				Renewed: func(sent driver.Instant, _, _ time.Duration) { renewals <- sent },
				Gone:    func(err error) { gone <- err },
			})
			require.NoError(t, err)
			callEverything(ctx, t, s)
			for range 6 { // with the grant: more than a TTL
				hang.Receive(t, renewals, "a renewal; %d met the bad member", p.met.Load())
			}
			require.NoError(t, s.Close(ctx))
			assert.Empty(t, gone)
			assert.Equal(t, 1, v.revoked)
			assert.Greater(t, p.met.Load(), int64(10), "the phase is the worst")
		})
	}
}

// callEverything makes every kind of request of a session.
func callEverything(ctx context.Context, t *testing.T, s driver.Session) {
	t.Helper()
	js, err := s.Join(ctx, driver.JoinRequest{Queue: "x", Family: driver.FamilyReadWrite})
	require.NoError(t, err)
	ref := js[0].Entry.Ref
	armed := make(chan driver.Event, 10)
	cancel := s.Watch(driver.Target{Kind: driver.OfEntry, Queue: "x", Ref: ref}, func(e driver.Event) { armed <- e })
	assert.Equal(t, driver.Armed, hang.Receive(t, armed, "a watch").Kind)
	cancel()
	_, err = s.Update(ctx, driver.UpdateRequest{Queue: "x", Entry: ref, Marks: driver.MarkShared})
	require.NoError(t, err)
	_, err = s.Read(ctx, driver.ReadRequest{Queue: "x", Fresh: true})
	require.NoError(t, err)
	_, err = s.Names(ctx, "")
	require.NoError(t, err)
	_, err = s.Leave(ctx, driver.LeaveRequest{Ref: ref})
	require.NoError(t, err)
}

// TestTheClientSendsNoAttemptAgain, as it would after an error with the code of a context's end
// while the context has not ended. The answer to the copy would be taken for that to the attempt: a
// release would find no entry, and a join another program's in its key.
func TestTheClientSendsNoAttemptAgain(t *testing.T) {
	for _, where := range []string{"an interceptor", "a proxy"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			v := &voter{store: &kv{rev: 100, keys: make(map[string]*mvccpb.KeyValue)}}
			var intercepts atomic.Bool
			loses := map[string]*atomic.Bool{"an interceptor": &intercepts, "a proxy": &v.loses}[where]
			client, err := clientv3.New(clientv3.Config{
				Endpoints: []string{serve(t, v, 1, nil)}, Logger: zap.NewNop(),
				DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(func(
					ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
				) error {
					return lateIf(&intercepts, invoke(ctx, method, req, reply, cc, opts...))
				})},
			})
			require.NoError(t, err)
			defer client.Close()
			b, err := NewBackend(client, nil)
			require.NoError(t, err)
			defer func() { assert.NoError(t, b.Close()) }()
			ctx := hang.Context(t)
			s, err := b.Open(ctx, driver.Config{
				TTL: hang.Guard, Margin: func(time.Duration) time.Duration { return 0 }, Logger: slog.New(slog.DiscardHandler),
				Renewed: func(driver.Instant, time.Duration, time.Duration) {}, Gone: func(error) {},
			})
			require.NoError(t, err)
			defer func() { assert.NoError(t, s.Close(ctx)) }()

			loses.Store(true)
			js, err := s.Join(ctx, driver.JoinRequest{Queue: "x"})
			require.NoError(t, err)
			require.False(t, loses.Load())
			assert.Len(t, v.store.keys, 1)
			loses.Store(true)
			left, err := s.Leave(ctx, driver.LeaveRequest{Ref: js[0].Entry.Ref})
			require.NoError(t, err)
			require.False(t, loses.Load())
			assert.Equal(t, []driver.Left{driver.Unclear}, left)
			assert.Empty(t, v.store.keys)
		})
	}
}
