package demo

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/owner"
)

// etcdService is an etcd in this process, on a port of loopback, read with etcd's own
// client. Its events come from a watch, which misses no event.
type etcdService struct {
	cluster *etcdtest.Cluster
	client  *clientv3.Client
	prefix  string // of the queue's keys
}

func openEtcd(ctx context.Context, lock string) (service, error) {
	cluster, err := etcdtest.Start(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	client, err := cluster.NewClient(nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start etcd: %w", err), cluster.Close())
	}
	return &etcdService{cluster: cluster, client: client, prefix: etcdbackend.DefaultRoot + "/" + lock + "/"}, nil
}

func (s *etcdService) close() error {
	err := s.client.Close()
	if errors.Is(err, context.Canceled) { // the client returns it because it was closed
		err = nil
	}
	return errors.Join(err, s.cluster.Close())
}

func (s *etcdService) address() string { return s.cluster.Endpoints()[0] }

func (s *etcdService) follow(ctx context.Context, l listener) (run func(), err error) {
	events := s.client.Watch(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	select {
	case r := <-events:
		if err := r.Err(); err != nil {
			return nil, fmt.Errorf("watch the queue: %w", err)
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return func() {
		live := map[string]int64{} // the token of each key that exists; a key may be created again
		for r := range events {
			if err := r.Err(); err != nil && ctx.Err() == nil {
				l.fail(fmt.Errorf("watch the queue: %w", err))
				return
			}
			for _, ev := range r.Events {
				s.report(l, live, ev)
			}
		}
		if ctx.Err() == nil {
			l.fail(errors.New("watch the queue: it ended"))
		}
	}, nil
}

func (s *etcdService) report(l listener, live map[string]int64, ev *clientv3.Event) {
	key := string(ev.Kv.Key)
	switch {
	case key == s.endMark():
		if ev.IsCreate() {
			l.endMarked()
		}
	case ev.IsCreate():
		meta, _ := owner.DecodeMeta(ev.Kv.Value)
		live[key] = ev.Kv.CreateRevision
		l.created(entry{token: ev.Kv.CreateRevision, meta: meta})
	case ev.Type == clientv3.EventTypeDelete:
		l.deleted(live[key], ev.Kv.ModRevision)
		delete(live, key)
	}
}

func (s *etcdService) markEnd(ctx context.Context) error {
	_, err := s.client.Put(ctx, s.endMark(), "")
	if err == nil {
		_, err = s.client.Delete(ctx, s.endMark())
	}
	if err != nil {
		return fmt.Errorf("mark the end of the queue: %w", err)
	}
	return nil
}

func (s *etcdService) endMark() string { return s.prefix + "end" }

// first makes a linearizable read.
func (s *etcdService) first(ctx context.Context) (int64, error) {
	r, err := s.client.Get(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return 0, fmt.Errorf("read the first entry of the queue: %w", err)
	}
	if len(r.Kvs) == 0 {
		return 0, nil
	}
	return r.Kvs[0].CreateRevision, nil
}

func (s *etcdService) leftovers(ctx context.Context) (keys []string, leases int, err error) {
	r, err := s.client.Get(ctx, "", clientv3.WithFromKey(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, 0, fmt.Errorf("count what is left: %w", err)
	}
	l, err := s.client.Leases(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("count what is left: %w", err)
	}
	for _, kv := range r.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys, len(l.Leases), nil
}
