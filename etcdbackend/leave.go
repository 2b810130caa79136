package etcdbackend

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// departure is one call of Leave, over all its attempts. An attempt deletes an entry only at
// its place, so a later entry with the same key stays. This makes it safe to send the same
// attempt until one is answered.
//
// If an attempt finds the entry, the entry was Deleted by it. If not, and no attempt before
// was without an answer, it WasGone. Otherwise it is Unclear which attempt deleted it.
type departure struct {
	s     *etcdSession
	exits []exit
	left  []driver.Left
}

// run deletes the entries, and returns how each went.
func (d *departure) run(ctx context.Context, reqs []driver.LeaveRequest) ([]driver.Left, error) {
	if len(reqs) > maxJoin {
		return nil, fmt.Errorf("%w: %d entries, at most %d", driver.ErrRefused, len(reqs), maxJoin)
	}
	if err := enter(ctx, d.s.leaving); err != nil {
		return nil, err
	}
	defer func() { <-d.s.leaving }()
	d.exits = make([]exit, 0, len(reqs))
	for _, req := range reqs {
		if err := d.add(ctx, req); err != nil {
			return nil, err
		}
	}
	left, err := d.send(ctx)
	return left, driver.Outcome(err, slices.ContainsFunc(d.exits, func(e exit) bool { return e.unsure }))
}

// exit is one entry of a departure.
type exit struct {
	ref    driver.Ref
	own    *own // nil: it is of another session, or this session has left it before
	key    []byte
	detail []byte // its key; nil: there is none
	ops    ops
	first  []byte // the key that shows others that the entry was first; nil: it is not written
	gone   bool   // a watch has reported the end of the entry
	unsure bool   // an earlier attempt was not answered
}

// add adds an entry. Without Any, that of another owner is an error if it is still there.
func (d *departure) add(ctx context.Context, req driver.LeaveRequest) (err error) {
	s, e := d.s, exit{ref: req.Ref}
	if !req.Any { // or a call of the owner may be under way
		e.own, e.gone = s.queues.find(req.Ref)
	}
	var q *queue
	if e.own != nil {
		if req.First && e.own.followed {
			e.first = e.own.q.firstKey(req.Ref.Key)
		}
		q, e.key, e.detail, e.unsure = e.own.q, e.own.key, e.own.detail.key, e.own.unsure
	} else {
		q, _, _ = s.queues.lookup(req.Ref.Queue)
		suffix, ok := strings.CutPrefix(req.Ref.Key, q.prefix)
		if !ok {
			return fmt.Errorf("%w: the key %q is in another queue", driver.ErrRefused, req.Ref.Key)
		}
		e.key, e.detail = []byte(req.Ref.Key), q.detailKey(req.Ref.Key)
		if k, _ := parseEntryKey(suffix); !req.Any && (s.lease.ID == 0 || k.lease != s.lease.ID) {
			resps, _, err := s.cluster.read(ctx, fresh, keyOnly(e.key))
			if err == nil && first(resps[0]).GetCreateRevision() == req.Ref.Place {
				err = fmt.Errorf("%w: the entry %q is of another owner", driver.ErrRefused, req.Ref.Key)
			}
			if err != nil {
				return err
			}
		}
	}
	if e.ops, err = newOps(q, req.Ops, s.lease.ID); err != nil {
		return err
	}
	for i := range e.ops {
		e.ops[i].Optional = true
	}
	d.exits = append(d.exits, e)
	return nil
}

// send deletes the entries. The first attempt for a single own entry, with which nothing else
// is changed, is a plain delete of the key, which no other program uses. This is the fastest
// release. If it is not answered, it may still arrive and delete what has the key then. So
// the key is not used again, and all later attempts have the place as their condition.
func (d *departure) send(ctx context.Context) ([]driver.Left, error) {
	d.left = make([]driver.Left, len(d.exits))
	e := &d.exits[0]
	single := len(d.exits) == 1 && e.own != nil && !e.gone
	if !single || e.own.retired || e.unsure || e.detail != nil || e.first != nil || len(e.ops) > 0 {
		return d.left, d.s.cluster.exchange(ctx, d, rpc.Try{})
	}
	var n rpc.Try
	known := d.s.cluster.newest.Load()
	resp, err := rpc.Do(ctx, d.s.cluster.Sender, n, d.s.cluster.KV.DeleteRange, &pb.DeleteRangeRequest{Key: e.key})
	if err != nil {
		if rpc.Classify(err) == rpc.Unknown {
			e.own.retired, e.own.unsure, e.unsure = true, true, true
		}
		n.Next(d.s.cluster.Sender)
		return d.left, d.s.cluster.exchange(ctx, d, n)
	}
	if err := d.s.cluster.answered(known, resp.Header.Revision); err != nil {
		return nil, err
	}
	if resp.Deleted == 0 {
		d.left[0] = e.missing()
	}
	d.finish(resp.Header.Revision)
	return d.left, nil
}

