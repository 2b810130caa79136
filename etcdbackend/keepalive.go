package etcdbackend

import (
	"context"
	"errors"
	"fmt"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// renewals sends one renewal and waits for its answer: the TTL in seconds, not
// positive if there is no such lease.
type renewals func(clientv3.LeaseID) (ttl int64, err error)

// renewals opens a stream for renewals, which lives as long as ctx.
func (b *backend) renewals(ctx context.Context) (renewals, error) {
	ctx = clientv3.WithRequireLeader(ctx)
	if !b.leases {
		return func(id clientv3.LeaseID) (int64, error) {
			resp, err := b.client.KeepAliveOnce(ctx, id)
			if err != nil {
				return 0, err
			}
			return resp.TTL, nil
		}, nil
	}
	stream, err := pb.NewLeaseClient(b.client.ActiveConnection()).LeaseKeepAlive(ctx, grpc.WaitForReady(true))
	if err != nil {
		return nil, fmt.Errorf("open a stream for renewals: %w", err)
	}
	return func(id clientv3.LeaseID) (int64, error) {
		// The reason why a stream cannot be sent on is told by Recv.
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		resp, err := stream.Recv()
		if err != nil {
			return 0, err
		}
		return resp.TTL, nil
	}, nil
}
