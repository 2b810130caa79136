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
// transaction of its own inside it.
//
// All conditions of an etcd transaction must hold, so it cannot have "equal or absent" as
// one. A required Op of that kind first requires "equal", since most queues have their
// records; the attempt after one that found the record absent requires "absent".
type ops []op

type op struct {
	driver.Op
	key    []byte
	lease  int64 // 0: the record is not bound
	absent bool  // IfEqualOrAbsent of a required Op: the next attempt requires the second half
	skip   bool  // it is optional, and left out

	result driver.Result
	was    *mvccpb.KeyValue // the record of a required Op, after an attempt whose conditions did not hold
}

// newOps returns the Ops of a request for a queue. lease is the session's, 0 for an
// observer, which makes no bound records.
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

// required reports whether an Op can keep the whole request from being done.
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
// shows whether their condition held.
func (os ops) add(t *txn) {
	for i := range os {
		o := &os[i]
		o.result = driver.Result{}
		write := opDelete(o.key)
		if o.Value != nil {
			write = opPut(o.key, o.Value, o.lease)
		}
		read := func(a *pb.ResponseOp) { o.read(a, t.rev) }
		switch {
		case o.skip:
		case o.Optional:
			t.do(opTxn(&pb.TxnRequest{
				Compare: []*pb.Compare{o.condition()},
				Success: []*pb.RequestOp{write},
				Failure: []*pb.RequestOp{opGet(whole(o.key))},
			}), read)
		default:
			if o.idle() {
				write = opGet(whole(o.key))
			}
			t.require(o.condition())
			t.do(write, read)
			t.ask(whole(o.key), func(r *pb.RangeResponse) { o.was = first(r) })
		}
	}
}

// idle reports whether the Op writes nothing if its condition is met, because the record
// then has the value already.
func (o *op) idle() bool {
	return o.If.Kind == driver.IfEqualOrAbsent && !o.Optional && !o.absent
}

// condition returns the condition as etcd checks it.
func (o *op) condition() *pb.Compare {
	switch {
	case o.If.Kind == driver.IfEqual || o.idle():
		return holds(o.key, o.If.Value)
	case o.If.Kind == driver.IfAt:
		return written(o.key, o.If.Version)
	}
	return created(o.key, 0)
}

// read reads the answer to what add has added.
func (o *op) read(a *pb.ResponseOp, rev int64) {
	o.result.Done = true
	if t := a.GetResponseTxn(); t != nil {
		o.result.Done, a = t.Succeeded, t.Responses[0]
	}
	if r := a.GetResponseRange(); r != nil {
		o.result.Record = record(first(r))
		o.result.Done = o.result.Done || o.If.Kind == driver.IfEqualOrAbsent && o.meets(first(r))
	} else if o.Value != nil {
		o.result.Record = driver.Record{Value: o.Value, Version: rev, Token: rev}
	}
}

// results returns what became of the Ops. settled reports that they were done by an attempt
// without an answer: then it is not known what became of the optional ones.
func (os ops) results(settled bool) []driver.Result {
	all := make([]driver.Result, len(os))
	for i := range os {
		if all[i] = os[i].result; settled {
			all[i] = driver.Result{Done: !os[i].Optional, Record: record(os[i].was)}
		}
	}
	return all
}

// refused returns a *driver.RefusedError if the records did not meet a condition. It also
// reports whether another attempt can succeed, because the other half of "equal or absent"
// is met.
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

// record returns a record as it was read, zero if it is not there.
func record(kv *mvccpb.KeyValue) driver.Record {
	if kv == nil {
		return driver.Record{}
	}
	return driver.Record{Value: append([]byte{}, kv.Value...), Version: kv.ModRevision, Token: kv.ModRevision}
}
