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
// the entry is there, the conditions of the required Ops hold, and the cells that it writes
// are as they were last known, it writes the entry, the detail, the witness and the records.
//
// After an attempt without an answer, the same transaction is sent again. If its conditions
// do not hold now, the witness shows the reason. If the witness was written meanwhile, the
// attempt was carried out, and the update has succeeded. If not, it was not carried out,
// and never will be as soon as a later attempt has written the witness. After an Update of
// an entry whose outcome stayed unknown, its witness shows nothing, because that Update can
// have written it, or can write it later.
//
// Which cell is the witness:
//
//	the update writes the entry          the cell of the entry
//	only records, at least one required  a cell of its own, which it writes for this alone
//	only optional Ops, or a detail       none: an attempt may be carried out twice
//	an observer's                        none: it has no lease that a cell could end with
type update struct {
	*driver.UpdateRequest
	s   *etcdSession
	q   *queue
	own *own // nil: only records are changed
	ops ops

	// witness shows whether an attempt without an answer was carried out; nil: nothing does.
	witness *cell

	// What is known of the attempts so far. Once true, these stay true, but for unsure:
	// declined can find out that no attempt was carried out until then.
	unsure  bool // an attempt was not answered, or was answered with NOSPACE
	late    bool // an attempt was not answered, so it may still be carried out
	settled bool // an attempt without an answer was carried out

	// What the newest attempt has shown whose conditions did not hold. declined uses it, and
	// resets the last two.
	there   bool // the entry is there
	moved   bool // a cell was written since it was last known
	carried bool // that cell is the witness
}

// do returns what became of the Ops.
func (u *update) do(ctx context.Context) (_ []driver.Result, err error) {
	if err := u.prepare(); err != nil {
		return nil, err
	}
	if u.witness == nil && u.s.lease.ID != 0 && u.ops.required() {
		u.witness = u.s.witnesses.take(u.s)
		defer func() {
			if err == nil || !u.unsure { // else an attempt may still write it
				u.s.witnesses.free(u.witness)
			}
		}()
	}
	err = u.s.cluster.perform(ctx, u, rpc.Attempt{})
	if err != nil {
		unknown := u.unsure
		if u.writes() {
			u.own.doubt = u.own.doubt || unknown
			unknown = u.own.doubt // an earlier Update may still write the entry
		}
		return nil, driver.Outcome(err, unknown)
	}
	return u.ops.results(u.settled), nil
}

