package etcdbackend

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// This file finds out what became of a join without an answer. A request that was given up is
// not gone: it can wait in a connection, in a member, or in the log of the cluster, and be
// carried out later. That an entry is not there now proves nothing about that. The fence does:
// once it is written, the condition of the attempt is false for ever.

// unanswered implements call. It finds out whether the attempt was carried out; if it
// was not, it never will be. If this cannot be found out, the call ends with a
// *driver.PendingError. After NOSPACE no fence is needed, because the attempt will not be
// carried out later, and none could be put.
func (j *join) unanswered(ctx context.Context, _ *txn, full error) (over bool, err error) {
	place, err := j.place(ctx, full == nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		j.s.lease.Lost(err)
		return true, j.s.cluster.Ended()
	case err == nil && place == 0:
		return false, nil
	}
	// All parts are read before the first is recorded: an error in between would leave a join
	// of which some entries count and others are deleted.
	adopt := make([]func(), len(j.parts))
	for i := 0; i < len(j.parts) && err == nil; i++ {
		adopt[i], err = j.parts[i].adopt(ctx, j.s, place)
	}
	if err != nil {
		// The keys stay reserved until Settle has succeeded: a delayed request may still put
		// them.
		return true, &driver.PendingError{Err: err, Settle: j.settle}
	}
	for _, f := range adopt {
		f()
	}
	j.made(ctx, place, true)
	return true, nil
}

// adopt returns a function that records an entry which an attempt without an answer has
// made. It counts the entries that were ahead then, or if that revision was compacted, all
// that are there now, and at least one: whether its own is still one of them is not known,
// and a count that is too low could grant it. It does not read them: answers get lost when
// thousands of clients join at once, and reads of the whole queue would make still more
// answers late.
func (p *part) adopt(ctx context.Context, s *etcdSession, place int64) (func(), error) {
	q := p.own.q
	count := below(q.prefix, 0)
	count.CountOnly, count.Revision = true, place
	rs := append(q.namedRecords(p.Records), count)
	resps, rev, err := s.cluster.read(ctx, place, rs...)
	if errors.Is(err, rpctypes.ErrCompacted) {
		count.Revision = 0
		resps, rev, err = s.cluster.read(ctx, place, rs...)
	}
	return func() {
		n := len(resps) - 1 // the count is the last answer
		ahead := resps[n].Count - 1
		if count.Revision == 0 {
			ahead = max(resps[n].Count, 1)
		}
		p.sorted = false
		p.made(s, place, &pb.RangeResponse{Count: ahead})
		s.queues.learn(q.name, rev)
		for _, r := range resps[:n] {
			q.addRecords(&p.joined.View, r)
		}
	}, err
}

// settle implements Settle of a *driver.PendingError. After the first success it does
// nothing: the keys may belong to other entries by then.
func (j *join) settle(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.settled {
		return nil
	}
	if err := j.undo(ctx); err != nil {
		return fmt.Errorf("etcd: settle join of %q: %w", j.parts[0].Queue, err)
	}
	j.settled = true
	j.s.fences.free(j.fence)
	j.free()
	return nil
}

// undo deletes what the newest attempt has made, or puts its fence. Nil: nothing of the
// join is left, or will come.
//
//	place returns         the entries are                   undo
//	ErrLeaseNotFound      gone with the lease               returns nil: a late put is refused
//	                                                        without the lease
//	0                     not there, and never will be      returns nil
//	a place               there                             deletes them
//	NOSPACE, then a place there                             deletes them: deleting needs no space
//	NOSPACE, then 0       not there, and may still come     returns the error
//	any other error       unknown                           returns the error
func (j *join) undo(ctx context.Context) error {
	place, err := j.place(ctx, true)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return nil
	case errors.Is(err, rpc.ErrFull):
		var again error
		place, again = j.place(ctx, false)
		if again != nil || place == 0 {
			return driver.JoinErrors(err, again)
		}
	case err != nil || place == 0:
		return err
	}
	d := &departure{s: j.s}
	for i := range j.parts {
		p := &j.parts[i]
		exit := driver.LeaveRequest{Ref: p.own.ref, Any: true}
		exit.Ref.Place = place
		for _, op := range p.Ops {
			if op.If.Kind == driver.IfAbsent && op.Value != nil { // other records were there before, and stay
				exit.Ops = append(exit.Ops, driver.Op{Record: op.Record, If: driver.At(place)})
			}
		}
		if err := d.add(ctx, exit); err != nil {
			return err
		}
	}
	_, err = d.delete(ctx)
	return err
}

// place returns the place of the entries of the newest attempt, 0 if none is there. All were
// made or none, but another client may have deleted some since. So any of them shows it.
//
// With block, the same transaction writes the fence unless an entry is there. Then it is
// certain whether the attempt is ever carried out. That the keys do not exist would not be
// enough, because the puts can still arrive. The fence ends with the lease. It is written
// only if it is as it was, so a copy of this transaction that arrives late changes nothing,
// and if it is not, an earlier copy has written it.
//
//	block  an entry is there  the fence is as it was  the transaction     returns
//	no     no                                         changes nothing     0
//	yes    no                 yes                     writes the fence    0
//	yes    no                 no                      changes nothing     0: an earlier copy did it
//	any    yes                any                     changes nothing     its place
func (j *join) place(ctx context.Context, block bool) (int64, error) {
	r := &pb.TxnRequest{}
	for i := range j.parts {
		key := j.parts[i].own.key
		r.Compare = append(r.Compare, created(key, 0))
		r.Failure = append(r.Failure, opGet(keyOnly(key)))
	}
	if block {
		r.Compare = append(r.Compare, written(j.fence.key, j.fence.written))
		r.Success = append(r.Success, opPut(j.fence.key, nil, j.s.lease.ID))
		r.Failure = append(r.Failure, opGet(keyOnly(j.fence.key)))
	}
	resp, err := j.s.cluster.txn(ctx, r)
	if err != nil {
		return 0, err
	}
	switch {
	case resp.Succeeded && block:
		j.fence.written = resp.Header.Revision
		return 0, nil
	case resp.Succeeded:
		return 0, nil
	}
	place := int64(0)
	for _, a := range resp.Responses[:len(j.parts)] {
		place = max(place, head(a.GetResponseRange()).GetCreateRevision())
	}
	if block {
		j.fence.written = head(resp.Responses[len(j.parts)].GetResponseRange()).GetModRevision()
	}
	return place, nil
}
