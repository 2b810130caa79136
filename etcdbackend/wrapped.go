package etcdbackend

import (
	"context"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/fairlock/fairlock/session/driver"
)

// wrapped watches through the client's own Watcher, for clients whose parts
// were replaced: then only they know how keys are called. It knows nothing of
// the order between watches, does not notice silent connections, and costs
// three goroutines a watch. It is for those who need it.
type wrapped struct {
	dispatch
	s *leased
}

// stop implements watcher.
func (p *wrapped) stop() { p.close() }

// watch implements watcher.
func (p *wrapped) watch(req driver.WatchRequest, f func(driver.Event)) (cancel func()) {
	x := &sub{req: req, f: f}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return func() {}
	}
	// A metadata key of our own gives us a stream of our own, so that what is
	// refused to others on theirs does not end ours.
	ctx, stop := context.WithCancel(metadata.AppendToOutgoingContext(p.s.ctx, "fairlock-session", p.s.ID()))
	p.s.wg.Go(func() { // ends with cancel, Gone, or the session
		defer stop()
		p.follow(clientv3.WithRequireLeader(ctx), x)
	})
	return func() {
		p.mu.Lock()
		p.end(x)
		p.mu.Unlock()
		stop()
	}
}

// follow makes watches until one tells that the entry is gone.
func (p *wrapped) follow(ctx context.Context, x *sub) {
	t := p.s.target(x.req)
	opts := []clientv3.OpOption{clientv3.WithCreatedNotify()}
	if !t.puts {
		opts = append(opts, clientv3.WithFilterPut())
	}
	if t.wantsPrev() {
		opts = append(opts, clientv3.WithPrevKV())
	}
	key := x.req.Ref.Key // its own watch, where others have one for all own entries
	if t.ofLine() {
		key = t.key
		if t.end != "" {
			opts = append(opts, clientv3.WithRange(t.end))
		}
	}
	for fails := 0; ; fails++ {
		one, cancel := context.WithCancel(ctx)
		for resp := range p.s.b.client.Watch(one, key, opts...) {
			if resp.Err() != nil {
				break
			}
			fails = 0
			if resp.Created && !p.created(ctx, x, resp.Header.Revision) {
				break
			}
			for _, ev := range resp.Events {
				p.event(x, ev)
			}
			p.drain()
			if p.done(x) {
				break
			}
		}
		cancel()
		p.mu.Lock()
		p.put(x, driver.Broken, 0)
		p.mu.Unlock()
		p.drain()
		dead := p.done(x)
		d := 10 * time.Millisecond << min(fails, 6)
		if dead || !driver.Sleep(ctx, p.s.b.clock, d/2+rand.N(d/2)) {
			return
		}
	}
}

// created tells that the watch is armed, after reading the entry if that is to
// close the gap before. It says false if that did not succeed.
func (p *wrapped) created(ctx context.Context, x *sub, rev int64) bool {
	var changed int64
	ref, since := x.req.Ref, x.req.Since
	check := x.req.Of == driver.OfEntry && since != 0 && rev > since && rev > ref.Place
	if check {
		var at int64
		var err error
		if changed, at, err = p.s.alive(ctx, ref, rev); err != nil {
			return false
		}
		if changed == 0 {
			p.gone(x, at)
			return true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if x.req.Of != driver.OfEntry {
		p.put(x, driver.Armed, rev)
		return true
	}
	p.put(x, driver.Armed, x.armedAt(rev))
	if check && changed > since && changed > ref.Place {
		p.put(x, driver.Changed, changed)
	}
	return true
}

// event takes in one change.
func (p *wrapped) event(x *sub, ev *mvccpb.Event) {
	place := x.req.Ref.Place
	switch {
	case x.req.Of != driver.OfEntry:
		if concerns(x.req, ev) {
			p.mu.Lock()
			p.put(x, driver.Changed, ev.Kv.ModRevision)
			p.mu.Unlock()
		}
	case ev.Kv.ModRevision <= place:
	case ev.Type == mvccpb.Event_DELETE, ev.Kv.CreateRevision != place:
		p.gone(x, ev.Kv.ModRevision)
	default:
		p.mu.Lock()
		p.put(x, driver.Changed, ev.Kv.ModRevision)
		p.mu.Unlock()
	}
}

// done says that there is nothing more to tell.
func (p *wrapped) done(x *sub) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return x.dead || p.closed
}

// gone tells that the entry is no more.
func (p *wrapped) gone(x *sub, rev int64) {
	if x.req.Own {
		p.s.gone(x.req.Ref)
	}
	p.mu.Lock()
	p.put(x, driver.Gone, rev)
	p.mu.Unlock()
}
