package etcdbackend

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// Update implements driver.Session.
func (s *etcdSession) Update(ctx context.Context, req driver.UpdateRequest) ([]driver.Result, error) {
	u := &update{s: s, UpdateRequest: &req}
	err := u.prepare()
	if err == nil {
		err = u.run(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("etcd: update %q: %w", req.Queue, err)
	}
	return u.ops.results(u.settled), nil
}

// update is one call of Update, over all its attempts.
type update struct {
	*driver.UpdateRequest
	s       *etcdSession
	q       *queue
	own     *own // nil: only records are changed
	ops     ops
	witness *cell // is written with the rest; nil: the rest is only written if a write of it does no harm twice
	unsure  bool  // an attempt was not answered
	settled bool  // an attempt that was not answered was carried out
	there   bool  // the entry is there, as an attempt whose conditions were not met shows
	moved   bool  // and so was the witness written, by an attempt of this call or of an earlier one
}

// cell is a key that only this session writes, and only if it is as the session knows it.
// So it shows whether an attempt without an answer was carried out, and an attempt that
// arrives late changes nothing.
type cell struct {
	key     []byte
	written int64 // when, as far as is known; 0: never
}

// prepare returns why the request cannot be done.
func (u *update) prepare() (err error) {
	u.q, _, _ = u.s.lookup(u.Queue)
	if u.ops, err = u.s.ops(u.q, u.Ops); err != nil {
		return err
	}
	if !u.Entry.Zero() {
		var gone bool
		if u.own, gone = u.s.find(u.Entry); u.own == nil || gone {
			return driver.ErrGone
		}
	}
	switch o := u.own; {
	case o == nil && (u.Marks != 0 || u.Data != nil || u.Detail != nil):
		err = errors.New("no entry is named")
	case u.Marks != 0 && o.valued, u.Marks&^(driver.MarkShared|driver.MarkAdmitted) != 0:
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

// writes reports whether the entry itself is written. A mark that it has is not written
// again.
func (u *update) writes() bool { return u.Data != nil || u.own != nil && u.Marks&^u.own.marks != 0 }

// run does it. Where the conditions of Ops may refuse it and no entry is written, it
// writes a key for nothing else but to be a witness.
func (u *update) run(ctx context.Context) (err error) {
	if u.witness == nil && u.s.lease != nil && u.ops.required() {
		u.witness = u.s.witness()
		defer func() {
			if err == nil || !u.unsure {
				u.s.dismiss(u.witness)
			}
		}()
	}
	return u.s.exchange(ctx, u)
}

// request implements exchange.
func (u *update) request() *txn {
	t := &txn{}
	if o := u.own; o != nil {
		t.require(created(o.key, o.ref.Place))
		t.ask(keyOnly(o.key), func(r *pb.RangeResponse) { u.there = first(r).GetCreateRevision() == o.ref.Place })
		if u.Detail != nil {
			o.detail.key, o.described = o.q.detailKey(o.ref.Key), true
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

// write writes a cell.
func (u *update) write(t *txn, c *cell, value []byte) {
	was := c.written
	t.require(written(c.key, was))
	t.do(opPut(c.key, value, u.s.lease.ID), func(*pb.ResponseOp) { c.written = t.rev })
	t.ask(keyOnly(c.key), func(r *pb.RangeResponse) {
		c.written = first(r).GetModRevision()
		u.moved = u.moved || c.written != was
	})
}

// strip implements exchange.
func (u *update) strip(error) bool {
	more := u.ops.strip() || u.Detail != nil
	u.Detail = nil
	return more
}

// keep notes what was written at a revision.
func (u *update) keep(rev int64) {
	if u.s.hub.Wrote(rev); !u.writes() {
		return
	}
	o := u.own
	u.s.mu.Lock()
	o.marks |= u.Marks
	if u.Data != nil {
		o.data = u.Data
	}
	u.s.mu.Unlock()
	u.s.hub.Changed(u.s.target(o.ref.Target()), rev)
}

// unanswered implements exchange.
func (u *update) unanswered(ctx context.Context, t *txn, full error) (over bool, err error) {
	if u.unsure = true; full == nil || u.ops.optional() || u.Detail != nil {
		return false, nil
	}
	resp, err := rpc.Ask(ctx, u.s.send, u.s.send.KV.Txn, &pb.TxnRequest{Success: t.Failure})
	if err != nil {
		return true, err
	}
	t.read(resp, false)
	_, err = u.declined(full)
	return true, err
}

// answered implements exchange.
func (u *update) answered(_ context.Context, t *txn, met bool) (again bool, err error) {
	u.s.learn(u.Queue, t.rev)
	if !met {
		return u.declined(nil)
	}
	u.keep(t.rev)
	return false, nil
}

// declined is called after an attempt of which a condition was not met, or which etcd has
// refused because it is full. It reports whether another attempt may go better.
func (u *update) declined(full error) (again bool, err error) {
	refused, flipped := u.ops.refused(u.q)
	moved := u.moved
	u.moved = false
	switch {
	case u.own != nil && !u.there && (!u.unsure || len(u.ops) == 0):
		return false, driver.ErrGone
	case u.own != nil && !u.there:
		err = errors.New("the entry is gone")
	case refused == nil && full == nil:
		return moved || flipped, fmt.Errorf("%w: the records have changed", driver.ErrUnavailable)
	case u.unsure && moved:
		u.settled = true
		u.keep(u.witness.written)
		return false, nil
	case full != nil:
		return false, u.s.send.Explain(full)
	case u.unsure && u.witness == nil:
		err = refused
	default:
		return false, refused
	}
	return false, fmt.Errorf("%w: an attempt was not answered, and now: %w", driver.ErrUnavailable, err)
}

// witness returns a cell that no other Update uses. Its key is on the lease.
func (s *etcdSession) witness() *cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.witnesses); n > 0 {
		w := s.witnesses[n-1]
		s.witnesses = s.witnesses[:n-1]
		return w
	}
	return &cell{key: s.b.lay.serial(witnessFolder, s.lease.ID, s.serials.Add(1))}
}

// dismiss gives a witness back, of which no attempt is under way.
func (s *etcdSession) dismiss(w *cell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.witnesses = append(s.witnesses, w)
}
