package etcd

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/session/driver"
)

// flight counts the deletes that are under way, and lets them go when there are
// so many.
type flight struct {
	until int
	full  chan struct{}

	mu        sync.Mutex
	now, most int
}

func (f *flight) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if txn, ok := req.(*pb.TxnRequest); !ok || len(txn.Success) == 0 || txn.Success[0].GetRequestDeleteRange() == nil {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	f.mu.Lock()
	f.now++
	if f.now > f.most {
		if f.most = f.now; f.most == f.until {
			close(f.full)
		}
	}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.now--
		f.mu.Unlock()
	}()
	select {
	case <-f.full:
	case <-ctx.Done():
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// Of thousands that are sent at once most are not answered in the time of an
// attempt, and were sent again and again.
func TestEtcdDriverLeavesAreSentAsTheyCanBeAnswered(t *testing.T) {
	const atOnce, all = 256, 1000
	f := &flight{until: atOnce, full: make(chan struct{})}
	client := clientWith(t, etcdtest.New(t, nil), func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(f.unary))
	})
	l := lease(t, client, nil, 20*time.Second)
	var joined [all]driver.Joined
	for i := range all {
		joined[i] = l.join(t, fmt.Sprint("x", i))
	}

	var leaving sync.WaitGroup
	for _, j := range joined {
		leaving.Go(func() {
			_, err := l.Leave(t.Context(), driver.LeaveRequest{Ref: j.Entry.Ref})
			assert.NoError(t, err)
		})
	}
	leaving.Wait()

	assert.Equal(t, atOnce, f.most)
	assert.Zero(t, count(t, client, "fairlock/x"))
}
