package etcdbackend

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/session/driver"
)

// ops are changes of the records of one queue, as parts of a transaction. The conditions
// of the required ones are conditions of the transaction. Each optional one is a
// transaction of its own inside it, so that its condition decides about nothing else.
//
// All conditions of an etcd transaction must hold, so it cannot have "equal or absent" as
// one. A required Op of that kind first requires "equal", since most queues have their
// records; the attempt after one that found the record absent requires "absent". If the
// record comes and goes between the attempts, there are more of them.
type ops []op

// op is one Op, over all attempts of a call.
type op struct {
	driver.Op
	key   []byte // of the record; never changes
	lease int64  // that a written record is put on; 0: the record is not bound

	// absent is only for a required Op with IfEqualOrAbsent: which half the next attempt
	// requires. It is false at first, and afterwards what the newest attempt has found.
	absent bool

	// skip: the Op is optional, and was left out because the service had refused a request
	// with it. It stays so for the rest of the call.
	skip bool

	// result is of the newest attempt, and counts only if that was carried out.
	result driver.Result

	// was is the record of a required Op, as the newest attempt whose conditions did not hold
	// has read it; nil: there was no record, or no such attempt.
	was *mvccpb.KeyValue
}

// newOps returns the Ops of a request for a queue. lease is the session's, 0 for an
// observer, which makes no bound records. A name that begins with "%" is a folder of this
// package, and is refused.
func newOps(q *queue, list []driver.Op, lease int64) (ops, error) {
	all := make(ops, len(list))
	for i, o := range list {
		all[i] = op{Op: o, key: []byte(q.side + o.Record)}
		if o.Bound {
			all[i].lease = lease
		}
		if o.Record == "" || strings.HasPrefix(o.Record, "%") || o.Bound && o.Value != nil && lease == 0 {
			return nil, fmt.Errorf("%w: record %q", driver.ErrRefused, o.Record)
		}
	}
	return all, nil
}

// required reports whether a condition of an Op can keep the whole request from being done.
func (os ops) required() bool {
	return slices.ContainsFunc(os, func(o op) bool { return !o.Optional })
}

// optional reports whether there are Ops that can be left out.
func (os ops) optional() bool {
	return slices.ContainsFunc(os, func(o op) bool { return o.Optional && !o.skip })
}

// strip leaves the optional Ops out. It reports whether there were any.
func (os ops) strip() bool {
	more := os.optional()
	for i := range os {
		os[i].skip = os[i].Optional
	}
	return more
}

// add adds the Ops to a transaction, and for the required ones a read of the record that
// shows whether their condition held. What is added for each:
//
//	skip       nothing
//	Optional   a transaction: the change if the condition holds, else a read of the record
//	idle       the condition, and a read, because the record has the value already
//	required   the condition, and the change
//
// For the last two, the part "else" reads the record too, see refused.
func (os ops) add(t *txn) {
	for i := range os {
		o := &os[i]
		o.result = driver.Result{}
		write := opDelete(o.key)
		if o.Value != nil {
			write = opPut(o.key, o.Value, o.lease)
		}
		decode := func(a *pb.ResponseOp) { o.decode(a, t.rev) }
		switch {
		case o.skip:
		case o.Optional:
			t.then(opTxn(&pb.TxnRequest{
				Compare: []*pb.Compare{o.condition()},
				Success: []*pb.RequestOp{write},
				Failure: []*pb.RequestOp{opGet(withValue(o.key))},
			}), decode)
		default:
			if o.idle() {
				write = opGet(withValue(o.key))
			}
			t.require(o.condition())
			t.then(write, decode)
			t.elseGet(withValue(o.key), func(r *pb.RangeResponse) { o.was = head(r) })
		}
	}
}

// idle reports whether the Op writes nothing if its condition is met, because the record
// then has the value already: the attempt requires the half "equal".
func (o *op) idle() bool {
	return o.If.Kind == driver.IfEqualOrAbsent && !o.Optional && !o.absent
}

// condition returns the condition as etcd checks it. For IfEqualOrAbsent it is one half: of
// an optional Op always "absent", because a record with the value needs no change.
func (o *op) condition() *pb.Compare {
	switch {
	case o.If.Kind == driver.IfEqual || o.idle():
		return holds(o.key, o.If.Value)
	case o.If.Kind == driver.IfAt:
		return written(o.key, o.If.Version)
	}
	return created(o.key, 0)
}

// decode decodes the answer to what add has added, of an attempt that was carried out:
//
//	required, written        done
//	required, idle           done; the answer is the record
//	optional, written        done
//	optional, not written    not done, unless the record is as "equal or absent" wants it;
//	                         the answer is the record
func (o *op) decode(a *pb.ResponseOp, rev int64) {
	o.result.Done = true
	t := a.GetResponseTxn()
	if t != nil {
		o.result.Done, a = t.Succeeded, t.Responses[0]
	}
	r := a.GetResponseRange()
	if r != nil {
		o.result.Record = record(head(r))
		o.result.Done = o.result.Done || o.If.Kind == driver.IfEqualOrAbsent && o.meets(head(r))
	} else if o.Value != nil {
		o.result.Record = driver.Record{Value: o.Value, Version: rev, Token: rev}
	}
}

// results returns what became of the Ops. settled reports that they were done by an attempt
// without an answer: then it is not known what became of the optional ones, and of the
// required ones only what a later attempt has read.
func (os ops) results(settled bool) []driver.Result {
	all := make([]driver.Result, len(os))
	for i := range os {
		all[i] = os[i].result
		if settled {
			all[i] = driver.Result{Done: !os[i].Optional, Record: record(os[i].was)}
		}
	}
	return all
}

// refused returns a *driver.RefusedError if the records did not meet a condition, as the part
// "else" of an attempt has read them. It also reports whether another attempt can succeed,
// because the other half of "equal or absent" is met, and has the next attempt require that.
func (os ops) refused(q *queue) (err *driver.RefusedError, again bool) {
	for i := range os {
		o := &os[i]
		if o.Optional {
			continue
		}
		if !o.meets(o.was) && err == nil {
			err = &driver.RefusedError{Queue: q.name, Op: o.Op, Record: record(o.was), Known: true}
		}
		again = again || o.If.Kind == driver.IfEqualOrAbsent && o.absent != (o.was == nil)
		o.absent = o.was == nil
	}
	return err, again
}

// meets reports whether a record, which may be nil, meets the condition.
func (o *op) meets(kv *mvccpb.KeyValue) bool {
	switch o.If.Kind {
	case driver.IfEqual:
		return kv != nil && bytes.Equal(kv.Value, o.If.Value)
	case driver.IfEqualOrAbsent:
		return kv == nil || bytes.Equal(kv.Value, o.If.Value)
	case driver.IfAt:
		return kv != nil && kv.ModRevision == o.If.Version
	case driver.IfAbsent:
	}
	return kv == nil
}

// record returns a record as it was read, zero if it is not there. The value is never nil if
// the record is there: nil deletes, in an Op.
func record(kv *mvccpb.KeyValue) driver.Record {
	if kv == nil {
		return driver.Record{}
	}
	return driver.Record{Value: append([]byte{}, kv.Value...), Version: kv.ModRevision, Token: kv.ModRevision}
}
