package etcd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
)

func TestOwnEntriesOfAQueueShareAWatch(t *testing.T) {
	created := make(chan struct{}, 100)
	cluster := etcdtest.New(t, nil)
	client := clientWith(t, cluster, func(cfg *clientv3.Config) {
		hookStreams(cfg, nil, func(_ grpc.ClientStream, m any) {
			if r, ok := m.(*pb.WatchResponse); ok && r.Created {
				created <- struct{}{}
			}
		})
	})
	o, admin := open(t, client, nil, recipetest.EventTTL), cluster.Client(t)
	var watches []events
	var all []driver.Ref
	for range 10 {
		ref := o.put(t, "x")
		all, watches = append(all, ref), append(watches, o.watch(t, ref.Target()))
	}
	for i, ref := range all {
		watches[i].next(t, driver.Armed)
		if i%2 == 0 {
			o.leave(t, ref)
		} else {
			_, err := admin.Delete(t.Context(), ref.Key)
			require.NoError(t, err)
		}
		watches[i].next(t, driver.Gone)
	}
	assert.Len(t, created, 1)
}

// An entry that nothing has happened to since a Join or a Read has shown it is armed
// without a read.
func TestArmedCostsNoReadWhereNothingMoved(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	client, w := wired(t, cluster)
	holder, o := open(t, cluster.Client(t), nil, recipetest.EventTTL), open(t, client, nil, recipetest.EventTTL)
	holder.put(t, "x")
	var j driver.Joined
	sent, _ := w.requests(t, nil, func() {
		j = o.join(t, driver.JoinRequest{Queue: "x", Nearest: 2})
		own, ahead := o.watch(t, j.Entry.Target()), o.watch(t, j.View.Entries[0].Target())
		own.next(t, driver.Armed)
		ahead.next(t, driver.Armed)
	})
	assert.Equal(t, "T", kindsOf(sent))

	holder.put(t, "elsewhere")
	sent, _ = w.requests(t, nil, func() {
		k := o.join(t, driver.JoinRequest{Queue: "y", Mode: driver.Weighted, Weight: 1})
		holder.put(t, "elsewhere")
		all := []events{o.watch(t, k.Entry.Target()), o.watch(t, o.put(t, "z").Target())}
		for _, ch := range all {
			ch.next(t, driver.Armed)
		}
	})
	assert.LessOrEqual(t, len(sent), 4, "what moved is read, as far as it can be in one request")
}

// A watch on a whole queue is dropped at the first event that no caller wants.
func TestAQueueIsNotWatchedForNothing(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	reported := make(chan *pb.WatchResponse, 100)
	client := clientWith(t, cluster, func(cfg *clientv3.Config) {
		hookStreams(cfg, nil, func(_ grpc.ClientStream, m any) {
			if r, ok := m.(*pb.WatchResponse); ok && len(r.Events) > 0 {
				reported <- r
			}
		})
	})
	o, other := open(t, client, nil, recipetest.EventTTL), open(t, cluster.Client(t), nil, recipetest.EventTTL)
	armed := make(chan struct{}, 1)
	cancel := o.Watch(driver.Target{Kind: driver.OfHolders, Queue: "x"}, func(driver.Event) { armed <- struct{}{} })
	<-armed
	cancel()
	other.leave(t, other.put(t, "x"))
	assert.Len(t, (<-reported).Events, 1)
	// What the stream is asked for is done in order: when the second of these is armed,
	// the server has dropped the watch.
	o.watch(t, driver.Target{Kind: driver.OfQueue, Queue: "z"}).next(t, driver.Armed)
	queue := o.watch(t, driver.Target{Kind: driver.OfQueue, Queue: "y"})
	queue.next(t, driver.Armed)
	for len(reported) > 0 {
		<-reported
	}
	for range 3 {
		other.leave(t, other.put(t, "x"))
	}
	other.put(t, "y")
	queue.next(t, driver.Changed)
	require.Len(t, reported, 1)
	assert.Contains(t, string((<-reported).Events[0].Kv.Key), "/y/")
}

