package etcd

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/session/driver/drivertest"
	"github.com/fairlock/fairlock/testnet"
)

// etcdHarness runs the suites on a cluster. Every case has a root of its own, and every
// client its own proxies, one for each member.
func etcdHarness(c *etcdtest.Cluster) drivertest.Harness {
	var cases atomic.Int64
	return drivertest.Harness{
		TTL:      2 * time.Second,
		Calm:     recipetest.EventTTL,
		Parallel: true,
		// Two cores, the race detector and dozens of cases at once.
		Prompt: 500 * time.Millisecond,
		// A client makes connections anew when it likes; the backend makes none.
		Leaks: []goleak.Option{
			goleak.IgnoreAnyFunction("google.golang.org/grpc/internal/transport.(*loopyWriter).run"),
			goleak.IgnoreAnyFunction("google.golang.org/grpc/internal/transport.(*http2Client).reader"),
			goleak.IgnoreAnyFunction("github.com/fairlock/fairlock/testnet.(*pipe).read"),
			goleak.IgnoreAnyFunction("github.com/fairlock/fairlock/testnet.(*pipe).write"),
		},
		Service: func(t *testing.T) drivertest.Service {
			return &etcdService{cluster: c, admin: c.Client(t), root: fmt.Sprint("case", cases.Add(1))}
		},
	}
}

// etcdService is the part of a cluster that one case sees.
type etcdService struct {
	cluster *etcdtest.Cluster
	admin   *clientv3.Client
	root    string
	foreign atomic.Int64
}

// prefix is what the keys of a queue's entries begin with.
func (s *etcdService) prefix(queue string) string {
	if of, asks := driver.AskedQueue(queue); asks {
		return s.root + "/%v2" + strings.TrimPrefix(s.prefix(of), s.root) + "%asks/%entry/"
	}
	var b strings.Builder
	for _, c := range []byte(queue) {
		if c < ' ' || c == 0x7f || c == '%' || c == '/' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return s.root + "/" + b.String() + "/"
}

func (s *etcdService) Expire(t *testing.T, session string) {
	id, err := strconv.ParseInt(session, 16, 64)
	require.NoError(t, err)
	_, err = s.admin.Revoke(t.Context(), clientv3.LeaseID(id))
	require.NoError(t, err)
}

func (s *etcdService) Delete(t *testing.T, ref driver.Ref) {
	r, err := s.admin.Delete(t.Context(), ref.Key)
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Deleted, "entry %v", ref)
}

func (s *etcdService) PutForeign(t *testing.T, queue string, leased bool) driver.Ref {
	key := fmt.Sprint(s.prefix(queue), "other", s.foreign.Add(1))
	var opts []clientv3.OpOption
	if leased {
		l, err := s.admin.Grant(t.Context(), 120)
		require.NoError(t, err)
		opts = append(opts, clientv3.WithLease(l.ID))
	}
	r, err := s.admin.Put(t.Context(), key, "not ours", opts...)
	require.NoError(t, err)
	return driver.Ref{Queue: queue, Key: key, Place: r.Header.Revision}
}

func (s *etcdService) Overwrite(t *testing.T, ref driver.Ref, value []byte) {
	opts := []clientv3.OpOption{clientv3.WithIgnoreLease()}
	if value == nil {
		opts = append(opts, clientv3.WithIgnoreValue())
	}
	_, err := s.admin.Put(t.Context(), ref.Key, string(value), opts...)
	require.NoError(t, err)
}

func (s *etcdService) Count(t *testing.T, queue string) int {
	r, err := s.admin.Get(t.Context(), s.prefix(queue), clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	return int(r.Count)
}

func (s *etcdService) Client(t *testing.T) drivertest.Client {
	c := &etcdClient{}
	cfg := func(cfg *clientv3.Config) {
		cfg.Endpoints = nil
		for i := range s.cluster.Len() {
			p, err := testnet.New(strings.TrimPrefix(s.cluster.Member(i).Endpoint(), "http://"), nil)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, p.Close()) })
			c.Proxies = append(c.Proxies, p)
			cfg.Endpoints = append(cfg.Endpoints, p.Addr())
		}
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(c.intercept))
	}
	client, err := s.cluster.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Deliver()
		assert.NoError(t, client.Close())
	})
	c.backend, err = etcdbackend.NewBackend(client, &etcdbackend.Options{Root: s.root})
	require.NoError(t, err)
	return c
}

