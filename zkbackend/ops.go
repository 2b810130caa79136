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
//
// An Op has a condition on its record, and a transaction can require only two things: that the record
// is absent, or that it has one version (see record.go). So each Op goes this way, perhaps more than
// once:
//
//	prepare   reads the record, if what the session knows of it does not decide
//	steps     adds the requests that require this and write that
//	done      remembers what was written; or
//	refused   finds out whether the condition does not hold, or was read too early
//
// A required Op whose condition does not hold fails the request; an optional one is left out.
type opSet struct {
	s      *zkSession
	sender *sender // of the request; of a join, one that is never unsure, because it makes other Ops for another attempt
	queue  string
	ops    []driver.Op
	plans  []opPlan // one for each Op
}

// opPlan is what is known of one Op.
type opPlan struct {
	// state only leaves opOpen, and never comes back to it.
	state opState

	// later: the next attempts are without the Op, and it is done after them.
	later bool

	// version is what the Op writes, in every attempt. It is random, so a record that has it was written
	// by this Op.
	version int64

	// record is what the session knows of the record: before the Op, or after it was done. It counts
	// only if known; then it may be out of date, unless it is fresh: read since the request began. A zero
	// record is one that is absent.
	record driver.Record
	known  bool
	fresh  bool

	// sent: the Op was part of the last attempt, and required basis.
	sent  bool
	basis basis
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
//
//	If               the session knows              required        met   known
//	Absent           anything                       absent          yes   yes
//	At v             anything                       version v       yes   yes
//	Equal x          value x at version w           version w       yes   yes
//	EqualOrAbsent x  value x at version w           version w, and  yes   yes
//	                                                nothing is written
//	EqualOrAbsent x  absent                         absent          yes   yes
//	otherwise        what it has read since the                     no    yes
//	                 request began
//	otherwise        what may be out of date,                       no    no
//	                 or nothing
func (o *opSet) require(i int) (b basis, met, known bool) {
	p, c := &o.plans[i], o.ops[i].If
	there := p.record.Version != 0
	switch {
	case c.Kind == driver.IfAbsent:
		return basis{}, true, true
	case c.Kind == driver.IfAt:
		return basis{version: c.Version}, true, true
	case p.known && there && bytes.Equal(p.record.Value, c.Value):
		return basis{version: p.record.Version, keep: c.Kind == driver.IfEqualOrAbsent}, true, true
	case p.known && !there && c.Kind == driver.IfEqualOrAbsent:
		return basis{}, true, true
	}
	return basis{}, false, p.fresh
}

func (o *opSet) next(ctx context.Context) (transaction, error) {
	if err := o.prepare(ctx); err != nil {
		return nil, err
	}
	return o.steps(0), nil
}

// prepare reads the records that must be known. It returns a *driver.RefusedError if the
// condition of a required Op does not hold. An optional Op whose record cannot be read is left out.
func (o *opSet) prepare(ctx context.Context) error {
	var unknown []int
	for i := range o.ops {
		_, _, known := o.require(i)
		if !known && o.plans[i].state == opOpen {
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
		_, met, _ := o.require(i)
		if !met && o.plans[i].state == opOpen {
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
//
//	an attempt was not answered, and the record, read now, has the version of the Op,
//	or is absent as after a deletion                                                    done
//	otherwise, optional                                                                 left out
//	otherwise, required                                                                 *driver.RefusedError
func (o *opSet) unmet(ctx context.Context, i int) error {
	p, op := &o.plans[i], o.ops[i]
	if o.sender.unsure {
		if err := o.read(ctx, i); err != nil {
			return err
		}
	}
	v := p.record.Version
	switch {
	case o.sender.unsure && (v == p.version || v == 0 && op.Value == nil):
		p.state = opDone
	case op.Optional:
		p.state = opLeftOut
	default:
		return &driver.RefusedError{Queue: o.queue, Op: op, Record: p.record, Known: p.fresh}
	}
	return nil
}

// steps returns the steps of the Ops that are open and need no read. of is the part of the request.
func (o *opSet) steps(of int) (t transaction) {
	for i := range o.ops {
		p, op := &o.plans[i], o.ops[i]
		b, met, known := o.require(i)
		p.sent = p.state == opOpen && !p.later && met && known
		if !p.sent {
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

// refused decides about a step that a server has refused. Nil means that another attempt may be
// carried out. The first line that fits counts:
//
//	step       error                 If             what it means                       then
//	none       classified                           the transaction was not sent        the error
//	a create   NoNode                               the folder of records is missing    make it, again
//	any        none of the below                    not permitted, or a quota           the error
//	any        NoNode, NodeExists    Absent, At     the condition does not hold         unmet
//	any        NoNode, NodeExists    another        the record was written since it     read it, again
//	                                                was read, perhaps with the value
//
// An optional Op with an error that waiting cannot cure is left out, and the log shows that.
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
	default:
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
		p.later = later
		if unbound && !o.ops[i].Bound {
			p.state = opLeftOut
		}
	}
}

// done takes in that the last attempt was carried out, by the transaction zxid.
func (o *opSet) done(zxid int64) {
	for i, op := range o.ops {
		p := &o.plans[i]
		if !p.sent {
			continue
		}
		p.state = opDone
		switch {
		case p.basis.keep: // it is as it was
			continue
		case op.Value == nil:
			p.record = driver.Record{}
		default:
			p.record = driver.Record{Value: bytes.Clone(op.Value), Version: p.version, Token: zxid}
		}
		o.s.records.see(o.key(i), p.record)
	}
}

// results returns what became of the Ops. A record that the session only remembers from before the
// request is not shown.
func (o *opSet) results() []driver.Result {
	all := make([]driver.Result, len(o.ops))
	for i, p := range o.plans {
		all[i].Done = p.state == opDone
		if all[i].Done || p.fresh {
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
