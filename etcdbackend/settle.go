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

// unanswered implements exchange. It finds out what became of the attempt, and makes sure
// that it stays so.
func (j *join) unanswered(ctx context.Context, _ *txn, full error) (over bool, err error) {
	place, err := j.place(ctx, full == nil)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		j.s.lost(err)
		return true, j.s.send.Ended()
	case err != nil:
		return true, j.pending(err)
	case place == 0:
		return false, nil
	}
	for i := range j.parts {
		if err := j.parts[i].adopt(ctx, j.s, place); err != nil {
			return true, j.pending(err)
		}
	}
	j.made(ctx, place)
	for i := range j.joined {
		j.joined[i].Ops = j.parts[i].ops.results(true)
	}
	return true, nil
}

// adopt takes over an entry that was made by an attempt without an answer. What the
// answer showed is counted once more, as of then, or as of now if that was compacted. To
// read the queue instead would take as long as the queue is: answers get lost when
// thousands join at once, and each of these reads would make others later.
func (p *part) adopt(ctx context.Context, s *etcdSession, place int64) error {
	q := p.own.q
	count := below(q.prefix, 0)
	count.CountOnly, count.Revision = true, place
	rs := append(q.asked(p.Records), count)
	resps, _, err := s.read(ctx, place, rs...)
	if errors.Is(err, rpctypes.ErrCompacted) {
		count.Revision = 0
		resps, _, err = s.read(ctx, place, rs...)
	}
	if err != nil {
		return err
	}
	n := len(resps) - 1
	p.sorted = false
	p.made(s, place, &pb.RangeResponse{Count: max(resps[n].Count-1, 0)})
	for _, r := range resps[:n] {
		q.records(&p.joined.View, r)
	}
	return nil
}

// pending hands the rest of the work to the caller. The keys stay taken until Settle has
// succeeded: a delayed request may still put them.
func (j *join) pending(cause error) error {
	for i := range j.parts {
		j.s.unmade(j.parts[i].own)
	}
	return &driver.PendingError{Err: cause, Settle: j.settle}
}

// settle makes sure that nothing of the join is left, or comes.
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
	j.free()
	return nil
}

// undo is settle without the bookkeeping.
func (j *join) undo(ctx context.Context) error {
	place, err := j.place(ctx, true)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return nil // the entries went with it, and a late put is refused without it
	case errors.Is(err, rpc.ErrFull):
		// The fence could not be written. If the entry is there it can be deleted all
		// the same; if not, it may still come.
		var again error
		if place, again = j.place(ctx, false); again != nil || place == 0 {
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
			if op.If.Kind == driver.IfAbsent && op.Value != nil { // what was there before stays
				exit.Ops = append(exit.Ops, driver.Op{Record: op.Record, If: driver.At(place)})
			}
		}
		if err := d.add(ctx, exit); err != nil {
			return err
		}
	}
	_, err = d.run(ctx)
	return err
}

// place returns the place of the first entry of the newest attempt, 0 if it is not there.
// All entries were made or none, so one shows it.
//
// With block it writes the attempt's fence unless the entry is there. Either way the
// attempt's fate is sealed. That the key is absent would not be enough, since the put may
// be on its way. The fence is on the lease and goes with it. It is not deleted before,
// because it cannot be known when the late put has been refused; there are few.
func (j *join) place(ctx context.Context, block bool) (int64, error) {
	key := j.parts[0].own.key
	r := &pb.TxnRequest{Compare: []*pb.Compare{created(key, 0)}, Failure: []*pb.RequestOp{opGet(keyOnly(key))}}
	if block {
		r.Success = append(r.Success, opPut(j.fence, nil, j.s.lease.ID))
	}
	resp, err := rpc.Ask(ctx, j.s.send, j.s.send.KV.Txn, r)
	if err != nil || resp.Succeeded {
		return 0, err
	}
	return first(resp.Responses[0].GetResponseRange()).GetCreateRevision(), nil
}
