package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/server/v3/embed"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/etcdtest/internal/member"
	"github.com/fairlock/fairlock/internal/process"
)

// embedded is a member inside this process.
type embedded struct {
	etcd       *embed.Etcd
	endStreams context.CancelFunc
	log        *member.Log
	start      *process.Tail // what it logs until it is ready
}

// startEmbedded returns when the member answers its peers.
func startEmbedded(ctx context.Context, spec *member.Spec) (*embedded, error) {
	e := &embedded{start: new(process.Tail)}
	e.log = member.NewLog(e.start)
	cfg, err := spec.Config(e.log)
	if err != nil {
		return nil, err
	}
	// On shutdown, etcd would wait 5 s for the clients to end their watches.
	var life context.Context
	life, e.endStreams = context.WithCancel(context.WithoutCancel(ctx))
	cfg.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(bounded(life))}
	e.etcd, err = startEtcd(cfg)
	if err != nil {
		e.endStreams()
		return nil, err
	}
	return e, nil
}

// startEtcd is embed.StartEtcd with an error where that panics, for example when the
// disk is full: the test goes on and reports it. What the server had opened stays open.
func startEtcd(cfg *embed.Config) (etcd *embed.Etcd, err error) {
	defer func() {
		p := recover()
		if p != nil {
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
		e.log.Started()
		err := e.etcd.Server.LinearizableReadNotify(ctx)
		for ctx.Err() == nil && late(err) {
			err = e.etcd.Server.LinearizableReadNotify(ctx)
		}
		return err
	case <-e.etcd.Server.StopNotify():
		return errors.New("the server stopped by itself")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// late reports whether a read failed because the machine is slow: a late heartbeat is enough.
func late(err error) bool {
	return err != nil && (errors.Is(err, etcderrors.ErrLeaderChanged) || strings.HasPrefix(err.Error(), etcderrors.ErrTimeout.Error())) // also "…, possibly due to …"
}

func (e *embedded) logged() (all string, n int) { return e.start.String(), e.start.Len() }

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
