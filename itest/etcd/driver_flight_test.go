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
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session/driver"
)

// flight holds deletes back until so many of them are under way.
type flight struct {
	until int
	full  chan struct{}

	mu        sync.Mutex
	now, most int
}

func (f *flight) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if _, ok := req.(*pb.DeleteRangeRequest); !ok {
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
	case <-f.full: // also after the end of ctx: a busy machine may take longer to send so many
	case <-time.After(recipetest.Patience):
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// Of thousands that are sent at once most are not answered in the time of an attempt, and
// were sent again and again.
func TestLeavesAreSentAsTheyCanBeAnswered(t *testing.T) {
	const atOnce, all = 256, 1000
	f := &flight{until: atOnce, full: make(chan struct{})}
	client := clientWith(t, etcdtest.New(t, nil), func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(f.unary))
	})
	o := open(t, client, nil, recipetest.EventTTL)
	var made [all]driver.Ref
	for i := range all {
		made[i] = o.put(t, fmt.Sprint("x", i))
	}

	var leaving sync.WaitGroup
	for _, ref := range made {
		leaving.Go(func() {
			_, err := o.Leave(t.Context(), driver.LeaveRequest{Ref: ref})
			assert.NoError(t, err)
		})
	}
	leaving.Wait()

	assert.Equal(t, atOnce, f.most)
	assert.Zero(t, count(t, client, "fairlock/x"))
}
