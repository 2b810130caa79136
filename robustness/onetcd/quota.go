package onetcd

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Quota implements trial.Service. It raises the alarm that a member raises when its
// database has reached the quota: then every member refuses puts and leases, and allows
// deletions. Quota returns when a put was refused; end waits until a put succeeds.
func (s *Service) Quota(ctx context.Context) (end func(context.Context) error, err error) {
	raise := &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE, MemberID: s.cluster.Member(0).ID(),
	}
	err = s.retry(ctx, func(ctx context.Context) error {
		_, err := pb.NewMaintenanceClient(s.admin.ActiveConnection()).Alarm(ctx, raise)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("onetcd: raise the alarm: %w", err)
	}
	err = s.retry(ctx, func(ctx context.Context) error {
		_, err := s.admin.Put(ctx, "mark", "refused")
		if !errors.Is(err, rpctypes.ErrNoSpace) {
			return fmt.Errorf("a put is not refused: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("onetcd: raise the alarm: %w", err), s.disarm(ctx))
	}
	return s.disarm, nil
}

func (s *Service) disarm(ctx context.Context) error {
	err := s.retry(ctx, func(ctx context.Context) error {
		_, err := s.admin.AlarmDisarm(ctx, &clientv3.AlarmMember{})
		return err
	})
	if err != nil {
		return fmt.Errorf("onetcd: end the alarm: %w", err)
	}
	_, err = s.mark(ctx)
	return err
}
