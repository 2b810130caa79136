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
// of the required ones are conditions of the transaction; each optional one is a
// transaction of its own inside it.
type ops []op

type op struct {
	driver.Op
	key    []byte
	lease  int64 // 0: the record is not bound
	absent bool  // a required IfEqualOrAbsent, which is two conditions to etcd, is tried as the second
	skip   bool  // it is optional, and left out

	result driver.Result
	was    *mvccpb.KeyValue // the record of a required Op, after an attempt whose conditions were not met
}

func (s *etcdSession) ops(q *queue, list []driver.Op) (ops, error) {
	all := make(ops, len(list))
	for i, o := range list {
		all[i] = op{Op: o, key: []byte(q.side + o.Record)}
		if o.Bound && s.lease != nil {
			all[i].lease = s.lease.ID
		}
		if o.Record == "" || strings.HasPrefix(o.Record, "%") || o.Bound && o.Value != nil && s.lease == nil {
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

// add adds the Ops to a transaction, and what shows why that was not done.
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
				Compare: []*pb.Compare{o.met()},
				Success: []*pb.RequestOp{write},
				Failure: []*pb.RequestOp{opGet(whole(o.key))},
			}), read)
		default:
			if o.idle() {
				write = opGet(whole(o.key))
			}
			t.require(o.met())
			t.do(write, read)
			t.ask(whole(o.key), func(r *pb.RangeResponse) { o.was = first(r) })
		}
	}
}

// idle reports whether nothing is to be written if the condition is met.
func (o *op) idle() bool {
	return o.If.Kind == driver.IfEqualOrAbsent && !o.Optional && !o.absent
}

// met returns the condition for writing, or that of an idle Op.
func (o *op) met() *pb.Compare {
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

// results returns what became of the Ops. Those of an attempt without an answer that was
// carried out are settled: what became of the optional ones is not known.
func (os ops) results(settled bool) []driver.Result {
	all := make([]driver.Result, len(os))
	for i := range os {
		if all[i] = os[i].result; settled {
			all[i] = driver.Result{Done: !os[i].Optional, Record: record(os[i].was)}
		}
	}
	return all
}

// refused returns a *driver.RefusedError if the records did not meet a condition, and
// whether another attempt is worth it, because the other one of two conditions is met.
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

// asked returns reads of the records that a request names.
func (q *queue) asked(names []string) []*pb.RangeRequest {
	rs := make([]*pb.RangeRequest, len(names))
	for i, name := range names {
		if rs[i] = whole([]byte(q.side + name)); strings.HasSuffix(name, "/") {
			rs[i] = below(q.side+name, 0)
		}
	}
	return rs
}

// records adds the records of an answer to those of a view.
func (q *queue) records(v *driver.View, r *pb.RangeResponse) {
	if v.Records == nil {
		v.Records = make(map[string]driver.Record)
	}
	for _, kv := range r.Kvs {
		v.Records[string(kv.Key[len(q.side):])] = record(kv)
	}
}
