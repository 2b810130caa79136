package concurrency

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	v3 "go.etcd.io/etcd/client/v3"
)

// observePause is the time between two attempts of Observe.
const observePause = 100 * time.Millisecond

// Observe returns a channel of the leader and its values, each as Leader returns it. Changes in
// quick succession may be left out, but the last one is always sent. Lost connections, compactions
// and members that are cut off from their peers do not end it, nor silence it: the channel is closed
// when ctx or the context of the client ends.
func (e *Election) Observe(ctx context.Context) <-chan *v3.GetResponse {
	ch := make(chan *v3.GetResponse)
	go e.observe(ctx, ch)
	return ch
}

func (e *Election) observe(ctx context.Context, ch chan<- *v3.GetResponse) {
	defer close(ch)
	ctx, cancel := context.WithCancel(v3.WithRequireLeader(ctx)) // else a member without a leader keeps the watch
	defer cancel()
	defer context.AfterFunc(e.s.client.Ctx(), cancel)() //nolint:contextcheck // it ends both
	o := &observer{client: e.s.client, pfx: e.pfx, ch: ch}
	for ctx.Err() == nil {
		if !o.follow(ctx) {
			select {
			case <-time.After(observePause):
			case <-ctx.Done():
			}
		}
	}
}

// observer is one Observe.
type observer struct {
	client *v3.Client
	pfx    string
	ch     chan<- *v3.GetResponse
	sent   int64 // the modify revision of what was sent last
}

// follow sends the leader and its values until that leader is gone, or waits for a leader if there
// is none. It reports whether the next read can show something new.
func (o *observer) follow(ctx context.Context) bool {
	resp, err := o.client.Get(ctx, o.pfx, v3.WithFirstCreate()...)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithCancel(ctx) // ends the watch
	defer cancel()
	if len(resp.Kvs) == 0 {
		for w := range o.client.Watch(ctx, o.pfx, v3.WithPrefix(), v3.WithRev(resp.Header.Revision+1)) {
			if w.Err() != nil {
				return false
			}
			if len(w.Events) > 0 {
				return true
			}
		}
		return false
	}
	if !o.send(ctx, resp) {
		return false
	}
	for w := range o.client.Watch(ctx, string(resp.Kvs[0].Key), v3.WithRev(resp.Header.Revision+1)) {
		if w.Err() != nil {
			return false
		}
		for _, ev := range w.Events {
			if ev.Type == mvccpb.Event_DELETE {
				return true
			}
			if !o.send(ctx, &v3.GetResponse{Header: w.Header, Kvs: []*mvccpb.KeyValue{ev.Kv}, Count: 1}) {
				return false
			}
		}
	}
	return false
}

// send sends what was not sent before. It returns false if ctx has ended.
func (o *observer) send(ctx context.Context, resp *v3.GetResponse) bool {
	if resp.Kvs[0].ModRevision == o.sent {
		return true
	}
	select {
	case o.ch <- resp:
		o.sent = resp.Kvs[0].ModRevision
		return true
	case <-ctx.Done():
		return false
	}
}
