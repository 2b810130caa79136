package etcdbackend

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// update is one call of Update, over all its attempts. An attempt is one transaction: if
// the entry is there, the conditions of the required Ops hold, and the witness is as it was
// last known, it writes the entry, the detail, the witness and the records.
//
// After an attempt without an answer, the same transaction is sent again. If its conditions
// do not hold now, the witness shows the reason. If the witness was written meanwhile, the
// attempt was carried out, and the update has succeeded. If not, it was not carried out,
// and never will be as soon as a later attempt has written the witness. After an Update of
// an entry whose outcome stayed unknown, its witness shows nothing, because that Update can
// have written it, or can write it later.
type update struct {
	*driver.UpdateRequest
	s   *etcdSession
	q   *queue
	own *own // nil: only records are changed
	ops ops

	// witness shows whether an attempt without an answer was carried out: the cell of the
	// entry, if the update writes that, else a cell made for it. Nil if the conditions of
	// Ops cannot refuse the request: an attempt may be carried out twice then.
	witness *cell

	unsure  bool // an attempt was not answered, or was answered with NOSPACE
	late    bool // an attempt was not answered, so it may still be carried out
	settled bool // an attempt without an answer was carried out
	there   bool // the entry is there, as an attempt shows whose conditions did not hold
	moved   bool // that attempt shows too that a cell was written since it was last known
	carried bool // that cell is the witness
}

// run returns what became of the Ops.
func (u *update) run(ctx context.Context) (_ []driver.Result, err error) {
	if err := u.prepare(); err != nil {
		return nil, err
	}
	if u.witness == nil && u.s.lease.ID != 0 && u.ops.required() {
		u.witness = u.s.witnesses.take(u.s)
		defer func() {
			if err == nil || !u.unsure {
				u.s.witnesses.free(u.witness)
			}
		}()
	}
	if err = u.s.cluster.exchange(ctx, u, rpc.Try{}); err != nil {
		unknown := u.unsure
		if u.writes() {
			u.own.doubt = u.own.doubt || unknown
			unknown = u.own.doubt // an earlier Update may still write the entry
		}
		return nil, driver.Outcome(err, unknown)
	}
	return u.ops.results(u.settled), nil
}

// prepare returns why the request cannot be done.
func (u *update) prepare() (err error) {
	u.q, _, _ = u.s.queues.lookup(u.Queue)
	if u.ops, err = newOps(u.q, u.Ops, u.s.lease.ID); err != nil {
		return err
	}
	if !u.Entry.Zero() {
		var gone bool
		if u.own, gone = u.s.queues.find(u.Entry); u.own == nil || gone {
			return driver.ErrGone
		}
	}
	switch o := u.own; {
	case o == nil && (u.Marks != 0 || u.Data != nil || u.Detail != nil):
		err = errors.New("no entry is named")
	case o != nil && u.Marks&^o.takes() != 0:
		err = errors.New("the entry takes no such mark")
	case u.Data != nil && !o.valued, len(u.Data) > maxData:
		err = errors.New("the entry takes no such data")
	default:
		if u.writes() {
			u.witness = &o.cell
		}
		return nil
	}
	return fmt.Errorf("%w: %w", driver.ErrRefused, err)
}

// writes reports whether the entry itself is written. Marks that it has already are not
// written again.
func (u *update) writes() bool { return u.Data != nil || u.own != nil && u.Marks&^u.own.marks != 0 }

// request implements exchange.
func (u *update) request() *txn {
	t := &txn{}
	if o := u.own; o != nil {
		t.require(created(o.key, o.ref.Place))
		t.ask(keyOnly(o.key), func(r *pb.RangeResponse) { u.there = first(r).GetCreateRevision() == o.ref.Place })
		if u.Detail != nil {
			o.detail.key = o.q.detailKey(o.ref.Key)
			u.write(t, &o.detail, u.Detail)
		}
	}
	if w := u.witness; w != nil {
		value := u.Data
		if u.writes() && value == nil {
			value = encodeMarks(u.own.data, u.own.marks|u.Marks)
		}
		u.write(t, w, value)
	}
	u.ops.add(t)
	return t
}

// write adds the write of a cell, and its condition.
func (u *update) write(t *txn, c *cell, value []byte) {
	was := c.written
	t.require(written(c.key, was))
	t.do(opPut(c.key, value, u.s.lease.ID), func(*pb.ResponseOp) { c.written = t.rev })
	t.ask(keyOnly(c.key), func(r *pb.RangeResponse) {
		c.written = first(r).GetModRevision()
		u.moved = u.moved || c.written != was
		u.carried = u.carried || c.written != was && c == u.witness
	})
}

// strip implements exchange.
func (u *update) strip(error) bool {
	more := u.ops.strip() || u.Detail != nil
	u.Detail = nil
	return more
}

// keep records that the update was carried out at a revision.
func (u *update) keep(rev int64) {
	if u.s.hub.Wrote(rev); !u.writes() {
		return
	}
	u.own.doubt = false
	u.s.queues.wrote(u.own, u.Marks)
	u.s.hub.Changed(u.s.queues.target(u.own.ref.Target()), rev)
}

// unanswered implements exchange. NOSPACE can mean that the attempt was carried out. If no
// optional part can be left out, what the conditions depend on is read, to find that out.
func (u *update) unanswered(ctx context.Context, t *txn, full error) (over bool, err error) {
	u.unsure, u.late = true, u.late || full == nil
	if full == nil || u.ops.optional() || u.Detail != nil {
		return false, nil
	}
	resp, err := u.s.cluster.txn(ctx, &pb.TxnRequest{Success: t.Failure})
	if err != nil {
		return true, err
	}
	t.read(resp, false)
	u.s.queues.learn(u.Queue, t.rev)
	_, err = u.declined(full)
	return true, err
}

// answered implements exchange.
func (u *update) answered(_ context.Context, t *txn, met bool) (again bool, err error) {
	u.s.queues.learn(u.Queue, t.rev)
	if !met {
		return u.declined(nil)
	}
	u.keep(t.rev)
	return false, nil
}

// declined is called after an attempt of which a condition did not hold, or which was
// answered with NOSPACE. It reports whether another attempt can succeed; if not, err is the
// outcome of the call, and nil means that an earlier attempt was carried out.
func (u *update) declined(full error) (again bool, err error) {
	refused, flipped := u.ops.refused(u.q)
	moved, carried := u.moved, u.carried
	u.moved, u.carried = false, false
	switch {
	case u.own != nil && !u.there && (!u.unsure || len(u.ops) == 0):
		return false, driver.ErrGone // and no attempt has changed a record
	case u.own != nil && !u.there:
		err = errors.New("the entry is gone") // after an attempt that may have changed records
	case refused == nil && full == nil:
		// A cell or half of a condition was not as expected, and is known now.
		return moved || flipped, fmt.Errorf("%w: the records have changed", driver.ErrUnavailable)
	case u.unsure && carried && u.writes() && u.own.doubt:
		err = errors.New("the entry was written, perhaps by an earlier request")
	case u.unsure && carried:
		// The attempt without an answer was carried out. This is why the conditions do not
		// hold any more.
		u.settled = true
		u.keep(u.witness.written)
		return false, nil
	case u.unsure && u.witness == nil && refused != nil:
		err = refused // or an attempt was carried out: an observer has no witness
	case refused != nil:
		return false, refused
	default:
		u.unsure = u.late // no attempt was carried out until now
		return false, u.s.cluster.Explain(full)
	}
	return false, driver.OutcomeUnknown(err)
}
