package etcdstand

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/fairlock/fairlock/bench/stand"
)

// bareRoot is the prefix of the queues of bare requests.
const bareRoot = "bare/"

// bare sends only the requests that a fair lock needs: a transaction that reads the last key of
// the queue and puts its own key behind it; if there was a last key, a watch on it and a read
// that shows whether it was deleted before; and a delete. A contender deletes its key only
// after it has acquired, so the delete is the grant of the next.
type bare struct {
	client *clientv3.Client
	lease  *concurrency.Session
}

// Lock implements stand.Contender.
func (b bare) Lock(ctx context.Context, name string) (func() error, error) {
	prefix := bareRoot + name + "/"
	key := fmt.Sprintf("%s%x", prefix, b.lease.Lease())
	last := clientv3.OpGet(prefix, append(clientv3.WithLastCreate(), clientv3.WithKeysOnly())...)
	r, err := b.client.Txn(ctx).Then(last, clientv3.OpPut(key, "", clientv3.WithLease(b.lease.Lease()))).Commit()
	if err != nil {
		return nil, fmt.Errorf("bare: join: %w", err)
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if len(kvs) > 0 {
		if err := b.deleted(ctx, string(kvs[0].Key), kvs[0].CreateRevision); err != nil {
			return nil, fmt.Errorf("bare: wait: %w", err)
		}
	}
	return func() error {
		_, err := b.client.Delete(context.WithoutCancel(ctx), key)
		return err
	}, nil
}

// deleted waits until the key that was created at a revision is deleted. The watch begins at
// the present revision, because the server brings a watch that begins in the past up to date
// only every 100 ms. A read after the watch has begun shows what happened before.
func (b bare) deleted(ctx context.Context, key string, created int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range b.client.Watch(ctx, key, clientv3.WithCreatedNotify(), clientv3.WithFilterPut()) {
		if err := r.Err(); err != nil {
			return err
		}
		if len(r.Events) > 0 {
			return nil
		}
		if !r.Created {
			continue
		}
		now, err := b.client.Get(ctx, key, clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		if len(now.Kvs) == 0 || now.Kvs[0].CreateRevision != created {
			return nil
		}
	}
	return errors.Join(ctx.Err(), errNoMore)
}

var errNoMore = errors.New("the watch has ended")

// bareParts returns the parts of a team of bare requests, made from those of the peer.
func bareParts(p stand.Parts, cs []*clientv3.Client) stand.Parts {
	p.QueueOf = func(name string) string { return bareRoot + name + "/" }
	p.Session = func(i int) (stand.Contender, func() error, error) {
		s, err := concurrency.NewSession(cs[i], concurrency.WithTTL(ttl))
		if err != nil {
			return nil, nil, fmt.Errorf("open a lease for bare requests: %w", err)
		}
		return bare{cs[i], s}, s.Close, nil
	}
	return p
}
