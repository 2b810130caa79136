package zkbackend

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// opSet is the Ops of one request about one queue, over all attempts of the request.
type opSet struct {
	s     *zkSession
	queue string
	ops   []driver.Op
	plans []opPlan
}

// opPlan is what is known of one Op.
type opPlan struct {
	state   opState
	later   bool  // it is not part of the attempts for now
	version int64 // that the Op writes, in every attempt

	record driver.Record // as it is known to be: before the Op, or after it was done
	known  bool          // it was read or written by the session ...
	fresh  bool          // ... and was read since the request began

	sent  bool  // the last attempt has tried to do it ...
	basis basis // ... requiring this
	vain  int64 // this version was read, and required in vain
}

// opState is what became of an Op.
type opState int

const (
	opOpen    opState = iota
	opLeftOut         // it is optional, and its condition does not hold or the service refuses it
	opDone
)

func newOps(s *zkSession, queue string, ops []driver.Op) *opSet {
	o := &opSet{s: s, queue: queue, ops: ops, plans: make([]opPlan, len(ops))}
	for i := range ops {
		p := &o.plans[i]
		p.version = newVersion()
		p.record, p.known = s.records.get(o.key(i))
	}
	return o
}

func (o *opSet) key(i int) recordKey { return recordKey{o.queue, o.ops[i].Record} }

// require returns what an Op requires of its record. known is false if the record must be
// read first, and met is false if the condition does not hold.
func (o *opSet) require(i int) (b basis, met, known bool) {
	p, c := &o.plans[i], o.ops[i].If
	switch there := p.record.Version != 0; {
	case c.Kind == driver.IfAbsent:
		return basis{}, true, true
	case c.Kind == driver.IfAt:
		return basis{version: c.Version}, true, true
	case p.known && there && bytes.Equal(p.record.Value, c.Value):
		return basis{version: p.record.Version, keep: c.Kind == driver.IfEqualOrAbsent}, true, true
	case p.known && !there && c.Kind == driver.IfEqualOrAbsent:
		return basis{}, true, true
	}
	return basis{}, false, p.fresh // what was seen earlier may be old
}

// prepare reads the records that must be known. With unsure, an earlier attempt may have
// been carried out. The error is a *driver.RefusedError if a required condition does not
// hold.
func (o *opSet) prepare(ctx context.Context, unsure bool) error {
	var unknown []int
	for i := range o.ops {
		if _, _, known := o.require(i); !known && o.plans[i].state == opOpen {
			unknown = append(unknown, i)
		}
	}
	if err := o.read(ctx, unknown...); err != nil {
		for _, i := range unknown {
			if !o.ops[i].Optional || !driver.Incurable(err) {
				return err
			}
			o.plans[i].state = opLeftOut
		}
	}
	for i := range o.ops {
		if _, met, _ := o.require(i); !met && o.plans[i].state == opOpen {
			if err := o.unmet(ctx, i, unsure); err != nil {
				return err
			}
		}
	}
	return nil
}

// read reads the records of some Ops as they are now.
func (o *opSet) read(ctx context.Context, which ...int) error {
	var b batch
	for _, i := range which {
		p := &o.plans[i]
		b.addRecord(o.s, o.key(i), func(r driver.Record) { p.record, p.known, p.fresh = r, true, true })
	}
	err := b.run(ctx, o.s, true)
	for _, i := range which {
		if p := &o.plans[i]; err == nil && p.vain != 0 && p.record.Version == p.vain {
			err = fmt.Errorf("%w: record %q of queue %q", errDamaged, o.ops[i].Record, o.queue)
		}
	}
	return err
}

