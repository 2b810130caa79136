package onetcd

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
	"github.com/fairlock/fairlock/session"
)

// ours is a client of Fairlock.
type ours struct {
	*network
	session *session.Session
	id      atomic.Value // string: the id of the lease
}

func openOurs(ctx context.Context, n *network) (*ours, error) {
	c := &ours{network: n}
	c.id.Store("")
	var err error
	c.session, err = etcdbackend.Open(ctx, n.client, &etcdbackend.Options{
		Root: root,
		Session: session.Options{
			TTL:   trial.TTL,
			Hooks: session.Hooks{SessionOpened: func(e session.Event) { c.id.Store(e.Session) }},
		},
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Kinds implements trial.Client.
func (c *ours) Kinds() []string {
	return []string{kindJoin, kindLook, kindWatch, kindResolve, kindRenewal, kindRelease}
}

// Session implements trial.Client.
func (c *ours) Session() string { return c.id.Load().(string) }

// Acquire implements trial.Client.
func (c *ours) Acquire(ctx context.Context, queue history.Queue, req trial.Request) (trial.Hold, error) {
	return trial.AcquireOurs(ctx, c.session, queue, req)
}

// Close implements trial.Client.
func (c *ours) Close() error { return errors.Join(c.session.Close(), c.close()) }
