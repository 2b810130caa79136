package conntest_test

import (
	"context"
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

func TestARequestReturnsWithItsContextAndReportsTheOutcome(t *testing.T) {
	e, admin, root := shared(t)
	proxy := proxyTo(t, e, 0)
	c := newClient(calmTTL, proxy.Addr()).open(t)
	proxy.Hold(fault.Both)
	before := proxy.Stats().Requests.Waiting
	ctx, cancel := context.WithCancel(bounded(t))
	done := make(chan error, 1)
	go func() { // ends with ctx
		_, err := c.Once(ctx, create(root+"/a", nil, 0))
		done <- err
	}()
	const heartbeat = 40 // bytes, and more than it has
	until(t, "a request on its way", func() bool { return proxy.Stats().Requests.Waiting > before+heartbeat })
	watch := metronome.Begin(t)
	cancel()
	err := <-done
	assert.Less(t, watch.Passed(), 300*time.Millisecond)

	var unknown *conn.UnknownError
	require.ErrorAs(t, err, &unknown)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	proxy.Heal(fault.Both)
	until(t, "the node that was unknown", func() bool {
		there, _, err := admin.Exists(root + "/a")
		return err == nil && there
	})

	proxy.Refuse(true)
	proxy.Reset()
	until(t, "no connection", func() bool { return proxy.Stats().Refused > 0 })
	_, err = c.Once(within(t, 100*time.Millisecond), create(root+"/b", nil, 0))
	require.ErrorIs(t, err, driver.ErrUnavailable)
	assert.False(t, isUnknown(err), "it was not sent")
	proxy.Refuse(false)
	_, err = c.Once(bounded(t), create(root+"/b", nil, 0))
	require.NoError(t, err)
}

func TestWatchesSurviveConnectionsAsLost(t *testing.T) {
	e, admin, root := shared(t)
	proxy := proxyTo(t, e, 0)
	c := newClient(calmTTL, proxy.Addr()).open(t)
	w, _ := c.watch(conn.WatchData, root)
	require.Equal(t, conn.Armed, w.next(t).Kind)
	proxy.Reset()
	require.Equal(t, conn.Lost, w.next(t).Kind)

	proxy.Refuse(true)
	proxy.Reset()
	unsent, _ := c.watch(conn.WatchData, root)
	canceled, cancel := c.watch(conn.WatchData, root)
	cancel()
	_, err := admin.Set(root, []byte("meanwhile"), -1)
	require.NoError(t, err)
	proxy.Refuse(false)
	got := unsent.next(t)
	assert.Equal(t, conn.Armed, got.Kind)
	assert.Equal(t, "meanwhile", string(got.Answer.Data))
	assert.Empty(t, canceled)
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

// TestADeadlineIsBeforeTheServersOwn: no renewal promises more than the server keeps.
func TestADeadlineIsBeforeTheServersOwn(t *testing.T) {
	e, admin, root := shared(t)
	for name, dir := range map[string]fault.Direction{"requests": fault.Requests, "replies": fault.Replies, "both": fault.Both} {
		t.Run(name, func(t *testing.T) {
			proxy := proxyTo(t, e, 0)
			path := root + "/" + name
			c, gone := mortal(t, admin, path, proxy.Addr())
			time.Sleep(shortTTL / 2)
			proxy.Drop(dir)
			if dir == fault.Replies { // a handshake whose answer is lost extends the session
				until(t, "the deadline", func() bool { return c.cfg.Clock.Now() >= c.ends() })
				c.Abandon()
			}
			deleted(t, gone)
			end := c.cfg.Clock.Now()

			assert.Greater(t, end, c.ends())
			if dir == fault.Replies {
				return
			}
			proxy.Heal(fault.Both)
			proxy.Reset()
			until(t, "Gone", func() bool { return len(c.losses()) == 1 })
			_, err := c.Once(bounded(t), create(path, nil, 0))
			require.ErrorIs(t, err, driver.ErrSessionOver)
		})
	}
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

func TestCloseEndsTheSessionAndAbandonDoesNot(t *testing.T) {
	e, admin, root := shared(t)
	proxy := proxyTo(t, e, 0)
	held := func(name string) (*client, <-chan zk.Event) { return mortal(t, admin, root+"/"+name, proxy.Addr()) }
	there := func(name string) bool {
		there, _, err := admin.Exists(root + "/" + name)
		require.NoError(t, err)
		return there
	}

	c, _ := held("closed")
	require.NoError(t, c.Close(bounded(t)))
	assert.False(t, there("closed"))

	c, gone := held("abandoned")
	c.Abandon()
	deleted(t, gone)
	newest, _ := c.renewed()
	assert.Greater(t, c.cfg.Clock.Now(), newest.Add(shortTTL), "it has lived as long as its renewals promise")
	require.NoError(t, c.Close(bounded(t)), "there is no such session any more")

	c, _ = held("both")
	c.Abandon()
	require.NoError(t, c.Close(bounded(t)))
	assert.False(t, there("both"))

	c, gone = held("unreachable")
	proxy.Hold(fault.Both)
	watch := metronome.Begin(t)
	require.ErrorIs(t, c.Close(within(t, shortTTL/4)), driver.ErrUnavailable)
	assert.Less(t, watch.Passed(), shortTTL/2)
	deleted(t, gone)
	assert.Empty(t, c.losses())
	proxy.Heal(fault.Both)
}
