package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// leaderBytes counts the bytes of the answers to Leader, behind few candidates
// and behind many.
func leaderBytes(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	var bytes atomic.Int64
	client, err := cluster.NewClient(func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			err := invoke(ctx, method, req, reply, cc, opts...)
			bytes.Add(size(reply))
			return err
		}))
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	observer := newClient(t, "root", recipetest.CalmTTL).open(t, client)
	candidates := newClient(t, "root", recipetest.CalmTTL).open(t, cluster.Client(t))

	value := strings.Repeat("v", 1000)
	ctx, cancel := context.WithCancel(t.Context())
	campaigns := 0
	var over []chan struct{}
	campaign := func(n int) {
		for ; campaigns < n; campaigns++ {
			done := make(chan struct{})
			over = append(over, done)
			go func() {
				defer close(done)
				h, err := election.New(candidates.Session, "boss").Campaign(ctx, value)
				if err == nil {
					<-ctx.Done()
					assert.NoError(t, h.Unlock())
				}
			}()
		}
		recipetest.Until(t, fmt.Sprint(n, " candidates"), func() bool {
			all, err := candidates.Queue(recipetest.Bounded(t), "boss")
			require.NoError(t, err)
			return len(all) == n
		})
	}
	cost := func() int64 {
		before := bytes.Load()
		for range 10 {
			leader, err := election.New(observer.Session, "boss").Leader(recipetest.Bounded(t))
			require.NoError(t, err)
			require.Equal(t, value, leader.Value)
			require.Equal(t, candidates.Meta().PID, leader.Entry.Meta.PID)
		}
		return (bytes.Load() - before) / 10
	}
	campaign(2)
	few := cost()
	campaign(200)
	many := cost()
	t.Logf("Leader reads %d bytes among 2 candidates, %d among 200", few, many)
	assert.Less(t, many, few+100, "what the other candidates say is not read")
	cancel()
	for _, done := range over {
		<-done
	}
}

// size is the length of an answer.
func size(reply any) int64 {
	if m, ok := reply.(proto.Message); ok {
		return int64(proto.Size(m))
	}
	return int64(reply.(interface{ Size() int }).Size())
}
