package etcd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/etcdtest"
)

// reads sees what is read, and can do something before it is.
type reads struct {
	longest atomic.Int64 // answer, in keys
	before  func()
}

func (r *reads) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if asked, ok := req.(*pb.RangeRequest); ok && asked.Revision != 0 && r.before != nil {
		r.before()
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	if told, ok := reply.(*pb.RangeResponse); ok && err == nil {
		r.longest.Store(max(r.longest.Load(), int64(len(told.Kvs))))
	}
	return err
}

// Thousands who join at once are slow, and answers come too late. If each of them
// then read the whole line, nothing else would be done any more.
func TestEtcdDriverALostAnswerIsNotALongerOne(t *testing.T) {
	const others = 40 // more than are read at once, see fullDepth
	for name, compacted := range map[string]bool{"as it was": false, "compacted": true} {
		t.Run(name, func(t *testing.T) {
			cluster := etcdtest.New(t, nil)
			admin := cluster.Client(t)
			r := &reads{}
			client, f := faultyClient(t, cluster, r.unary)
			for i := range others {
				_, err := admin.Put(t.Context(), fmt.Sprintf("fairlock/x/%d", i), "")
				require.NoError(t, err)
			}
			if compacted {
				r.before = func() {
					r.before = nil
					now, err := admin.Get(t.Context(), "x")
					assert.NoError(t, err)
					_, err = admin.Compact(t.Context(), now.Header.Revision)
					assert.NoError(t, err)
				}
			}
			l := lease(t, client, nil, 5*time.Second)

			f.lose.Store(1)
			j := l.join(t, "x")

			assert.Equal(t, others, j.Ahead)
			assert.Equal(t, others+1, count(t, admin, "fairlock/x/"))
			if !compacted {
				assert.LessOrEqual(t, r.longest.Load(), int64(1))
			} else {
				assert.Nil(t, r.before, "what was before the join could not be read")
			}
		})
	}
}
