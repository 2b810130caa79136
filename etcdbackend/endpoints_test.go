package etcdbackend

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// voter is an etcd of one member, as far as a session needs one: it keeps no lease and reports
// no event.
type voter struct {
	pb.UnimplementedKVServer
	pb.UnimplementedLeaseServer
	pb.UnimplementedWatchServer

	loses atomic.Bool // the next answer that is not of a stream: it becomes an error

	mu      sync.Mutex
	store   *kv
	renewed int
	revoked int
}

func (v *voter) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.store.Range(ctx, r)
}

func (v *voter) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.store.Txn(ctx, r)
}

func (v *voter) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.store.DeleteRange(ctx, r)
}

func (v *voter) LeaseGrant(_ context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return &pb.LeaseGrantResponse{ID: 0xabc, TTL: r.TTL}, nil
}

func (v *voter) LeaseRevoke(context.Context, *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.revoked++
	return &pb.LeaseRevokeResponse{}, nil
}

func (v *voter) LeaseKeepAlive(s pb.Lease_LeaseKeepAliveServer) error {
	for {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		v.mu.Lock()
		v.renewed++
		v.mu.Unlock()
		if err := s.Send(&pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{}, ID: r.ID, TTL: 2}); err != nil {
			return err
		}
	}
}

func (v *voter) Watch(s pb.Watch_WatchServer) error {
	for {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		v.mu.Lock()
		a := &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: v.store.rev}, WatchId: -1}
		v.mu.Unlock()
		if c := r.GetCreateRequest(); c != nil {
			a.WatchId, a.Created = c.WatchId, true
		}
		if err := s.Send(a); err != nil {
			return err
		}
	}
}

// maintenance answers requests for the status of a server with its number.
type maintenance struct {
	pb.UnimplementedMaintenanceServer
	member uint64
}

func (s maintenance) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: &pb.ResponseHeader{MemberId: s.member}, Version: "3.5.0"}, nil
}

// serve serves v under a number of its own, and returns the address. A fault, if there is one,
// answers instead of it all but requests for the status.
func serve(t *testing.T, v *voter, member uint64, fault func(ctx context.Context) error) string {
	t.Helper()
	srv := grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if fault != nil && info.FullMethod != pb.Maintenance_Status_FullMethodName {
				return nil, fault(ctx)
			}
			resp, err := next(ctx, r)
			return resp, lateIf(&v.loses, err)
		}),
		grpc.StreamInterceptor(func(s any, st grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if fault != nil {
				return fault(st.Context())
			}
			return next(s, st)
		}),
	)
	pb.RegisterKVServer(srv, v)
	pb.RegisterLeaseServer(srv, v)
	pb.RegisterWatchServer(srv, v)
	pb.RegisterMaintenanceServer(srv, maintenance{member: member})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() { assert.NoError(t, srv.Serve(l)) })
	t.Cleanup(func() { srv.Stop(); serving.Wait() })
	return l.Addr().String()
}

// lateIf returns, once if it is set, the error of a request that took too long.
func lateIf(loses *atomic.Bool, err error) error {
	if err == nil && loses.CompareAndSwap(true, false) {
		return status.Error(codes.DeadlineExceeded, "the answer is lost")
	}
	return err
}

// phase makes all requests of a client come in the worst phase: whenever one takes a turn of the
// client's connection, it is that of the member bad of two.
type phase struct {
	bad uint64
	mu  sync.Mutex
	met atomic.Int64 // requests and streams that went to bad by a turn
}

// align takes turns until the next is that of bad. The caller holds the mutex.
func (p *phase) align(ctx context.Context, cc *grpc.ClientConn) {
	for range 3 { // a connection to one member alone has no other turn
		r, err := pb.NewMaintenanceClient(cc).Status(ctx, &pb.StatusRequest{})
		if err == nil && r.Header.MemberId != p.bad {
			p.met.Add(1)
			return
		}
	}
}

func (p *phase) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method == pb.Maintenance_Status_FullMethodName {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	p.mu.Lock()
	p.align(ctx, cc)
	p.mu.Unlock()
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (p *phase) stream(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if method == pb.Maintenance_Status_FullMethodName {
		return open(ctx, d, cc, method, opts...)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.align(ctx, cc)
	return open(ctx, d, cc, method, opts...)
}

// inPhase returns a client of two members, the first of which is bad.
func inPhase(t *testing.T, bad, good string, p *phase) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{bad, good}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(p.unary), grpc.WithChainStreamInterceptor(p.stream)},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	conn := client.ActiveConnection()
	for conn.Connect(); conn.GetState() != connectivity.Ready; {
		require.True(t, conn.WaitForStateChange(t.Context(), conn.GetState()))
	}
	return client
}
