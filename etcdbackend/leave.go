package etcdbackend

import (
	"context"
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// Leave implements driver.Session.
func (s *etcdSession) Leave(ctx context.Context, reqs ...driver.LeaveRequest) ([]driver.Left, error) {
	if len(reqs) == 0 {
		return nil, nil
	}
	left, err := s.leave(ctx, reqs)
	if err != nil {
		return nil, fmt.Errorf("etcd: leave %q: %w", reqs[0].Ref.Queue, err)
	}
	return left, nil
}

func (s *etcdSession) leave(ctx context.Context, reqs []driver.LeaveRequest) ([]driver.Left, error) {
	if len(reqs) > maxJoin {
		return nil, fmt.Errorf("%w: %d entries, at most %d", driver.ErrRefused, len(reqs), maxJoin)
	}
	if err := enter(ctx, s.leaving); err != nil {
		return nil, err
	}
	defer func() { <-s.leaving }()
	d := &departure{s: s, exits: make([]exit, 0, len(reqs))}
	for _, req := range reqs {
		if err := d.add(ctx, req); err != nil {
			return nil, err
		}
	}
	return d.run(ctx)
}

// departure is one call of Leave, over all its attempts.
type departure struct {
	s     *etcdSession
	exits []exit
	left  []driver.Left
}

// exit is one entry of a departure.
type exit struct {
	ref    driver.Ref
	own    *own // nil: of another session, or left before
	key    []byte
	detail []byte // its key; nil: there is none
	ops    ops
	gone   bool // a watch has reported the end of the entry
	unsure bool // an earlier attempt was not answered
}

// add adds an entry. Another owner's is only deleted with Any.
func (d *departure) add(ctx context.Context, req driver.LeaveRequest) (err error) {
	s, e := d.s, exit{ref: req.Ref}
	if !req.Any { // or a call of the owner may be under way
		e.own, e.gone = s.find(req.Ref)
	}
	var q *queue
	if e.own != nil {
		q, e.key, e.unsure = e.own.q, e.own.key, e.own.unsure
	} else {
		q, _, _ = s.lookup(req.Ref.Queue)
		suffix, ok := strings.CutPrefix(req.Ref.Key, q.prefix)
		if !ok {
			return fmt.Errorf("%w: the key %q is in another queue", driver.ErrRefused, req.Ref.Key)
		}
		e.key = []byte(req.Ref.Key)
		if k, _ := parseEntryKey(suffix); !req.Any && (s.lease == nil || k.lease != s.lease.ID) {
			resps, _, err := s.read(ctx, fresh, keyOnly(e.key))
			if err == nil && first(resps[0]).GetCreateRevision() == req.Ref.Place {
				err = fmt.Errorf("%w: the entry %q is of another owner", driver.ErrRefused, req.Ref.Key)
			}
			if err != nil {
				return err
			}
		}
	}
	if e.own == nil || e.own.described {
		e.detail = q.detailKey(req.Ref.Key)
	}
	if e.ops, err = s.ops(q, req.Ops); err != nil {
		return err
	}
	for i := range e.ops {
		e.ops[i].Optional = true
	}
	d.exits = append(d.exits, e)
	return nil
}

// run deletes the entries. A single one is deleted without a condition at first: the key
// is ours by lease and index. If there is no answer, the key may be deleted later, so it is
// not used again; and from then on it is the place that is deleted.
func (d *departure) run(ctx context.Context) ([]driver.Left, error) {
	d.left = make([]driver.Left, len(d.exits))
	e := &d.exits[0]
	if o := e.own; len(d.exits) > 1 || o == nil || o.retired || e.gone || e.unsure || e.detail != nil || len(e.ops) > 0 {
		return d.left, d.s.exchange(ctx, d)
	}
	resp, err := rpc.Do(ctx, d.s.send, rpc.Try{}, d.s.send.KV.DeleteRange, &pb.DeleteRangeRequest{Key: e.key})
	if err != nil {
		if rpc.Classify(err) == rpc.Unknown {
			e.own.retired, e.own.unsure, e.unsure = true, true, true
		}
		return d.left, d.s.exchange(ctx, d)
	}
	if resp.Deleted == 0 {
		d.left[0] = driver.WasGone
	}
	d.finish(resp.Header.Revision)
	return d.left, nil
}

// request implements exchange. It deletes exactly the entries. Each has a transaction of
// its own in the one that is sent, so that one that is gone does not keep the others.
func (d *departure) request() *txn {
	t := &txn{}
	for i := range d.exits {
		e := &d.exits[i]
		t.do(opTxn(e.request()), func(a *pb.ResponseOp) {
			switch {
			case a.GetResponseTxn().Succeeded:
			case e.unsure:
				d.left[i] = driver.Unclear
			default:
				d.left[i] = driver.WasGone
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

// unanswered implements exchange.
func (d *departure) unanswered(_ context.Context, _ *txn, full error) (over bool, err error) {
	for i := range d.exits {
		e := &d.exits[i]
		if e.unsure = e.unsure || full == nil; e.own != nil {
			e.own.unsure = e.unsure
		}
	}
	return false, nil
}

// request deletes the entry, and what belongs to it. If the entry is gone, its bound
// records go, and its detail unless its key is another's by now.
func (e *exit) request() *pb.TxnRequest {
	r := &pb.TxnRequest{Compare: []*pb.Compare{created(e.key, e.ref.Place)}, Success: []*pb.RequestOp{opDelete(e.key)}}
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

// strip implements exchange: only the deletes of the entries are needed. Details and bound
// records end with the lease. It logs which records stay as they are: a name that stays in
// a ledger makes the next holder believe that this one died.
func (d *departure) strip(why error) (more bool) {
	var stay []string
	for i := range d.exits {
		e := &d.exits[i]
		more = more || e.detail != nil || len(e.ops) > 0
		for _, o := range e.ops {
			if !o.Bound {
				stay = append(stay, string(o.key))
			}
		}
		e.detail, e.ops = nil, nil
	}
	if len(stay) > 0 {
		d.s.cfg.Logger.Warn("etcd: a lock is released, and records of its queue stay as they are", "keys", stay, "err", why)
	}
	return more
}

// finish takes in that no entry is left.
func (d *departure) finish(rev int64) {
	for i := range d.exits {
		if e := &d.exits[i]; e.own != nil {
			d.s.release(e.own)
		}
		d.s.learn(d.exits[i].ref.Queue, rev)
	}
	d.s.hub.Wrote(rev)
}