// etcdClient is a client whose network can be broken: as a whole, by its proxies, and
// request by request, by an interceptor.
type etcdClient struct {
	both.Replies
	fault.Plan

	backend driver.Backend
	sent    atomic.Int64
	late    atomic.Int64

	mu        sync.Mutex
	kept      []func()
	onRequest func()
}

func (c *etcdClient) Backend() driver.Backend { return c.backend }

func (c *etcdClient) Deliver() {
	c.mu.Lock()
	kept := c.kept
	c.kept = nil
	c.mu.Unlock()
	for _, f := range kept {
		f()
	}
}

func (c *etcdClient) OnRequest(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onRequest = f
}

func (c *etcdClient) Late() int { return int(c.late.Load()) }

func (c *etcdClient) Requests() int { return int(c.sent.Load()) }

// errBroken is what gRPC returns for a connection that broke.
func errBroken() error { return status.Error(codes.Unavailable, "connection reset by the test") }

// renews reports whether a request is the read that confirms a renewal.
func renews(req any) bool {
	r, ok := req.(*pb.RangeRequest)
	return ok && isFence(r.Key)
}

// intercept sees every unary request, and passes on the reads of renewals: so it acts on all but
// renewals and watches.
func (c *etcdClient) intercept(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) (err error) {
	if renews(req) {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	c.mu.Lock()
	f := c.onRequest
	c.mu.Unlock()
	if f != nil {
		f()
	}
	c.sent.Add(1)
	defer func() {
		if err != nil && ctx.Err() != nil { // the backend ends the context of an attempt that was answered
			c.late.Add(1)
		}
	}()
	send := func() error {
		return invoke(context.WithoutCancel(ctx), method, req, reply, cc, opts...)
	}
	of := kinds(req)
	since, cut := c.TakeCut(of...)
	if cut {
		switch err := send(); {
		case err != nil: // the service may not have got it
			c.CutRepliesTo(of[0])
			return err
		case !c.CutSince(since):
			return nil
		}
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	switch c.Take(of...) {
	case fault.LostRequest:
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	case fault.BrokenRequest:
		return errBroken()
	case fault.LostReply:
		_ = send()
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	case fault.BrokenReply:
		_ = send()
		return errBroken()
	case fault.LateRequest:
		c.mu.Lock()
		defer c.mu.Unlock()
		late := reflect.New(reflect.TypeOf(reply).Elem()).Interface()
		c.kept = append(c.kept, func() { _ = invoke(context.Background(), method, req, late, cc) })
		return errBroken()
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// kinds returns what a request may be. All reads are the same to etcd.
func kinds(req any) []fault.Op {
	switch r := req.(type) {
	case *pb.LeaseGrantRequest:
		return []fault.Op{fault.Open}
	case *pb.LeaseRevokeRequest:
		return []fault.Op{fault.Close}
	case *pb.RangeRequest:
		return []fault.Op{fault.Read, fault.Names}
	case *pb.DeleteRangeRequest:
		return []fault.Op{fault.Leave}
	case *pb.TxnRequest:
		return txnKinds(r)
	}
	return nil
}

// txnKinds distinguishes transactions by what they would do. A join and what settles one have
// a fence for a condition, and only the latter writes it.
func txnKinds(r *pb.TxnRequest) []fault.Op {
	fenced := slices.ContainsFunc(r.Compare, func(c *pb.Compare) bool { return isFence(c.Key) })
	settles := slices.ContainsFunc(r.Success, func(op *pb.RequestOp) bool {
		put := op.GetRequestPut()
		return put != nil && isFence(put.Key)
	})
	switch {
	case settles:
		return []fault.Op{fault.Settle}
	case fenced:
		return []fault.Op{fault.Join}
	}
	reads := true
	for _, op := range r.Success {
		if leaves(r) || leaves(op.GetRequestTxn()) {
			return []fault.Op{fault.Leave}
		}
		reads = reads && op.GetRequestRange() != nil
	}
	if reads && len(r.Compare) == 0 {
		return []fault.Op{fault.Read, fault.Names}
	}
	return []fault.Op{fault.Update}
}

// leaves reports whether a transaction deletes an entry: a key that was made at a place.
func leaves(r *pb.TxnRequest) bool {
	if r == nil || len(r.Compare) == 0 || len(r.Success) == 0 {
		return false
	}
	deleted := r.Success[0].GetRequestDeleteRange()
	return r.Compare[0].GetCreateRevision() > 0 && deleted != nil && string(deleted.Key) == string(r.Compare[0].Key)
}

// isFence reports whether a key is that of an attempt that was not answered, or the one that
// renewals read.
func isFence(key []byte) bool { return bytes.Contains(key, []byte("/%fence/")) }
