package onzk

import (
	"context"
	"errors"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
)

// ours is a client of Fairlock.
type ours struct {
	*network
	session *session.Session
}

func openOurs(ctx context.Context, n *network) (*ours, error) {
	s, err := zkbackend.Open(ctx, n.servers(), &zkbackend.Options{
		Session: session.Options{TTL: trial.TTL}, Root: root, TickTime: tick, Dial: n.dial, TLS: n.endpoints.tls,
	})
	if err != nil {
		return nil, err
	}
	return &ours{n, s}, nil
}

// Kinds implements trial.Client.
func (c *ours) Kinds() []string {
	return []string{Create, GetChildren, GetData, Sync, Delete, Ping}
}

// Acquire implements trial.Client.
func (c *ours) Acquire(ctx context.Context, queue history.Queue, req trial.Request) (trial.Hold, error) {
	return trial.AcquireOurs(ctx, c.session, queue, req)
}

// Close implements trial.Client.
func (c *ours) Close() error { return errors.Join(c.session.Close(), c.network.Close()) }
