// Package zklocks has the locks that programs build on ZooKeeper with its client alone.
package zklocks

import (
	"context"
	"errors"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/robustness/designs/lock"
)

// Root is the node above the locks.
const Root = "/designs"

// conn is a client whose session may end.
type conn struct {
	zk *zk.Conn

	mu   sync.Mutex
	over chan struct{} // closed when the session ends
}

// dial connects, by a function that gets the callback of the states of the connection.
func dial(connect func(onEvent func(zk.Event)) (*zk.Conn, error)) (*conn, error) {
	c := &conn{over: make(chan struct{})}
	var err error
	c.zk, err = connect(func(e zk.Event) {
		if e.Type == zk.EventSession && e.State == zk.StateExpired {
			c.mu.Lock()
			defer c.mu.Unlock()
			close(c.over)
			c.over = make(chan struct{})
		}
	})
	return c, err
}

// lost returns a channel that is closed when the session of now ends.
func (c *conn) lost() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// Close implements lock.Locker.
func (c *conn) Close() error {
	c.zk.Close()
	return nil
}

// hold is a node of this session.
type hold struct {
	c    *conn
	path string
	over <-chan struct{}
}

// Lost implements lock.Lossy: the session has expired. A client that is cut off learns that when it reaches a
// server again.
func (h *hold) Lost() <-chan struct{} { return h.over }

// Unlock implements lock.Hold. The client of ZooKeeper takes no context.
func (h *hold) Unlock(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- h.c.zk.Delete(h.path, -1) }() // ends with the connection
	select {
	case err := <-done:
		if errors.Is(err, zk.ErrNoNode) {
			return lock.ErrLost
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ephemeral is one ephemeral node: the program that creates it holds, and all others watch it. It is the first
// example of many introductions, also for the election of a leader.
type Ephemeral struct{ *conn }

// OpenEphemeral connects a client of Ephemeral.
func OpenEphemeral(connect func(onEvent func(zk.Event)) (*zk.Conn, error)) (lock.Locker, error) {
	c, err := dial(connect)
	return &Ephemeral{c}, err
}

// Lock implements lock.Locker.
func (l *Ephemeral) Lock(ctx context.Context, name string) (lock.Hold, error) {
	path := Root + "/" + name
	for ctx.Err() == nil {
		over := l.lost()
		_, err := l.zk.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		if err == nil {
			return &hold{l.conn, path, over}, nil
		}
		if !errors.Is(err, zk.ErrNodeExists) {
			return nil, err
		}
		there, _, gone, err := l.zk.ExistsW(path)
		if err != nil {
			return nil, err
		}
		if there {
			select {
			case <-gone:
			case <-ctx.Done():
			}
		}
	}
	return nil, ctx.Err()
}
