package onetcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// feed records all changes from revision 1 on, in the service's order. It watches every
// member, bypassing the proxies. So it continues while a member is down, and a compaction
// costs it no event: it requests no revision again that one member has already sent.
type feed struct {
	clients []*clientv3.Client
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu       sync.Mutex
	seen     int64 // the revision up to which all events were received
	err      error // events are missing
	advanced chan struct{}
	created  map[string]int64 // the create revisions of the existing entries
	queues   map[[2]string][]history.Change
	left     map[string]history.Instant
}

// follow starts a feed.
//
//nolint:contextcheck // it outlives the call; close ends it
func follow(cluster *etcdtest.Cluster) (*feed, error) {
	ctx, stop := context.WithCancel(context.Background())
	f := &feed{
		stop: stop, advanced: make(chan struct{}),
		seen:    1, // the revision of an empty store
		created: map[string]int64{}, queues: map[[2]string][]history.Change{}, left: map[string]history.Instant{},
	}
	for i := range members {
		c, err := cluster.NewClient(func(cfg *clientv3.Config) {
			cfg.Endpoints = []string{cluster.Member(i).Direct()}
			cfg.DialKeepAliveTime, cfg.DialKeepAliveTimeout = time.Second, time.Second
			cfg.DialOptions = append(cfg.DialOptions, fastReconnect())
		})
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.clients = append(f.clients, c)
		f.wg.Go(func() { f.watch(ctx, c) }) // ends with ctx
	}
	return f, nil
}

// watch watches one member until ctx ends.
func (f *feed) watch(ctx context.Context, c *clientv3.Client) {
	for ctx.Err() == nil {
		f.mu.Lock()
		from := f.seen + 1
		f.mu.Unlock()
		once, cancel := context.WithCancel(ctx)
		for r := range c.Watch(once, "", clientv3.WithPrefix(), clientv3.WithRev(from)) {
			if r.CompactRevision > 0 {
				f.compacted(r.CompactRevision)
			}
			if r.Err() != nil {
				break
			}
			f.apply(r.Events)
		}
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// compacted notes that a member has compacted the revisions before rev. Events are missing
// only if no other member had sent them.
func (f *feed) compacted(rev int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen < rev-1 && f.err == nil {
		f.err = fmt.Errorf("onetcd: compacted up to revision %d, and only %d was seen", rev, f.seen)
	}
}

// apply adds the events of a member that are new. A member sends all events of a revision
// at once.
func (f *feed) apply(events []*clientv3.Event) {
	now := trial.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.seen
	for _, ev := range events {
		if ev.Kv.ModRevision <= before {
			continue
		}
		f.seen = ev.Kv.ModRevision
		f.event(now, ev)
	}
	if f.seen > before {
		close(f.advanced)
		f.advanced = make(chan struct{})
	}
}

func (f *feed) event(now history.Instant, ev *clientv3.Event) {
	key := string(ev.Kv.Key)
	p, ok := parse(key)
	if !ok {
		return
	}
	deleted := ev.Type == clientv3.EventTypeDelete
	createRev := ev.Kv.CreateRevision
	if deleted {
		createRev = f.created[key]
		delete(f.created, key)
		f.left[key] = now
	} else if ev.Kv.Version == 1 {
		f.created[key] = createRev
		delete(f.left, key)
	}
	c, changed := p.change(ev.Kv.ModRevision, createRev, ev.Kv.Version, ev.Kv.Value, deleted)
	if changed {
		id := [2]string{p.lock, p.queue}
		c.Seen = now
		f.queues[id] = append(f.queues[id], c)
	}
}

// caughtUp waits until all events up to a revision were received.
func (f *feed) caughtUp(ctx context.Context, rev int64) error {
	for {
		f.mu.Lock()
		seen, err, advanced := f.seen, f.err, f.advanced
		f.mu.Unlock()
		switch {
		case err != nil:
			return err
		case seen >= rev:
			return nil
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return fmt.Errorf("onetcd: received revision %d, not %d: %w", seen, rev, ctx.Err())
		}
	}
}

func (f *feed) changes(lock, queue string) []history.Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queues[[2]string{lock, queue}]
}

func (f *feed) leftAt(entry string) history.Instant {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left[entry]
}

func (f *feed) close() error {
	f.stop()
	f.wg.Wait()
	var errs []error
	for _, c := range f.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
