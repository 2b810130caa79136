package conntest_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/metronome"
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

// TestASilentServerIsReplaced: the session goes on with another server in a quarter of its TTL.
func TestASilentServerIsReplaced(t *testing.T) {
	e, _, root := shared(t)
	const ttl = 12 * time.Second
	first, second := proxyTo(t, e, 0), proxyTo(t, e, 0)
	c := newClient(ttl, first.Addr(), second.Addr())
	c.cfg.Proof = conn.ProofPing
	c.open(t)
	used, other := first, second
	if second.Stats().Accepted > 0 {
		used, other = second, first
	}
	used.Hold(fault.Both)
	watch := metronome.Begin(t)
	done := make(chan error, 1)
	go func() {
		_, err := c.Repeat(bounded(t), create(root+"/a", nil, zk.FlagEphemeral))
		done <- err
	}()
	until(t, "a connection to the other server", func() bool { return other.Stats().Accepted > 0 })
	assert.Less(t, watch.Passed(), ttl/2)
	require.NoError(t, <-done)
	assert.Empty(t, c.losses())
	used.Heal(fault.Both)
}

func TestAnEndedSessionIsNotUsedAgain(t *testing.T) {
	e, admin, root := shared(t)
	proxy := proxyTo(t, e, 0)
	c, gone := mortal(t, admin, root+"/held", proxy.Addr())
	proxy.Hold(fault.Requests)
	var errs []error
	var mu sync.Mutex
	var asking sync.WaitGroup
	ask := func(name string) {
		asking.Go(func() {
			_, err := c.Once(bounded(t), create(root+"/"+name, nil, 0))
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	before := proxy.Stats().Requests.Waiting
	ask("inflight")
	until(t, "a request on its way", func() bool { return proxy.Stats().Requests.Waiting > before })
	proxy.Refuse(true)
	until(t, "no connection", func() bool { return proxy.Stats().Refused > 0 })
	ask("queued")
	deleted(t, gone)
	proxy.Refuse(false)
	proxy.Heal(fault.Both)
	asking.Wait()

	for _, err := range errs {
		require.Error(t, err)
	}
	assert.True(t, slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, driver.ErrSessionOver) }))
	for _, name := range []string{"inflight", "queued"} {
		there, _, err := admin.Exists(root + "/" + name)
		require.NoError(t, err)
		assert.False(t, there, name)
	}
	until(t, "the end of the session", func() bool { return len(c.losses()) == 1 })
}
