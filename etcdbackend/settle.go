package etcdbackend

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/fairlock/fairlock/session/driver"
)

// pending hands the rest of the work to the caller. The slot stays taken until
// Settle has succeeded: a delayed request may still put its key.
func (j *join) pending(cause error) error {
	return &driver.PendingError{Err: cause, Settle: j.settle}
}

// settle makes sure that nothing of the request is left, or comes.
func (j *join) settle(ctx context.Context) error {
	j.settling.Lock()
	defer j.settling.Unlock()
	if j.settled {
		return nil
	}
	if err := j.undo(ctx); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("etcd: settle %q: %w", j.seats[0].req.Line, err)
	}
	j.settled = true
	j.free()
	return nil
}

// undo is settle without the bookkeeping. That the lease is not found is as
// good as nil: the entry went with it, and a late put is refused without it.
func (j *join) undo(ctx context.Context) error {
	kv, err := j.block(ctx)
	if errors.Is(err, errFull) {
		// The fence could not be written. If the entry is there it can be
		// deleted all the same; if not, it may still come.
		var ferr error
		if kv, ferr = j.find(ctx); ferr != nil || kv == nil {
			return driver.JoinErrors(err, ferr)
		}
		err = nil
	}
	if err != nil || kv == nil {
		return err
	}
	reqs := make([]driver.LeaveRequest, len(j.seats))
	for i := range j.seats {
		reqs[i] = driver.LeaveRequest{Ref: j.seats[i].ref(kv.CreateRevision), Clean: j.seats[i].req.Ledger}
	}
	_, err = j.s.LeaveAll(ctx, reqs)
	return err
}

// key is that of the first entry. All were made or none, so one tells.
func (j *join) key() string { return j.seats[0].key }

// block writes the fence of the newest attempt, unless its key is there: then
// it returns that. Either way the attempt's fate is sealed: that the key is
// absent would not be enough, since the put may be on its way.
//
// The fence is on the lease and goes with it. It is not deleted before, because
// it cannot be known when the late put has been refused; there are few.
func (j *join) block(ctx context.Context) (kv *mvccpb.KeyValue, err error) {
	err = j.s.b.ask(ctx, j.s.pace, func(ctx context.Context) error {
		resp, err := j.s.b.kv.txn(ctx, &pb.TxnRequest{
			Compare: []*pb.Compare{createdAt(j.key(), 0)},
			Success: []*pb.RequestOp{opPut(j.fence, nil, j.s.id)},
			Failure: []*pb.RequestOp{opGet(keyOnly(j.key()))},
		})
		if err != nil {
			return err
		}
		kv = nil
		if !resp.Succeeded {
			kv = first(resp.Responses[0].GetResponseRange().Kvs)
		}
		return nil
	})
	return kv, err
}

// find reads the key of an attempt that cannot be carried out any more.
func (j *join) find(ctx context.Context) (kv *mvccpb.KeyValue, err error) {
	err = j.s.b.ask(ctx, j.s.pace, func(ctx context.Context) error {
		resp, err := j.s.b.kv.get(ctx, keyOnly(j.key()))
		if err == nil {
			kv = first(resp.Kvs)
		}
		return err
	})
	return kv, err
}