// request implements exchange. The transaction contains one for each entry, with a
// condition of its own: an entry that is gone does not prevent the deletion of the others.
func (d *departure) request() *txn {
	t := &txn{}
	for i := range d.exits {
		e := &d.exits[i]
		t.do(opTxn(e.request()), func(a *pb.ResponseOp) {
			if !a.GetResponseTxn().Succeeded {
				d.left[i] = e.missing()
			}
		})
	}
	return t
}

// answered implements exchange.
func (d *departure) answered(_ context.Context, t *txn, _ bool) (again bool, err error) {
	d.finish(t.rev)
	return false, nil
}

// unanswered implements exchange. After NOSPACE too the attempt may have been carried out.
func (d *departure) unanswered(context.Context, *txn, error) (over bool, err error) {
	for i := range d.exits {
		e := &d.exits[i]
		if e.unsure = true; e.own != nil {
			e.own.unsure = true
		}
	}
	return false, nil
}

// missing returns how an entry went that an attempt has not found.
func (e *exit) missing() driver.Left {
	if e.unsure {
		return driver.Unclear
	}
	return driver.WasGone
}

// request deletes the entry and what belongs to it. If the entry is gone, it deletes the
// bound records, and the detail unless another entry has the key by now.
func (e *exit) request() *pb.TxnRequest {
	r := &pb.TxnRequest{Compare: []*pb.Compare{created(e.key, e.ref.Place)}, Success: []*pb.RequestOp{opDelete(e.key)}}
	if e.first != nil {
		r.Success = append(r.Success, opPut(e.first, strconv.AppendInt(nil, e.ref.Place, 10), e.own.lease))
	}
	for i := range e.ops {
		t := &txn{}
		e.ops[i : i+1].add(t)
		if r.Success = append(r.Success, t.Success...); e.ops[i].Bound {
			r.Failure = append(r.Failure, t.Success...)
		}
	}
	if e.detail != nil {
		r.Success = append(r.Success, opDelete(e.detail))
		r.Failure = append(r.Failure, opTxn(&pb.TxnRequest{
			Compare: []*pb.Compare{created(e.key, 0)}, Success: []*pb.RequestOp{opDelete(e.detail)},
		}))
	}
	return r
}

// strip implements exchange. Only the deletes of the entries stay; details and bound
// records end with the lease. It logs which other records are not changed. A name that
// stays in a ledger, for example, makes the next holder believe that this one died. A key
// whose detail may stay is not used again, because that would describe the next entry.
func (d *departure) strip(why error) (more bool) {
	var stay []string
	for i := range d.exits {
		e := &d.exits[i]
		more = more || e.detail != nil || e.first != nil || len(e.ops) > 0
		for _, o := range e.ops {
			if !o.Bound {
				stay = append(stay, string(o.key))
			}
		}
		if e.own != nil && e.detail != nil {
			e.own.retired = true
		}
		e.detail, e.first, e.ops = nil, nil, nil
	}
	if len(stay) > 0 {
		d.s.log.Warn("etcd: a lock is released, and records of its queue stay as they are", "keys", stay, "err", why)
	}
	return more
}

// finish records that no entry is left, as of a revision.
func (d *departure) finish(rev int64) {
	for i := range d.exits {
		e := &d.exits[i]
		if e.own != nil {
			d.s.queues.release(e.own)
		}
		if e.first != nil {
			d.s.remains.add(e.first)
		}
		d.s.queues.learn(e.ref.Queue, rev)
	}
	d.s.hub.Wrote(rev)
}