// prepare returns why the request cannot be done. It sends nothing.
func (u *update) prepare() (err error) {
	u.q, _ = u.s.queues.lookup(u.Queue)
	u.ops, err = newOps(u.q, u.Ops, u.s.lease.ID)
	if err != nil {
		return err
	}
	if !u.Entry.Zero() {
		var gone bool
		u.own, gone = u.s.queues.find(u.Entry)
		if u.own == nil || gone {
			return driver.ErrGone
		}
	}
	o := u.own
	switch {
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

// attempt implements call. The first read of the part "else" shows whether the entry is
// there, and each condition on a cell or a record has a read of its own behind that.
func (u *update) attempt() *txn {
	t := &txn{}
	o, w := u.own, u.witness
	if o != nil {
		t.require(created(o.key, o.ref.Place))
		t.elseGet(keyOnly(o.key), func(r *pb.RangeResponse) { u.there = head(r).GetCreateRevision() == o.ref.Place })
		if u.Detail != nil {
			o.detail.key = o.q.detailKey(o.ref.Key)
			u.write(t, &o.detail, u.Detail)
		}
	}
	if w != nil {
		value := u.Data
		if u.writes() && value == nil {
			value = encodeMarks(o.data, o.marks|u.Marks)
		}
		u.write(t, w, value)
	}
	u.ops.add(t)
	return t
}

// write adds the write of a cell, and its condition. Whatever the answer is, it shows when the
// cell was written last.
func (u *update) write(t *txn, c *cell, value []byte) {
	was := c.written
	t.require(written(c.key, was))
	t.then(opPut(c.key, value, u.s.lease.ID), func(*pb.ResponseOp) { c.written = t.rev })
	t.elseGet(keyOnly(c.key), func(r *pb.RangeResponse) {
		c.written = head(r).GetModRevision()
		u.moved = u.moved || c.written != was
		u.carried = u.carried || c.written != was && c == u.witness
	})
}

// strip implements call. The detail is no promise, so it goes as the optional Ops do.
func (u *update) strip(error) bool {
	more := u.ops.strip() || u.Detail != nil
	u.Detail = nil
	return more
}

// keep records that the update was carried out at a revision. The watch of own entries reports
// only their ends, so the mark is reported from here.
func (u *update) keep(rev int64) {
	u.s.hub.Wrote(rev)
	if !u.writes() {
		return
	}
	u.own.doubt = false
	u.s.queues.wrote(u.own, u.Marks)
	u.s.hub.Changed(u.s.queues.target(u.own.ref.Target()), rev)
}

// unanswered implements call. An attempt without an answer is sent again. NOSPACE can mean
// that the attempt was carried out. If no optional part can be left out, so that the same
// attempt would get the same answer, what the conditions depend on is read, to find that out.
func (u *update) unanswered(ctx context.Context, t *txn, full error) (over bool, err error) {
	u.unsure, u.late = true, u.late || full == nil
	if full == nil || u.ops.optional() || u.Detail != nil {
		return false, nil
	}
	resp, err := u.s.cluster.txn(ctx, &pb.TxnRequest{Success: t.Failure})
	if err != nil {
		return true, err
	}
	t.decode(resp, false)
	u.s.queues.learn(u.Queue, t.rev)
	_, err = u.declined(full)
	return true, err
}

// answered implements call.
func (u *update) answered(_ context.Context, t *txn, met bool) (again bool, err error) {
	u.s.queues.learn(u.Queue, t.rev)
	if !met {
		return u.declined(nil)
	}
	u.keep(t.rev)
	return false, nil
}

// declined is called after an attempt of which a condition did not hold, or which was
// answered with NOSPACE (full). It reports whether another attempt can succeed; if not, err is
// the outcome of the call, and nil means that an earlier attempt was carried out.
//
// "unsure" is that an earlier attempt may have been carried out, "carried" that the witness
// was written since it was last known, "refused" that a record does not meet its condition.
// The first line that fits counts:
//
//	entry gone, not unsure                      ErrGone: no attempt has changed anything
//	entry gone, no Ops                          ErrGone: what went with the entry is no matter
//	entry gone                                  unknown: records may have been changed before
//	not refused, not full                       another attempt, if a cell or the half of a
//	                                            condition is known now that was not; else
//	                                            unavailable
//	unsure, carried, entry written, in doubt    unknown: by this call, or by one before it
//	unsure, carried                             done: by the attempt without an answer, and
//	                                            that is why the conditions do not hold any more
//	unsure, no witness, refused                 unknown: an observer's attempt may have done it
//	refused                                     the *driver.RefusedError
//	full                                        refused for lack of space, nothing done; if an
//	                                            attempt may still be carried out, unknown
func (u *update) declined(full error) (again bool, err error) {
	refused, flipped := u.ops.refused(u.q)
	moved, carried := u.moved, u.carried
	u.moved, u.carried = false, false
	switch {
	case u.own != nil && !u.there && (!u.unsure || len(u.ops) == 0):
		return false, driver.ErrGone
	case u.own != nil && !u.there:
		err = errors.New("the entry is gone")
	case refused == nil && full == nil:
		return moved || flipped, fmt.Errorf("%w: the records have changed", driver.ErrUnavailable)
	case u.unsure && carried && u.writes() && u.own.doubt:
		err = errors.New("the entry was written, perhaps by an earlier request")
	case u.unsure && carried:
		u.settled = true
		u.keep(u.witness.written)
		return false, nil
	case u.unsure && u.witness == nil && refused != nil:
		err = refused
	case refused != nil:
		return false, refused
	default:
		u.unsure = u.late // no attempt was carried out until now
		return false, u.s.cluster.Explain(full)
	}
	return false, driver.OutcomeUnknown(err)
}
