package etcd

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/recipes/election"
	"github.com/fairlock/fairlock/recipes/recipetest"
)

// leaderBytes counts the bytes of the answers to Leader, with few candidates
// and with many.
func leaderBytes(t *testing.T) {
	cluster := etcdtest.New(t, nil)
	client, w := wired(t, cluster)
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
					recipetest.Unlock(t, h)
				}
			}()
		}
		candidates.Queued(t, "boss", n)
	}
	cost := func() int {
		_, got := w.requests(t, nil, func() {
			for range 10 {
				leader, err := election.New(observer.Session, "boss").Leader(recipetest.Bounded(t))
				require.NoError(t, err)
				require.Equal(t, value, leader.Value)
				require.Equal(t, os.Getpid(), leader.Entry.PID)
			}
		})
		return bytesOf(got) / 10
	}
	campaign(2)
	few := cost()
	campaign(200)
	many := cost()
	t.Logf("Leader reads %d bytes among 2 candidates, %d among 200", few, many)
	assert.Less(t, many, few+100, "the values of the other candidates are not read")
	cancel()
	for _, done := range over {
		<-done
	}
}
