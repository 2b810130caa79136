package etcd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/session/driver"
)

// A watch is kept for a while when nobody needs it, since somebody may again. One
// on a line would tell of everybody who comes and goes there, so it is kept until
// it tells something.
func TestEtcdDriverWatchOnALineTellsNobodyOnce(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	told := make(chan *pb.WatchResponse, 100)
	client := clientWith(t, cluster, func(cfg *clientv3.Config) {
		hookStreams(cfg, nil, func(_ grpc.ClientStream, m any) {
			if r, ok := m.(*pb.WatchResponse); ok && len(r.Events) > 0 {
				told <- r
			}
		})
	})
	l, other := lease(t, client, nil, 10*time.Second), lease(t, cluster.Client(t), nil, 10*time.Second)
	armed := make(chan struct{}, 1)
	cancel := l.Watch(driver.WatchRequest{Of: driver.OfAdmitted, Ref: driver.Ref{Line: "x"}}, func(driver.Event) { armed <- struct{}{} })
	<-armed

	cancel()
	other.leave(t, other.join(t, "x").Entry.Ref)
	assert.Len(t, (<-told).Events, 1, "the server did not know yet")
	// What the stream tells is taken in in order, and what it is asked for is done
	// in order: when the first of these stands it has been asked, when the second
	// does it knows.
	l.watch(t, driver.WatchRequest{Of: driver.OfLine, Ref: driver.Ref{Line: "z"}}).next(t, driver.Armed)
	line := l.watch(t, driver.WatchRequest{Of: driver.OfLine, Ref: driver.Ref{Line: "y"}})
	line.next(t, driver.Armed)
	for range 3 {
		other.leave(t, other.join(t, "x").Entry.Ref)
	}
	other.join(t, "y")
	line.next(t, driver.Changed)

	require.Len(t, told, 1)
	assert.Contains(t, string((<-told).Events[0].Kv.Key), "/y/")
}
