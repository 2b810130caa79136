package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/itest/worker"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/zkbackend"
)

// openWorker is the client of a process that package worker has started.
func openWorker(ctx context.Context, j worker.Job) (*worker.Client, error) {
	s, err := zkbackend.Open(ctx, j.Servers, &zkbackend.Options{Root: j.Root, Session: session.Options{TTL: j.TTL}})
	if err != nil {
		return nil, err
	}
	conn, _, err := zk.Connect(append(j.Servers, j.Servers...), time.Minute, zk.WithLogInfo(false), zk.WithEventCallback(func(zk.Event) {}))
	if err != nil {
		return nil, err
	}
	return &worker.Client{
		Session: s, Close: func() error { conn.Close(); return nil },
		Guard: func(h *session.Hold) worker.Write {
			guard := zkbackend.Guard(h)
			return func(_ context.Context, key, value string) (bool, error) { return guarded(conn, guard, key, value) }
		},
	}, nil
}

// guarded writes a node if the guard holds, and reports whether it did.
func guarded(conn *zk.Conn, guard []*zk.CheckVersionRequest, key, value string) (bool, error) {
	ops := []any{&zk.SetDataRequest{Path: key, Data: []byte(value), Version: -1}}
	for _, c := range guard {
		ops = append(ops, c)
	}
	_, err := conn.Multi(ops...)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, zk.ErrNoNode):
		return false, nil
	}
	return false, fmt.Errorf("guarded write: %w", err)
}
