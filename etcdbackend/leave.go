package etcdbackend

import (
	"context"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// departure is one call of Leave, over all its attempts. An attempt deletes an entry only at
// its place, so a later entry with the same key stays. This makes it safe to send the same
// attempt until one is answered. So a Leave needs no fence and no witness, unlike a join and
// an update.
//
// How an entry went:
//
//	the attempt finds it    no earlier attempt unanswered    Left
//	yes                     any                              Deleted: by this attempt
//	no                      yes                              WasGone: before this call
//	no                      no                               Unclear: an earlier attempt, or
//	                                                         another client
type departure struct {
	s     *etcdSession
	exits []exit        // one for each request, in their order
	left  []driver.Left // as long; Deleted unless an attempt has not found the entry
}

// do deletes the entries, and returns how each went.
func (d *departure) do(ctx context.Context, reqs []driver.LeaveRequest) ([]driver.Left, error) {
	if len(reqs) > maxJoin {
		return nil, fmt.Errorf("%w: %d entries, at most %d", driver.ErrRefused, len(reqs), maxJoin)
	}
	if err := d.s.leaving.begin(ctx); err != nil {
		return nil, err
	}
	defer d.s.leaving.end()
	d.exits = make([]exit, 0, len(reqs))
	for _, req := range reqs {
		if err := d.add(ctx, req); err != nil {
			return nil, err
		}
	}
	left, err := d.delete(ctx)
	return left, driver.Outcome(err, slices.ContainsFunc(d.exits, func(e exit) bool { return e.unsure }))
}

// exit is one entry of a departure.
type exit struct {
	ref driver.Ref
	own *own // nil: it is of another session, or this session has left it before
	key []byte

	// detail is the key of the detail, nil if there is none. Of an entry that is not known as
	// own it is never nil, because it may have one.
	detail []byte

	ops ops // all optional

	// first is the first key that is written with the deletion; nil: it is not, see first.go.
	first []byte

	gone   bool // a watch has reported the end of the entry
	unsure bool // an earlier attempt was not answered, of this call or of one before
}

// add adds an entry. Without Any, that of another owner is an error if it is still there. The
// key shows whose entry it is, but only the place shows whether it is still that entry. So:
//
//	                                      deletes it as
//	an own entry, without Any             own: its key is free afterwards
//	in the key of this session            not own: it was left before, or a join was settled
//	in another key, without Any           not own, unless a read shows that it is there
//	with Any                              not own: a call of the owner may be under way
func (d *departure) add(ctx context.Context, req driver.LeaveRequest) (err error) {
	s, e := d.s, exit{ref: req.Ref}
	if !req.Any {
		e.own, e.gone = s.queues.find(req.Ref)
	}
	var q *queue
	if e.own != nil {
		if req.First && e.own.writesFirst {
			e.first = e.own.q.firstKey(req.Ref.Key)
		}
		q, e.key, e.detail, e.unsure = e.own.q, e.own.key, e.own.detail.key, e.own.unsure
	} else {
		q, _ = s.queues.lookup(req.Ref.Queue)
		suffix, ok := strings.CutPrefix(req.Ref.Key, q.prefix)
		if !ok {
			return fmt.Errorf("%w: the key %q is in another queue", driver.ErrRefused, req.Ref.Key)
		}
		e.key, e.detail = []byte(req.Ref.Key), q.detailKey(req.Ref.Key)
		k, _ := parseEntryKey(suffix)
		if !req.Any && (s.lease.ID == 0 || k.lease != s.lease.ID) {
			resps, _, err := s.cluster.read(ctx, fresh, keyOnly(e.key))
			if err == nil && head(resps[0]).GetCreateRevision() == req.Ref.Place {
				err = fmt.Errorf("%w: the entry %q is of another owner", driver.ErrRefused, req.Ref.Key)
			}
			if err != nil {
				return err
			}
		}
	}
	e.ops, err = newOps(q, req.Ops, s.lease.ID)
	if err != nil {
		return err
	}
	for i := range e.ops {
		e.ops[i].Optional = true
	}
	d.exits = append(d.exits, e)
	return nil
}

// plain reports whether a plain delete of the key can be the first attempt: the call deletes
// one own entry and changes nothing else, no other entry can have the key, and no request
// about it is under way.
func (d *departure) plain() bool {
	e := &d.exits[0]
	if len(d.exits) > 1 || e.own == nil || e.gone || e.unsure || e.own.retired {
		return false
	}
	return e.detail == nil && e.first == nil && len(e.ops) == 0
}

// delete deletes the entries. The first attempt is a plain delete of the key where it can be,
// which is the fastest release. If that is not answered, it may still arrive and delete what
// has the key then. So the key is not used again, and all later attempts have the place as
// their condition.
func (d *departure) delete(ctx context.Context) ([]driver.Left, error) {
	d.left = make([]driver.Left, len(d.exits))
	if !d.plain() {
		return d.left, d.s.cluster.perform(ctx, d, rpc.Attempt{})
	}
	e := &d.exits[0]
	var n rpc.Attempt
	known := d.s.cluster.newest.Load() // before the request is sent, see advance
	resp, err := rpc.Send(ctx, d.s.cluster.Sender, n, d.s.cluster.KV.DeleteRange, &pb.DeleteRangeRequest{Key: e.key})
	if err != nil {
		if rpc.Classify(err) == rpc.Unknown {
			e.own.retired, e.own.unsure, e.unsure = true, true, true
		}
		n.Next(d.s.cluster.Sender)
		return d.left, d.s.cluster.perform(ctx, d, n)
	}
	if err := d.s.cluster.advance(known, resp.Header.Revision); err != nil {
		return nil, err
	}
	if resp.Deleted == 0 {
		d.left[0] = e.missing()
	}
	d.finish(resp.Header.Revision)
	return d.left, nil
}

// attempt implements call. The transaction contains one for each entry, with a
// condition of its own: an entry that is gone does not prevent the deletion of the others.
// So it has no conditions itself, and its own are always met.
func (d *departure) attempt() *txn {
	t := &txn{}
	for i := range d.exits {
		e := &d.exits[i]
		t.then(opTxn(e.deletion()), func(a *pb.ResponseOp) {
			if !a.GetResponseTxn().Succeeded {
				d.left[i] = e.missing()
			}
		})
	}
	return t
}

// answered implements call.
func (d *departure) answered(_ context.Context, t *txn, _ bool) (again bool, err error) {
	d.finish(t.rev)
	return false, nil
}

// unanswered implements call. After NOSPACE too the attempt may have been carried out. Nothing
// is to be found out: the next attempt does what is left to do.
func (d *departure) unanswered(context.Context, *txn, error) (over bool, err error) {
	for i := range d.exits {
		e := &d.exits[i]
		e.unsure = true
		if e.own != nil {
			e.own.unsure = true // also for the next Leave of the entry
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

// deletion returns the transaction that deletes the entry and what belongs to it.
//
//	                 the entry is there      the entry is gone
//	entry            deleted                 another one with its key stays
//	first key        written                 not written: the entry ended without this Leave
//	detail           deleted                 deleted, unless another entry has the key by now
//	bound records    as their Ops want       the same: they end with the hold
//	other records    as their Ops want       not changed: another client may hold by now
func (e *exit) deletion() *pb.TxnRequest {
	r := &pb.TxnRequest{Compare: []*pb.Compare{created(e.key, e.ref.Place)}, Success: []*pb.RequestOp{opDelete(e.key)}}
	if e.first != nil {
		r.Success = append(r.Success, e.putFirst())
	}
	for i := range e.ops {
		t := &txn{}
		e.ops[i : i+1].add(t)
		r.Success = append(r.Success, t.Success...)
		if e.ops[i].Bound {
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

// strip implements call. Only the deletes of the entries stay; details, first keys and bound
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

// finish records that no entry is left, as of a revision, however each went.
func (d *departure) finish(rev int64) {
	for i := range d.exits {
		e := &d.exits[i]
		if e.own != nil {
			d.s.queues.free(e.own)
		}
		if e.first != nil {
			d.s.remains.add(e.first)
		}
		d.s.queues.learn(e.ref.Queue, rev)
	}
	d.s.hub.Wrote(rev)
}
