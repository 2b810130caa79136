package etcdbackend

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fairlock/fairlock/session/driver"
)

// Leave implements driver.Session. It works after the end of the session too.
func (s *leased) Leave(ctx context.Context, req driver.LeaveRequest) (driver.Left, error) {
	ref := req.Ref
	unsure := s.lines.isUnsure(ref)
	probe := req.Probe.Key != "" && req.Probe.Key != ref.Key
	// The key may have been used again, so it is the place that is left.
	r := &pb.TxnRequest{
		Compare: []*pb.Compare{createdAt(ref.Key, ref.Place)},
		Success: []*pb.RequestOp{opDelete(ref.Key)},
	}
	if probe {
		r.Success = append(r.Success, opGet(keyOnly(req.Probe.Key)))
	}
	var resp *pb.TxnResponse
	err := s.b.ask(ctx, s.pace, func(ctx context.Context) (err error) {
		resp, err = s.b.kv.txn(ctx, r)
		if err != nil && classify(err) == unknown {
			unsure = true
		}
		return err
	})
	if err != nil {
		s.lines.setUnsure(ref, unsure)
		return driver.Left{}, fmt.Errorf("etcd: leave %q: %w", ref.Line, err)
	}
	s.lines.setUnsure(ref, false)
	s.lines.gone(s.b.lay, ref)
	switch {
	case resp.Succeeded:
		left := driver.Left{Rev: resp.Header.Revision, Probed: probe}
		if probe {
			kv := first(resp.Responses[1].GetResponseRange().Kvs)
			left.Alive = kv != nil && kv.CreateRevision == req.Probe.Place
		}
		return left, nil
	case unsure:
		return driver.Left{}, nil
	}
	return driver.Left{}, fmt.Errorf("etcd: leave %q: %w", ref.Line, driver.ErrGone)
}
