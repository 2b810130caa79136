package onzk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/robustness/trial"
)

// open opens a client of a lock. The client owns n, which is closed if open fails. placeOf
// returns the places of entries, for locks that do not report them.
func open(ctx context.Context, lock string, n *network, placeOf func(string) int64) (trial.Client, error) {
	var c trial.Client
	var err error
	switch lock {
	case trial.Ours:
		c, err = openOurs(ctx, n)
	case Stock:
		c, err = openStock(ctx, n, placeOf, []zk.State{zk.StateDisconnected, zk.StateExpired})
	case StockCareless:
		c, err = openStock(ctx, n, placeOf, []zk.State{zk.StateExpired})
	default:
		err = fmt.Errorf("onzk: no lock %q", lock)
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return c, nil
}

// childArg is the client argument of trial.Spawn.
type childArg struct {
	Lock      string
	Endpoints *endpoints
}

// Open implements trial.Opener, for the processes that Service.Process starts.
func Open(ctx context.Context, arg json.RawMessage) (trial.Client, error) {
	var a childArg
	if err := json.Unmarshal(arg, &a); err != nil {
		return nil, fmt.Errorf("onzk: open: %w", err)
	}
	if err := a.Endpoints.load(); err != nil {
		return nil, err
	}
	n, err := newNetwork(a.Endpoints, nil, func(int64, string) {}) //nolint:contextcheck // it lives until Close
	if err != nil {
		return nil, err
	}
	operator, err := newAdmin(a.Endpoints) //nolint:contextcheck // it lives until close
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	placeOf := func(path string) int64 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), trial.TTL/2)
		defer cancel()
		return operator.czxid(ctx, path)
	}
	c, err := open(ctx, a.Lock, n, placeOf)
	if err != nil {
		operator.close()
		return nil, err
	}
	return &childClient{c, operator}, nil
}

// childClient is the client of a client process, with the admin that it closes too.
type childClient struct {
	trial.Client
	operator *admin
}

// Close implements trial.Client.
func (c *childClient) Close() error {
	err := c.Client.Close()
	c.operator.close()
	return err
}
