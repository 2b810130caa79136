package etcdtest

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/fairlock/fairlock/etcdtest/internal/member"
)

// embedded is a member inside this process.
type embedded struct {
	etcd *embed.Etcd
}

// startEmbedded returns when the member answers its peers.
func startEmbedded(spec *member.Spec) (*embedded, error) {
	cfg, err := spec.Config()
	if err != nil {
		return nil, err
	}
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcdtest: start %q: %w", spec.Name, err)
	}
	return &embedded{etcd: etcd}, nil
}

func (e *embedded) ready(ctx context.Context) error {
	select {
	case <-e.etcd.Server.ReadyNotify():
		return e.etcd.Server.LinearizableReadNotify(ctx)
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

func (e *embedded) halt() { e.etcd.Server.HardStop() }

func (e *embedded) close() { e.etcd.Close() }
