package etcd

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// joins cancels each join as soon as it is sent, and reports when it was settled.
type joins struct {
	cancel  context.CancelFunc // of the join that comes next; nil: joins are let through
	settled chan struct{}
}

func (j *joins) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	r, _ := req.(*pb.TxnRequest)
	fence := func(key []byte) bool { return strings.Contains(string(key), "/%fence/") }
	settles := len(r.GetSuccess()) == 1 && fence(r.GetSuccess()[0].GetRequestPut().GetKey())
	if !settles && len(r.GetCompare()) > 0 && fence(r.GetCompare()[0].GetKey()) && j.cancel != nil {
		j.cancel()
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	if settles && err == nil {
		j.settled <- struct{}{}
	}
	return err
}

// cancelledJoins: each wait is given up while its join is under way.
func cancelledJoins(t *testing.T) {
	cluster, direct, root := shared(t)
	j := &joins{settled: make(chan struct{}, 1000)}
	client := clientWith(t, cluster, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(j.unary))
	})
	c := newClient(t, root, recipetest.CalmTTL).open(t, client)
	held := newClient(t, root, recipetest.CalmTTL).open(t, direct).Lock(t, "x")
	for range 100 {
		ctx, cancel := context.WithCancel(hang.Context(t))
		j.cancel = cancel
		_, err := mutex.New(c.Session, "x").Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		hang.Receive(t, j.settled, "the join is settled")
	}
	left, err := direct.Get(recipetest.Bounded(t), root+"/%fence/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(t, err)
	assert.LessOrEqual(t, left.Count, int64(2), "of a join, and of the one before, which has not returned yet")
	recipetest.Unlock(t, held)
}
