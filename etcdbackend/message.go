package etcdbackend

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
)

// txn is a transaction. How an answer is read stands beside what it is the answer to.
type txn struct {
	pb.TxnRequest
	then, otherwise []func(*pb.ResponseOp) // how to read the answers to Success and Failure; nil: not at all
	rev             int64                  // the revision of the answer
}

// require adds a condition.
func (t *txn) require(c *pb.Compare) { t.Compare = append(t.Compare, c) }

// do adds what is done if all conditions are met.
func (t *txn) do(op *pb.RequestOp, read func(*pb.ResponseOp)) {
	t.Success, t.then = append(t.Success, op), append(t.then, read)
}

// get adds what is read then, and ask what is read if not.
func (t *txn) get(r *pb.RangeRequest, read func(*pb.RangeResponse)) {
	t.do(opGet(r), func(a *pb.ResponseOp) { read(a.GetResponseRange()) })
}

func (t *txn) ask(r *pb.RangeRequest, read func(*pb.RangeResponse)) {
	t.Failure = append(t.Failure, opGet(r))
	t.otherwise = append(t.otherwise, func(a *pb.ResponseOp) { read(a.GetResponseRange()) })
}

// read reads an answer, as one of which the conditions were met, or not.
func (t *txn) read(resp *pb.TxnResponse, met bool) {
	t.rev = resp.Header.Revision
	reads := t.otherwise
	if met {
		reads = t.then
	}
	for i, a := range resp.Responses {
		if reads[i] != nil {
			reads[i](a)
		}
	}
}

// exchange is a call for which a transaction is sent until one is answered.
type exchange interface {
	// request returns the next attempt.
	request() *txn

	// answered is called after an attempt was answered, and its answers were read. It
	// reports whether another one must be made, at once.
	answered(ctx context.Context, t *txn, met bool) (again bool, err error)

	// unanswered is called when it is not known whether an attempt was carried out. With
	// full, the answer was NOSPACE: then it will not be later. If over, err ends the call.
	unanswered(ctx context.Context, t *txn, full error) (over bool, err error)

	// strip leaves the optional parts out of the next attempts, because of an error. It
	// reports whether there were any. etcd refuses a whole transaction for one key, and
	// does not say which.
	strip(why error) bool
}

// exchange makes attempts until one is answered. An error that x has not returned means
// that no attempt was carried out, or will be, except after one without an answer.
func (s *etcdSession) exchange(ctx context.Context, x exchange) error {
	for n := (rpc.Try{}); ; {
		if err := s.send.Ended(); err != nil {
			return err
		}
		t := x.request()
		resp, err := rpc.Do(ctx, s.send, n, s.send.KV.Txn, &t.TxnRequest)
		if err == nil {
			t.read(resp, resp.Succeeded)
			again, err := x.answered(ctx, t, resp.Succeeded)
			if !again {
				return err
			}
			continue
		}
		out, full := rpc.Classify(err), error(nil)
		switch out {
		case rpc.SessionOver:
			s.lost(err)
		case rpc.Full:
			full = err
			fallthrough
		case rpc.Unknown:
			if over, err := x.unanswered(ctx, t, full); over {
				return err
			}
		case rpc.NotDone, rpc.BadToken, rpc.Denied, rpc.Refused:
		}
		if (out == rpc.Denied || out == rpc.Refused || out == rpc.Full) && x.strip(err) {
			s.cfg.Logger.DebugContext(ctx, "etcd: a request is sent again without its optional parts", "err", err)
			continue
		}
		if err := n.Again(ctx, s.send, err); err != nil {
			return err
		}
	}
}

// created is the condition that a key was made at a revision; 0 means that it does not
// exist.
func created(key []byte, rev int64) *pb.Compare {
	return &pb.Compare{Key: key, Target: pb.Compare_CREATE, TargetUnion: &pb.Compare_CreateRevision{CreateRevision: rev}}
}

// written is the condition that a key was last written at a revision; 0 means that it
// does not exist.
func written(key []byte, rev int64) *pb.Compare {
	return &pb.Compare{Key: key, Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: rev}}
}

// holds is the condition that a key exists and has a value.
func holds(key, value []byte) *pb.Compare {
	return &pb.Compare{Key: key, Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: value}}
}

func opGet(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

func opPut(key, value []byte, lease int64) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value, Lease: lease}}}
}

func opDelete(key []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}}
}

// opTxn is a transaction in a transaction. Its conditions are about what was before both.
func opTxn(r *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
}

// whole reads a key, keyOnly whether it exists and since when.
func whole(key []byte) *pb.RangeRequest   { return &pb.RangeRequest{Key: key} }
func keyOnly(key []byte) *pb.RangeRequest { return &pb.RangeRequest{Key: key, KeysOnly: true} }

// below reads the keys with a prefix, at most so many; 0: all.
func below(prefix string, most int64) *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte(prefix), RangeEnd: prefixEnd(prefix), Limit: most}
}

// inOrder makes a read answer in order of place, the first or the last entries first.
// The server reads the whole range for it.
func inOrder(r *pb.RangeRequest, order pb.RangeRequest_SortOrder) *pb.RangeRequest {
	r.SortTarget, r.SortOrder = pb.RangeRequest_CREATE, order
	return r
}

// first returns the first key of an answer, nil if it has none.
func first(r *pb.RangeResponse) *mvccpb.KeyValue {
	if len(r.GetKvs()) == 0 {
		return nil
	}
	return r.Kvs[0]
}
