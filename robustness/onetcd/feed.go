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

// feed is what has happened from revision 1 on, in the order of the store. It
// watches each member past its proxy, so that it goes on while one is away, and
// that a compaction takes nothing from it: what one member told is not asked of
// another again.
type feed struct {
	clients []*clientv3.Client
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu    sync.Mutex
	seen  int64 // the revision up to which all is known
	err   error // something is missing
	moved chan struct{}
	born  map[string]int64 // create revisions of the entries there are
	lines map[[2]string][]history.Change
	left  map[string]history.Instant
}

//nolint:contextcheck // it outlives the call; close ends it
func follow(cluster *etcdtest.Cluster) (*feed, error) {
	ctx, stop := context.WithCancel(context.Background())
	f := &feed{
		stop: stop, moved: make(chan struct{}),
		seen: 1, // that of an empty store; the first change is the next one
		born: map[string]int64{}, lines: map[[2]string][]history.Change{}, left: map[string]history.Instant{},
	}
	for i := range members {
		c, err := cluster.NewClient(func(cfg *clientv3.Config) {
			cfg.Endpoints = []string{cluster.Member(i).Direct()}
			cfg.DialKeepAliveTime, cfg.DialKeepAliveTimeout = time.Second, time.Second
			cfg.DialOptions = append(cfg.DialOptions, quickly())
		})
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.clients = append(f.clients, c)
		f.wg.Go(func() { f.watch(ctx, c) }) // ends with ctx
	}
	return f, nil
}

// watch follows one member, for as long as ctx lives.
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
			f.take(r.Events)
		}
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// compacted takes in that a member has forgotten what was before rev. It is no
// loss if another one told it.
func (f *feed) compacted(rev int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen < rev-1 && f.err == nil {
		f.err = fmt.Errorf("onetcd: compacted up to revision %d, and only %d was seen", rev, f.seen)
	}
}

// take takes in what a member tells. A member tells all of a revision at once.
func (f *feed) take(events []*clientv3.Event) {
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
		close(f.moved)
		f.moved = make(chan struct{})
	}
}

func (f *feed) event(now history.Instant, ev *clientv3.Event) {
	key := string(ev.Kv.Key)
	p, ok := parse(key)
	if !ok {
		return
	}
	deleted := ev.Type == clientv3.EventTypeDelete
	created := ev.Kv.CreateRevision
	if deleted {
		created = f.born[key]
		delete(f.born, key)
		f.left[key] = now
	} else if ev.Kv.Version == 1 {
		f.born[key] = created
		delete(f.left, key)
	}
	if c, ok := p.change(ev.Kv.ModRevision, created, ev.Kv.Version, ev.Kv.Value, deleted); ok {
		id := [2]string{p.lock, p.line}
		c.Seen = now
		f.lines[id] = append(f.lines[id], c)
	}
}

// caughtUp waits until all up to a revision is known.
func (f *feed) caughtUp(ctx context.Context, rev int64) error {
	for {
		f.mu.Lock()
		seen, err, moved := f.seen, f.err, f.moved
		f.mu.Unlock()
		switch {
		case err != nil:
			return err
		case seen >= rev:
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("onetcd: heard of revision %d, not of %d: %w", seen, rev, ctx.Err())
		}
	}
}

func (f *feed) line(lock, line string) []history.Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lines[[2]string{lock, line}]
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
