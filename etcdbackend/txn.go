package etcdbackend

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// txn is a transaction, with a function for each of its operations that reads the answer.
// So the code that adds an operation is next to the code that reads its answer.
type txn struct {
	pb.TxnRequest
	then, otherwise []func(*pb.ResponseOp) // of Success and of Failure; nil: the answer is not read
	rev             int64                  // the revision of the answer
}

// require adds a condition.
func (t *txn) require(c *pb.Compare) { t.Compare = append(t.Compare, c) }

// do adds an operation that is done if all conditions are met.
func (t *txn) do(op *pb.RequestOp, read func(*pb.ResponseOp)) {
	t.Success, t.then = append(t.Success, op), append(t.then, read)
}

// get adds what is read if all conditions are met.
func (t *txn) get(r *pb.RangeRequest, read func(*pb.RangeResponse)) {
	t.do(opGet(r), func(a *pb.ResponseOp) { read(a.GetResponseRange()) })
}

// ask adds what is read if a condition does not hold, to find out which.
func (t *txn) ask(r *pb.RangeRequest, read func(*pb.RangeResponse)) {
	t.Failure = append(t.Failure, opGet(r))
	t.otherwise = append(t.otherwise, func(a *pb.ResponseOp) { read(a.GetResponseRange()) })
}

// read calls the functions for an answer. met reports whether the conditions were met.
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

// opTxn is a transaction in a transaction. Its conditions are checked before the outer one
// changes anything.
func opTxn(r *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
}

// whole reads a key with its value, keyOnly reads only whether it exists, and since when.
func whole(key []byte) *pb.RangeRequest   { return &pb.RangeRequest{Key: key} }
func keyOnly(key []byte) *pb.RangeRequest { return &pb.RangeRequest{Key: key, KeysOnly: true} }

// below reads the keys with a prefix: at most so many, or all if most is 0.
func below(prefix string, most int64) *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte(prefix), RangeEnd: prefixEnd(prefix), Limit: most}
}

// inOrder makes a read answer in order of place, ascending or descending. The server then
// reads the whole range, whatever the limit.
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