// unmet takes in that the condition of an Op does not hold. If an earlier attempt may have
// been carried out, the record shows whether it was, unless it was written since: then this
// is what a caller would get that called again.
func (o *opSet) unmet(ctx context.Context, i int, unsure bool) error {
	p, op := &o.plans[i], o.ops[i]
	if unsure {
		if err := o.read(ctx, i); err != nil {
			return err
		}
	}
	switch v := p.record.Version; {
	case unsure && (v == p.version || v == 0 && op.Value == nil):
		p.state = opDone
	case op.Optional:
		p.state = opLeftOut
	default:
		return &driver.RefusedError{Queue: o.queue, Op: op, Record: p.record, Known: p.fresh}
	}
	return nil
}

// steps are those of the Ops that are open and known.
func (o *opSet) steps(of int) (t transaction) {
	for i := range o.ops {
		p, op := &o.plans[i], o.ops[i]
		b, met, known := o.require(i)
		if p.sent = p.state == opOpen && !p.later && met && known; !p.sent {
			continue
		}
		p.basis = b
		flags := int32(0)
		if op.Bound {
			flags = zk.FlagEphemeral
		}
		for _, req := range b.steps(o.s.b.lay, o.key(i), op.Value, p.version, flags, o.s.acl) {
			t = append(t, step{role: toOp, of: of, op: i, req: req})
		}
	}
	return t
}

// refused takes in why a step was refused. Nil means that the next attempt may be carried
// out.
func (o *opSet) refused(ctx context.Context, st step, err error, unsure bool) error {
	p, op := &o.plans[st.op], o.ops[st.op]
	made, isCreate := st.req.(*zk.CreateRequest)
	switch {
	case isClassified(err):
		return err
	case isCreate && isMissing(err):
		folder, _ := split(made.Path)
		err = o.s.makeFolder(ctx, folder)
	case !isMissing(err) && !errors.Is(err, zk.ErrNodeExists):
		err = translate(err, "WRITE", o.s.b.lay.record(o.queue, op.Record))
	case op.If.Kind == driver.IfAbsent || op.If.Kind == driver.IfAt:
		return o.unmet(ctx, st.op, unsure)
	default: // another version is there by now, perhaps with the same value
		if p.fresh {
			p.vain = p.basis.version
		}
		p.known, p.fresh = false, false
		o.s.records.forget(o.key(st.op))
		return nil
	}
	if driver.Incurable(err) && op.Optional {
		o.s.cfg.Logger.Warn("zookeeper: a record cannot be changed; went on without", "name", o.queue, "record", op.Record, "err", err)
		p.state = opLeftOut
		return nil
	}
	return err
}

// leaveOut takes Ops out of the next attempts: for now, or all that are not about bound
// records for good.
func (o *opSet) leaveOut(later, unbound bool) {
	for i := range o.plans {
		p := &o.plans[i]
		if p.later = later; unbound && !o.ops[i].Bound {
			p.state = opLeftOut
		}
	}
}

// done takes in that the last attempt was carried out, by a transaction with that number.
func (o *opSet) done(zxid int64) {
	for i, op := range o.ops {
		p := &o.plans[i]
		if !p.sent {
			continue
		}
		switch p.state = opDone; {
		case p.basis.keep:
			continue
		case op.Value == nil:
			p.record = driver.Record{}
		default:
			p.record = driver.Record{Value: bytes.Clone(op.Value), Version: p.version, Token: zxid}
		}
		o.s.records.see(o.key(i), p.record)
	}
}

func (o *opSet) results() []driver.Result {
	all := make([]driver.Result, len(o.ops))
	for i, p := range o.plans {
		if all[i].Done = p.state == opDone; all[i].Done || p.fresh {
			all[i].Record = p.record
		}
	}
	return all
}

// undo returns Ops that take back what the last attempt has made where nothing was: a join
// that its caller never learns of must leave no ledger entry.
func (o *opSet) undo() (ops []driver.Op) {
	for i, op := range o.ops {
		if op.If.Kind == driver.IfAbsent && op.Value != nil && o.plans[i].sent {
			ops = append(ops, driver.Op{Record: op.Record, If: driver.At(o.plans[i].version), Bound: op.Bound})
		}
	}
	return ops
}
