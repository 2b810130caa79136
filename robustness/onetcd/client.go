package onetcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// open opens a client of a lock.
func open(ctx context.Context, lock string, n *network) (trial.Client, error) {
	switch lock {
	case trial.Ours:
		return openOurs(ctx, n)
	case Stock:
		return openStock(ctx, n)
	}
	return nil, fmt.Errorf("onetcd: there is no lock %q", lock)
}

// childArg is the client argument of trial.Spawn.
type childArg struct {
	Lock      string
	Endpoints []string
}

// Process implements trial.Service. The client bypasses the proxies, because faults are
// aimed at the process only.
func (s *Service) Process(ctx context.Context, lock, queue string, req trial.Request) (*trial.Process, error) {
	return trial.Spawn(ctx, Name, history.Queue{Name: queue, Recipe: history.Mutex}, req, childArg{lock, s.direct()})
}

// OpenChild is the trial.Opener of this service.
func OpenChild(ctx context.Context, arg json.RawMessage) (trial.Client, error) {
	var a childArg
	if err := json.Unmarshal(arg, &a); err != nil {
		return nil, fmt.Errorf("onetcd: client process: %w", err)
	}
	n := &network{}
	n.watching.Store(-1)
	n.renewing.Store(-1)
	var err error
	n.client, err = clientv3.New(clientv3.Config{Endpoints: a.Endpoints, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("onetcd: client process: %w", err)
	}
	c, err := open(ctx, a.Lock, n)
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return c, nil
}
