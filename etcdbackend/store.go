package etcdbackend

import (
	"context"
	"fmt"
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// store is the part of etcd that holds keys. Requests are etcd's own messages:
// the client's builder copies every comparison twice, which with a server near
// by is a tenth of what a lock costs.
type store interface {
	txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error)
	get(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error)
}

// direct sends requests on the client's connection, with its login, its balance
// between endpoints, and its renewal of expired tokens.
type direct struct{ kv pb.KVClient }

// callOptions are those that the client uses: wait for a connection instead of
// failing without one, and take long answers.
func callOptions() []grpc.CallOption {
	return []grpc.CallOption{grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(math.MaxInt32)}
}

func (d direct) txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	resp, err := d.kv.Txn(ctx, r, callOptions()...)
	return resp, rpctypes.Error(err)
}

func (d direct) get(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	resp, err := d.kv.Range(ctx, r, callOptions()...)
	return resp, rpctypes.Error(err)
}

// indirect sends requests through the client's KV, which somebody replaced.
type indirect struct{ kv clientv3.KV }

func (i indirect) txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	resp, err := i.kv.Txn(ctx).If(toCmps(r.Compare)...).Then(toOps(r.Success)...).Else(toOps(r.Failure)...).Commit()
	return (*pb.TxnResponse)(resp), err
}

func (i indirect) get(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	resp, err := i.kv.Do(ctx, toGet(r))
	if err != nil {
		return nil, err
	}
	return (*pb.RangeResponse)(resp.Get()), nil
}

// toCmp makes the client's form of a comparison that this package makes.
func toCmp(c *pb.Compare) clientv3.Cmp {
	key := string(c.Key)
	var cmp clientv3.Cmp
	switch c.Target {
	case pb.Compare_CREATE:
		cmp = clientv3.Compare(clientv3.CreateRevision(key), "=", c.GetCreateRevision())
	case pb.Compare_MOD:
		cmp = clientv3.Compare(clientv3.ModRevision(key), "=", c.GetModRevision())
	case pb.Compare_VALUE:
		cmp = clientv3.Compare(clientv3.Value(key), "=", string(c.GetValue()))
	case pb.Compare_VERSION:
		cmp = clientv3.Compare(clientv3.Version(key), "=", c.GetVersion())
	case pb.Compare_LEASE:
		panic(fmt.Sprintf("etcdbackend: comparison of %s", c.Target))
	}
	if len(c.RangeEnd) > 0 {
		cmp = cmp.WithRange(string(c.RangeEnd))
	}
	return cmp
}

// toCmps makes the client's form of conditions.
func toCmps(cs []*pb.Compare) []clientv3.Cmp {
	out := make([]clientv3.Cmp, len(cs))
	for i, c := range cs {
		out[i] = toCmp(c)
	}
	return out
}

// toOps makes the client's form of operations.
func toOps(ops []*pb.RequestOp) []clientv3.Op {
	out := make([]clientv3.Op, len(ops))
	for i, op := range ops {
		switch r := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			out[i] = toGet(r.RequestRange)
		case *pb.RequestOp_RequestPut:
			p := r.RequestPut
			out[i] = clientv3.OpPut(string(p.Key), string(p.Value), clientv3.WithLease(clientv3.LeaseID(p.Lease)))
		case *pb.RequestOp_RequestDeleteRange:
			out[i] = clientv3.OpDelete(string(r.RequestDeleteRange.Key))
		case *pb.RequestOp_RequestTxn:
			t := r.RequestTxn
			out[i] = clientv3.OpTxn(toCmps(t.Compare), toOps(t.Success), toOps(t.Failure))
		}
	}
	return out
}

// toGet makes the client's form of a read.
func toGet(r *pb.RangeRequest) clientv3.Op {
	opts := []clientv3.OpOption{clientv3.WithLimit(r.Limit), clientv3.WithMaxCreateRev(r.MaxCreateRevision), clientv3.WithRev(r.Revision)}
	if len(r.RangeEnd) > 0 {
		opts = append(opts, clientv3.WithRange(string(r.RangeEnd)))
	}
	if r.Serializable {
		opts = append(opts, clientv3.WithSerializable())
	}
	if r.KeysOnly {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	if r.SortOrder != pb.RangeRequest_NONE {
		opts = append(opts, clientv3.WithSort(clientv3.SortTarget(r.SortTarget), clientv3.SortOrder(r.SortOrder)))
	}
	return clientv3.OpGet(string(r.Key), opts...)
}

// createdAt is the condition that a key was made at a revision; 0 means that it
// does not exist.
func createdAt(key string, rev int64) *pb.Compare {
	return &pb.Compare{
		Key: []byte(key), Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_CreateRevision{CreateRevision: rev},
	}
}

// writtenAt is the condition that a key was last written at a revision; 0 means
// that it does not exist.
func writtenAt(key string, rev int64) *pb.Compare {
	return &pb.Compare{
		Key: []byte(key), Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_ModRevision{ModRevision: rev},
	}
}

// holds is the condition that a key exists and has a value.
func holds(key string, value []byte) *pb.Compare {
	return &pb.Compare{
		Key: []byte(key), Target: pb.Compare_VALUE, Result: pb.Compare_EQUAL,
		TargetUnion: &pb.Compare_Value{Value: value},
	}
}

func opGet(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

func opPut(key string, value []byte, id clientv3.LeaseID) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{
		RequestPut: &pb.PutRequest{Key: []byte(key), Value: value, Lease: int64(id)},
	}}
}

func opDelete(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)},
	}}
}

func opTxn(r *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
}

// whole reads a key.
func whole(key string) *pb.RangeRequest { return &pb.RangeRequest{Key: []byte(key)} }

// keyOnly reads whether a key exists, and since when.
func keyOnly(key string) *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte(key), KeysOnly: true}
}

// firstOf reads the first entry of a line in full, and how many there are.
func firstOf(prefix string) *pb.RangeRequest {
	return &pb.RangeRequest{
		Key: []byte(prefix), RangeEnd: prefixEnd(prefix), Limit: 1,
		SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_ASCEND,
	}
}

// prefixEnd ends the range of the keys with a prefix. All prefixes of lines end
// with a slash, so the last byte can always be raised.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++
	return end
}

func first(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}
