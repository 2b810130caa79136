package etcdbackend

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/etcdbackend/internal/lease"
	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// kv is a store of etcd, as far as the requests of this package need one. A fault hits the
// next request that writes; then the one behind it is next.
type kv struct {
	pb.KVClient
	rev    int64
	keys   map[string]*mvccpb.KeyValue
	faults []func(carry func()) error

	compacted func() // called before a read of an earlier revision fails; nil: the store has all
}

// lost is the error of a request without an answer.
func lost() error { return status.Error(codes.Unavailable, "lost by the test") }

// The faults.
func lostReply(carry func()) error { carry(); return lost() }
func lostRequest(func()) error     { return lost() }

// answer carries out a request, unless a fault keeps it from that.
func (s *kv) answer(carry func()) error {
	if len(s.faults) == 0 {
		carry()
		return nil
	}
	fault := s.faults[0]
	s.faults = s.faults[1:]
	return fault(carry)
}

func (s *kv) Range(_ context.Context, r *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	if r.Revision != 0 && s.compacted != nil {
		s.compacted()
		return nil, rpctypes.ErrGRPCCompacted
	}
	resp := s.get(r)
	resp.Header = &pb.ResponseHeader{Revision: s.rev}
	return resp, nil
}

func (s *kv) DeleteRange(_ context.Context, r *pb.DeleteRangeRequest, _ ...grpc.CallOption) (resp *pb.DeleteRangeResponse, err error) {
	err = s.answer(func() {
		resp = &pb.DeleteRangeResponse{}
		if _, ok := s.keys[string(r.Key)]; ok {
			resp.Deleted = 1
			s.rev++
			delete(s.keys, string(r.Key))
		}
		resp.Header = &pb.ResponseHeader{Revision: s.rev}
	})
	return resp, err
}

func (s *kv) Txn(_ context.Context, r *pb.TxnRequest, _ ...grpc.CallOption) (resp *pb.TxnResponse, err error) {
	err = s.answer(func() {
		at, wrote := s.rev+1, false
		resp = s.txn(r, at, &wrote)
		if wrote {
			s.rev = at
		}
		resp.Header = &pb.ResponseHeader{Revision: s.rev}
	})
	return resp, err
}

func (s *kv) txn(r *pb.TxnRequest, at int64, wrote *bool) *pb.TxnResponse {
	resp := &pb.TxnResponse{Succeeded: !slices.ContainsFunc(r.Compare, func(c *pb.Compare) bool { return !s.holds(c) })}
	ops := r.Failure
	if resp.Succeeded {
		ops = r.Success
	}
	for _, op := range ops {
		a := &pb.ResponseOp{}
		if get := op.GetRequestRange(); get != nil {
			a.Response = &pb.ResponseOp_ResponseRange{ResponseRange: s.get(get)}
		} else if in := op.GetRequestTxn(); in != nil {
			a.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: s.txn(in, at, wrote)}
		} else if del := op.GetRequestDeleteRange(); del != nil {
			*wrote = true
			delete(s.keys, string(del.Key))
		} else if put := op.GetRequestPut(); put != nil {
			*wrote = true
			n := &mvccpb.KeyValue{Key: put.Key, Value: put.Value, Lease: put.Lease, CreateRevision: at, ModRevision: at, Version: 1}
			if old := s.keys[string(put.Key)]; old != nil {
				n.CreateRevision, n.Version = old.CreateRevision, old.Version+1
			}
			s.keys[string(put.Key)] = n
		}
		resp.Responses = append(resp.Responses, a)
	}
	return resp
}

func (s *kv) holds(c *pb.Compare) bool {
	n := s.keys[string(c.Key)]
	switch c.Target {
	case pb.Compare_CREATE:
		return n.GetCreateRevision() == c.GetCreateRevision()
	case pb.Compare_MOD:
		return n.GetModRevision() == c.GetModRevision()
	default:
		return n != nil && bytes.Equal(n.Value, c.GetValue())
	}
}

func (s *kv) get(r *pb.RangeRequest) *pb.RangeResponse {
	resp := &pb.RangeResponse{}
	for key, n := range s.keys {
		if key == string(r.Key) || len(r.RangeEnd) > 0 && key > string(r.Key) && key < string(r.RangeEnd) {
			resp.Kvs = append(resp.Kvs, n)
		}
	}
	resp.Count = int64(len(resp.Kvs))
	slices.SortFunc(resp.Kvs, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	return resp
}

// onStore returns a session on an empty store, and the reports of its end.
func onStore(t *testing.T) (*etcdSession, *kv, *[]error) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	c, err := rpc.New(client, driver.SystemClock())
	require.NoError(t, err)
	store, gone := &kv{rev: 100, keys: make(map[string]*mvccpb.KeyValue)}, &[]error{}
	c.KV = store
	cfg := driver.Config{Observer: true, Logger: slog.New(slog.DiscardHandler), Gone: func(err error) { *gone = append(*gone, err) }}
	send := c.NewSender(10*time.Second, 9*time.Second)
	l, err := lease.Grant(t.Context(), send, cfg, nil)
	require.NoError(t, err)
	l.ID = 0xabc // it makes entries, and needs no renewal
	s := newSession(layout{root: "r"}, send, l, 9*time.Second, cfg)
	t.Cleanup(s.Abandon)
	return s, store, gone
}

// put makes an entry of the queue x, of a writer, which can become a reader.
func (s *etcdSession) put(t *testing.T) driver.Ref {
	t.Helper()
	js, err := s.Join(t.Context(), driver.JoinRequest{Queue: "x", Family: driver.FamilyReadWrite})
	require.NoError(t, err)
	return js[0].Entry.Ref
}
