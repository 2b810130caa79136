package conntest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// TestCutConnectionsLoseNothing: workers create numbered nodes one after the other. The
// connection is cut after every fourth node, while other workers have requests under way.
// Every other time, the next connection is cut too, in its handshake. A second create settles
// an unknown outcome.
func TestCutConnectionsLoseNothing(t *testing.T) {
	const workers, each = 8, 30
	e, admin, root := shared(t)
	proxy := proxyTo(t, e, 0)
	c := newClient(calmTTL, proxy.Addr()).open(t)
	ctx, created := bounded(t), make(chan struct{})
	var unknown, repeated int
	var mu sync.Mutex
	var working, cutting sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			for i := range each {
				path := fmt.Sprintf("%s/%d-%d", root, w, i)
				again, err := c.made(ctx, create(path, nil, zk.FlagEphemeral))
				if again {
					mu.Lock()
					unknown++
					mu.Unlock()
				}
				assert.NoError(t, err)
				all, err := c.Read(ctx, conn.Children(root), conn.Get(path))
				if assert.NoError(t, err) {
					assert.NoError(t, all[1].Err)
					if all[0].Repeated || all[1].Repeated {
						mu.Lock()
						repeated++
						mu.Unlock()
					}
				}
				created <- struct{}{}
			}
		})
	}
	cutting.Go(func() {
		n := 0
		for range created {
			if n++; n%4 == 0 {
				proxy.Reset()
			}
			if n%8 == 0 {
				driver.Sleep(ctx, c.cfg.Clock, 2*time.Millisecond)
				proxy.Reset()
			}
		}
	})
	working.Wait()
	close(created)
	cutting.Wait()

	names, _, err := admin.Children(root)
	require.NoError(t, err)
	assert.Len(t, names, workers*each)
	assert.Empty(t, c.losses())
	t.Logf("%d creates of %d had an unknown outcome, %d reads were repeated", unknown, workers*each, repeated)
}

// TestAnAnswerNeverOvertakesAnEvent: the events that the server has sent before an answer are
// delivered before it, and the answer that arms a watch before its event.
func TestAnAnswerNeverOvertakesAnEvent(t *testing.T) {
	const rounds = 300
	e, _, root := shared(t)
	c := newClient(calmTTL, e.Endpoints()...).open(t)
	ctx := bounded(t)
	var mu sync.Mutex
	var got []conn.NoticeKind
	var arm func()
	arm = func() {
		c.Watch(conn.WatchData, root, func(n conn.Notice) {
			if n.Kind == conn.Fired {
				arm()
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, n.Kind)
		})
	}
	arm()
	_, err := c.Read(ctx, conn.Sync())
	require.NoError(t, err)
	for i := range rounds {
		// The server carries out the write, which fires the watch, and answers.
		_, err := c.Once(ctx, set(root, nil, -1))
		require.NoError(t, err)
		mu.Lock()
		require.GreaterOrEqual(t, len(got), 2*i+2, "the event is there")
		mu.Unlock()
		_, err = c.Read(ctx, conn.Get(root)) // behind the read that arms the watch again
		require.NoError(t, err)
		mu.Lock()
		require.Len(t, got, 2*i+3, "and the answer to that")
		mu.Unlock()
	}
	for i, kind := range got {
		require.Equal(t, []conn.NoticeKind{conn.Armed, conn.Fired}[i%2], kind)
	}
}
