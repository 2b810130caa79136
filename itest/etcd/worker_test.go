package etcd

import (
	"context"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/itest/worker"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
)

// openWorker is the client of a process that package worker has started.
func openWorker(ctx context.Context, j worker.Job) (*worker.Client, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: j.Servers, DialTimeout: recipetest.Patience})
	if err != nil {
		return nil, err
	}
	s, err := etcdbackend.Open(ctx, client, &etcdbackend.Options{Root: j.Root, Session: session.Options{TTL: j.TTL}})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &worker.Client{
		Session: s, Close: client.Close,
		Guard: func(h *session.Hold) worker.Write {
			guard := etcdbackend.Guard(h)
			return func(ctx context.Context, key, value string) (bool, error) {
				return guarded(ctx, client, guard, key, value)
			}
		},
	}, nil
}

// guarded writes a key if the guard holds, and reports whether it did.
func guarded(ctx context.Context, client *clientv3.Client, guard []clientv3.Cmp, key, value string) (bool, error) {
	resp, err := client.Txn(ctx).If(guard...).Then(clientv3.OpPut(key, value)).Commit()
	if err != nil {
		return false, err
	}
	return resp.Succeeded, nil
}
