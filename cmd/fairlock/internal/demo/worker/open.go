package worker

import (
	"context"
	"fmt"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/session"
)

// Etcd is the service etcd, as Config.On names it.
const Etcd = "etcd"

// open opens the worker's session. It is all that differs between services.
func open(ctx context.Context, cfg Config, opts session.Options) (*session.Session, error) {
	switch cfg.On {
	case Etcd:
		return etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: []string{cfg.Server}}, &etcdbackend.Options{Session: opts})
	}
	return nil, fmt.Errorf("no service is called %q", cfg.On)
}
