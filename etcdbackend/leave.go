package etcdbackend

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/session/driver"
)

// Leave implements driver.Session. It works after the end of the session too.
func (s *leased) Leave(ctx context.Context, req driver.LeaveRequest) (driver.Left, error) {
	ref := req.Ref
	unsure := s.lines.isUnsure(ref)
	probe := req.Probe.Key != "" && req.Probe.Key != ref.Key
	then := []clientv3.Op{clientv3.OpDelete(ref.Key)}
	if probe {
		then = append(then, clientv3.OpGet(req.Probe.Key, clientv3.WithKeysOnly()))
	}
	var resp *clientv3.TxnResponse
	err := s.b.ask(ctx, s.pace, func(ctx context.Context) (err error) {
		// The key may have been used again, so it is the place that is left.
		resp, err = s.b.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(ref.Key), "=", ref.Place)).
			Then(then...).Commit()
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
