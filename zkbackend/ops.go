package zkbackend

import (
	"bytes"
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// opSet is the Ops of one request for one queue, over all attempts of the request. As a call of
// its own it does those that are open.
type opSet struct {
	s      *zkSession
	sender *sender // of the request; of a join, one that is never unsure
	queue  string
	ops    []driver.Op
	plans  []opPlan
}

// opPlan is what is known of one Op.
type opPlan struct {
	state   opState
	later   bool  // the next attempts are without it
	version int64 // the version that the Op writes, in every attempt

	record driver.Record // what the session knows of it: before the Op, or after it was done
	known  bool          // the session has read or written it ...
	fresh  bool          // ... and has read it since the request began

	sent  bool  // it was part of the last attempt ...
	basis basis // ... and required this
}

// opState is what became of an Op.
type opState int

const (
	opOpen    opState = iota
	opLeftOut         // it is optional: its condition does not hold, or a server refuses it
	opDone
)

func newOps(s *zkSession, d *sender, queue string, ops []driver.Op) *opSet {
	o := &opSet{s: s, sender: d, queue: queue, ops: ops, plans: make([]opPlan, len(ops))}
	for i := range ops {
		p := &o.plans[i]
		p.version = newVersion()
		p.record, p.known = s.records.get(o.key(i))
	}
	return o
}

func (o *opSet) key(i int) recordKey { return recordKey{o.queue, o.ops[i].Record} }

// require returns what an Op requires of its record. If known is false, the record must be read
// first. If met is false, the condition does not hold.
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
	return basis{}, false, p.fresh // what was read before the request may be out of date
}

func (o *opSet) next(ctx context.Context) (transaction, error) {
	if err := o.prepare(ctx); err != nil {
		return nil, err
	}
	return o.steps(0), nil
}

// prepare reads the records that must be known. It returns a *driver.RefusedError if the
// condition of a required Op does not hold.
func (o *opSet) prepare(ctx context.Context) error {
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
			if err := o.unmet(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// read reads the records of some Ops.
func (o *opSet) read(ctx context.Context, which ...int) error {
	var b batch
	for _, i := range which {
		p := &o.plans[i]
		b.addRecord(o.s, o.key(i), func(r driver.Record) { p.record, p.known, p.fresh = r, true, true })
	}
	return b.run(ctx, o.s, true)
}

// unmet is called when the condition of an Op does not hold. An earlier attempt may have done the
// Op. The record shows whether it has, unless it was written since: then the Op fails, as it
// would for a caller that calls again.
func (o *opSet) unmet(ctx context.Context, i int) error {
	p, op := &o.plans[i], o.ops[i]
	if o.sender.unsure {
		if err := o.read(ctx, i); err != nil {
			return err
		}
	}
	switch v := p.record.Version; {
	case o.sender.unsure && (v == p.version || v == 0 && op.Value == nil):
		p.state = opDone
	case op.Optional:
		p.state = opLeftOut
	default:
		return &driver.RefusedError{Queue: o.queue, Op: op, Record: p.record, Known: p.fresh}
	}
	return nil
}

// steps returns the steps of the Ops that are open and need no read.
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

// refused decides about a step that a server has refused: the folder of records is missing, or the
// condition does not hold, or what the session knows of the record is out of date, or the server
// does not permit the step. An optional Op is left out if waiting cannot cure that.
func (o *opSet) refused(ctx context.Context, st step, err error) error {
	p, op := &o.plans[st.op], o.ops[st.op]
	made, isCreate := st.req.(*zk.CreateRequest)
	switch {
	case isClassified(err):
		return err
	case isCreate && isMissing(err):
		folder, _ := split(made.Path)
		_, err = o.s.folders.ensure(ctx, folder)
	case !isMissing(err) && !errors.Is(err, zk.ErrNodeExists):
		err = translate(err, "WRITE", o.s.b.lay.record(o.queue, op.Record))
	case op.If.Kind == driver.IfAbsent || op.If.Kind == driver.IfAt:
		return o.unmet(ctx, st.op)
	default: // the record has another version by now, perhaps with the same value
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

// leaveOut sets whether the next attempts are without the Ops. With unbound, those that are not
// about bound records are left out for good.
func (o *opSet) leaveOut(later, unbound bool) {
	for i := range o.plans {
		p := &o.plans[i]
		if p.later = later; unbound && !o.ops[i].Bound {
			p.state = opLeftOut
		}
	}
}

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

// undo returns Ops that delete the records that the last attempt has made where none was. A join
// that its caller never learns of must leave no name in a ledger.
func (o *opSet) undo() (ops []driver.Op) {
	for i, op := range o.ops {
		if op.If.Kind == driver.IfAbsent && op.Value != nil && o.plans[i].sent {
			ops = append(ops, driver.Op{Record: op.Record, If: driver.At(o.plans[i].version), Bound: op.Bound})
		}
	}
	return ops
}
