package etcdtest

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/server/v3/embed"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/etcdtest/internal/member"
)

// embedded is a member inside this process.
type embedded struct {
	etcd       *embed.Etcd
	endStreams context.CancelFunc
}

// startEmbedded returns when the member answers its peers.
func startEmbedded(ctx context.Context, spec *member.Spec) (*embedded, error) {
	cfg, err := spec.Config()
	if err != nil {
		return nil, err
	}
	// On shutdown, etcd would wait 5 s for the clients to end their watches.
	life, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	cfg.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(bounded(life))}
	etcd, err := startEtcd(cfg)
	if err != nil {
		endStreams()
		return nil, err
	}
	return &embedded{etcd: etcd, endStreams: endStreams}, nil
}

// startEtcd is embed.StartEtcd with an error where that panics, for example when the
// disk is full: the test goes on and reports it. What the server had opened stays open.
func startEtcd(cfg *embed.Config) (etcd *embed.Etcd, err error) {
	defer func() {
		if p := recover(); p != nil {
			etcd, err = nil, fmt.Errorf("etcd panicked: %v", p)
		}
	}()
	return embed.StartEtcd(cfg)
}

// bounded ends the streams of clients when life ends.
func bounded(life context.Context) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		ctx, cancel := context.WithCancel(stream.Context())
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		return next(srv, boundedStream{stream, ctx})
	}
}

type boundedStream struct {
	grpc.ServerStream
	ctx context.Context // of the one call that the stream is
}

func (s boundedStream) Context() context.Context { return s.ctx }

func (e *embedded) serving(context.Context) error { return nil }

func (e *embedded) ready(ctx context.Context) error {
	select {
	case <-e.etcd.Server.ReadyNotify():
		err := e.etcd.Server.LinearizableReadNotify(ctx)
		for ctx.Err() == nil && errors.Is(err, etcderrors.ErrLeaderChanged) { // a late heartbeat is enough
			err = e.etcd.Server.LinearizableReadNotify(ctx)
		}
		return err
	case <-e.etcd.Server.StopNotify():
		return errors.New("the server stopped by itself")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *embedded) status(context.Context) (self, leader uint64, err error) {
	s := e.etcd.Server
	select {
	case <-s.StopNotify():
		return 0, 0, errors.New("the server has stopped")
	default:
		return uint64(s.MemberID()), s.Lead(), nil
	}
}

func (e *embedded) moveLeader(ctx context.Context, to uint64) error {
	return e.etcd.Server.MoveLeader(ctx, e.etcd.Server.Lead(), to)
}

func (e *embedded) halt() {
	e.endStreams()
	e.etcd.Server.HardStop()
}

func (e *embedded) close() { e.etcd.Close() }
