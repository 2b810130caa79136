package worker

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/pgbackend"
	"github.com/fairlock/fairlock/redisbackend"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
)

// The values of Config.On.
const (
	Etcd      = "etcd"
	ZooKeeper = "zk"
	Postgres  = "postgres"
	Redis     = "redis"
)

// open opens the worker's session. Only this differs between services.
func open(ctx context.Context, cfg Config, opts session.Options) (*session.Session, error) {
	switch cfg.On {
	case Etcd:
		return etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: []string{cfg.Server}}, &etcdbackend.Options{Session: opts})
	case ZooKeeper:
		return zkbackend.Open(ctx, []string{cfg.Server}, &zkbackend.Options{Session: opts})
	case Postgres:
		return pgbackend.Dial(ctx, cfg.Server, &pgbackend.Options{Session: opts})
	case Redis:
		return redisbackend.Dial(ctx, cfg.Server, &redisbackend.Options{Session: opts})
	}
	return nil, fmt.Errorf("no service is called %q", cfg.On)
}