func TestASilentStreamIsGivenUp(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, &etcdtest.Options{Members: 3, Proxied: true})
	var member atomic.Uint64 // of the stream
	client := clientWith(t, cluster, func(cfg *clientv3.Config) {
		hookStreams(cfg, nil, func(_ grpc.ClientStream, m any) {
			if r, ok := m.(*pb.WatchResponse); ok {
				member.Store(r.Header.MemberId)
			}
		})
	})
	o, other := open(t, client, nil, recipetest.CalmTTL), open(t, cluster.Client(t), nil, recipetest.EventTTL)
	ref := other.put(t, "x")
	o.read(t, driver.ReadRequest{Queue: "x"})
	ahead := o.watch(t, ref.Target())
	ahead.next(t, driver.Armed)

	silent := 0
	for cluster.Member(silent).ID() != member.Load() {
		silent++
	}
	proxy := cluster.Member(silent).ClientProxy()
	proxy.Hold(fault.Both)
	ahead.next(t, driver.Lost)
	ahead.next(t, driver.Armed)
	assert.NotEqual(t, cluster.Member(silent).ID(), member.Load())
	proxy.Heal(fault.Both)
	assert.Empty(t, o.losses(), "renewals go over other endpoints")
	other.leave(t, ref)
	ahead.until(t, driver.Gone)
}

// slowed is a watch stream that is as if its member had stopped to follow the others.
type slowed struct {
	grpc.ClientStream
	behind int64 // the last revision that the member knows
}

func (s *slowed) RecvMsg(m any) error {
	for {
		err := s.ClientStream.RecvMsg(m)
		r, ok := m.(*pb.WatchResponse)
		if err != nil || !ok || len(r.Events) == 0 && r.Header.Revision <= s.behind {
			return err
		}
		if len(r.Events) == 0 {
			r.Header.Revision = s.behind
			return nil
		}
		r.Reset()
	}
}

func TestALaggingStreamIsReplaced(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.New(t, &etcdtest.Options{Members: 3})
	var streams atomic.Int64
	client := clientWith(t, cluster, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainStreamInterceptor(func(
			ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			s, err := open(ctx, d, cc, method, opts...)
			if method == pb.Watch_Watch_FullMethodName && streams.Add(1) == 1 {
				return &slowed{ClientStream: s, behind: 1}, err
			}
			return s, err
		}))
	})
	o := open(t, client, nil, recipetest.CalmTTL)
	holder := o.put(t, "x")
	begin := time.Now() // the stream, which opens now, is already behind the entry
	watch := o.watch(t, driver.Target{Kind: driver.OfQueue, Queue: "x"})
	watch.next(t, driver.Armed)

	o.leave(t, holder)
	watch.next(t, driver.Lost)
	watch.next(t, driver.Armed)
	assert.Greater(t, time.Since(begin), time.Second)
	assert.Empty(t, o.losses())
}

// A full connection makes the server report events late and out of order. Each of them
// is still true.
func TestBurstsLoseNoEvent(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{Proxied: true})
	o, other := open(t, cluster.Client(t), nil, recipetest.EventTTL), open(t, cluster.Client(t), nil, recipetest.EventTTL)
	const n = 300
	var all []events
	for range n {
		ref := other.put(t, "x")
		all = append(all, o.watch(t, ref.Target()))
	}
	for _, ch := range all {
		ch.next(t, driver.Armed)
	}
	proxy := cluster.Member(0).ClientProxy()
	proxy.Delay(fault.Replies, 20*time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), recipetest.Patience)
	defer cancel()
	require.NoError(t, other.Close(ctx))
	for _, ch := range all {
		ch.until(t, driver.Gone)
	}
	proxy.Heal(fault.Replies)
}
