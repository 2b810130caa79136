package etcdbackend

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// txn is a transaction as etcd has it: if all conditions hold, then these operations, else
// those. Each operation has a function that decodes its answer. So the code that adds an
// operation is next to the code that decodes its answer, and no index connects the two.
//
// All conditions are checked before the transaction changes anything, also those of a
// transaction in it. A read shows what the operations before it have left. All that a
// transaction writes has one revision, which is that of the answer.
type txn struct {
	pb.TxnRequest

	// thenDecode and elseDecode are as long as Success and Failure, always: the i-th function
	// decodes the answer to the i-th operation. With nil, that answer is not of interest.
	thenDecode, elseDecode []func(*pb.ResponseOp)

	// rev is the revision of the answer, 0 before there is one. The functions use it: an
	// entry or a record that was written has this revision.
	rev int64
}

// require adds a condition.
func (t *txn) require(c *pb.Compare) { t.Compare = append(t.Compare, c) }

// then adds an operation that is done if all conditions hold.
func (t *txn) then(op *pb.RequestOp, decode func(*pb.ResponseOp)) {
	t.Success = append(t.Success, op)
	t.thenDecode = append(t.thenDecode, decode)
}

// thenGet adds a read that is done if all conditions hold.
func (t *txn) thenGet(r *pb.RangeRequest, decode func(*pb.RangeResponse)) {
	t.then(opGet(r), func(a *pb.ResponseOp) { decode(a.GetResponseRange()) })
}

// elseGet adds a read that is done if a condition does not hold, to find out which.
func (t *txn) elseGet(r *pb.RangeRequest, decode func(*pb.RangeResponse)) {
	t.Failure = append(t.Failure, opGet(r))
	t.elseDecode = append(t.elseDecode, func(a *pb.ResponseOp) { decode(a.GetResponseRange()) })
}

// decode calls the functions with an answer. met reports whether the conditions held. It is a
// parameter, because update also decodes answers to the reads of Failure alone.
func (t *txn) decode(resp *pb.TxnResponse, met bool) {
	t.rev = resp.Header.Revision
	functions := t.elseDecode
	if met {
		functions = t.thenDecode
	}
	for i, a := range resp.Responses {
		if functions[i] != nil {
			functions[i](a)
		}
	}
}

// created is the condition that a key was made at a revision; 0 means that it does not
// exist. It is how an entry is named: the key may be used again, the revision is not.
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

// opPut writes a key. lease 0 means that the key stays until it is deleted.
func opPut(key, value []byte, lease int64) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: value, Lease: lease}}}
}

func opDelete(key []byte) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}}
}

// opTxn is a transaction in a transaction. Its conditions are checked before the outer one
// changes anything. They do not decide about the outer one: this is how etcd does a part of
// a request only where the part's own condition holds.
func opTxn(r *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
}

// withValue reads a key with its value. keyOnly reads only whether it exists, and since when.
func withValue(key []byte) *pb.RangeRequest { return &pb.RangeRequest{Key: key} }
func keyOnly(key []byte) *pb.RangeRequest   { return &pb.RangeRequest{Key: key, KeysOnly: true} }

// below reads the keys with a prefix: at most so many, or all if most is 0.
func below(prefix string, most int64) *pb.RangeRequest {
	return &pb.RangeRequest{Key: []byte(prefix), RangeEnd: prefixEnd(prefix), Limit: most}
}

// inOrder makes a read answer in order of place, ascending or descending. The server then
// reads the whole range, whatever the limit: so this is only for queues that are short, and
// for reads that are not part of a write.
func inOrder(r *pb.RangeRequest, order pb.RangeRequest_SortOrder) *pb.RangeRequest {
	r.SortTarget, r.SortOrder = pb.RangeRequest_CREATE, order
	return r
}

// head returns the first key of an answer, nil if it has none, or if there is no answer.
// Getters of a nil key return zero, as if the key did not exist.
func head(r *pb.RangeResponse) *mvccpb.KeyValue {
	if len(r.GetKvs()) == 0 {
		return nil
	}
	return r.Kvs[0]
}
