package conntest_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/testnet"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
	"github.com/fairlock/fairlock/zktest"
)

func TestASessionSurvivesTheDeathOfItsServer(t *testing.T) {
	e := members(t, zktest.Options{})
	c := newClient(6*time.Second, e.Endpoints()...)
	c.cfg.TickTime = 100 * time.Millisecond
	c.open(t)
	leader, err := e.Leader(bounded(t))
	require.NoError(t, err)
	c.has(t, "/held")
	w, _ := c.watch(conn.WatchData, "/held")
	require.Equal(t, conn.Armed, w.next(t).Kind)

	e.Member(leader).Kill()
	a, err := c.Read(bounded(t), conn.Get("/held"))
	require.NoError(t, err)
	assert.Equal(t, c.Owner(), a[0].Stat.EphemeralOwner)
	_, err = c.Repeat(bounded(t), set("/held", []byte("x"), -1))
	require.NoError(t, err)
	assert.Empty(t, c.losses())
	kind := w.next(t).Kind
	assert.Contains(t, []conn.NoticeKind{conn.Lost, conn.Fired}, kind)
}

// TestNoChangeIsMissed: a watch is made again whenever it has fired or was lost, and a read follows
// each time, while connections are cut at random between three servers.
func TestNoChangeIsMissed(t *testing.T) {
	const changes, cuts = 400, 15
	e := members(t, zktest.Options{})
	admin := e.Client(t)
	_, err := admin.Create("/value", []byte("0"), 0, open)
	require.NoError(t, err)
	proxies := []*testnet.Proxy{proxyTo(t, e, 0), proxyTo(t, e, 1), proxyTo(t, e, 2)}
	c := newClient(calmTTL, proxies[0].Addr(), proxies[1].Addr(), proxies[2].Addr())
	c.cfg.TickTime = 100 * time.Millisecond
	c.open(t)

	wake := make(chan struct{}, 1)
	var arm func()
	var newest, read int // the newest value that a notice has shown, and that was read
	var mu sync.Mutex
	arm = func() {
		c.Watch(conn.WatchData, "/value", func(n conn.Notice) {
			if n.Kind != conn.Armed {
				arm() // before the worker reads
			} else {
				v, err := strconv.Atoi(string(n.Answer.Data))
				assert.NoError(t, err)
				mu.Lock()
				assert.GreaterOrEqual(t, v, newest, "a read is older than one before")
				newest = v
				mu.Unlock()
			}
			select {
			case wake <- struct{}{}:
			default:
			}
		})
	}
	arm()
	ctx, stop := context.WithCancel(bounded(t))
	var working sync.WaitGroup
	working.Go(func() {
		for read < changes && ctx.Err() == nil {
			select {
			case <-wake:
			case <-ctx.Done():
				return
			}
			mu.Lock()
			least := newest
			mu.Unlock()
			all, err := c.Read(ctx, conn.Get("/value"))
			if !assert.NoError(t, err) {
				return
			}
			v, err := strconv.Atoi(string(all[0].Data))
			assert.NoError(t, err)
			assert.GreaterOrEqual(t, v, max(least, read), "a read is older than a notice or read before it")
			read = v
		}
	})
	working.Go(func() {
		for i := range cuts {
			driver.Sleep(ctx, c.cfg.Clock, 30*time.Millisecond)
			proxies[i%3].Reset()
		}
	})
	for i := range changes {
		err := zk.ErrConnectionClosed
		for ctx.Err() == nil && errors.Is(err, zk.ErrConnectionClosed) { // of the library, on a busy machine
			_, err = admin.Set("/value", []byte(strconv.Itoa(i+1)), -1)
		}
		require.NoError(t, err)
	}
	working.Wait()
	stop()
	assert.Equal(t, changes, read)
}

func TestLoginsAndPermissions(t *testing.T) {
	e, _, root := shared(t)
	proxy := proxyTo(t, e, 0)
	c := newClient(calmTTL, proxy.Addr())
	c.cfg.Auth = func() []conn.Auth {
		return []conn.Auth{{Scheme: "digest", Credentials: []byte("ann:x")}, {Scheme: "digest", Credentials: []byte("bob:y")}}
	}
	c.open(t)
	acl := zk.DigestACL(zk.PermAll, "ann", "x")
	_, err := c.made(bounded(t), conn.Multi(&zk.CreateRequest{Path: root + "/a", Acl: acl}))
	require.NoError(t, err)
	for range 5 { // each connection shows them again
		proxy.Reset()
		all, err := c.Read(bounded(t), conn.Get(root+"/a"))
		require.NoError(t, err)
		require.NoError(t, all[0].Err)
	}

	stranger := newClient(calmTTL, e.Endpoints()...).open(t)
	all, err := stranger.Read(bounded(t), conn.Get(root+"/a"), conn.Exists(root+"/a"))
	require.NoError(t, err)
	require.ErrorIs(t, all[0].Err, zk.ErrNoAuth)
	require.NoError(t, all[1].Err)
	w, _ := stranger.watch(conn.WatchData, root+"/a")
	got := w.next(t)
	assert.Equal(t, conn.Refused, got.Kind)
	require.ErrorIs(t, got.Answer.Err, zk.ErrNoAuth)

	refused := newClient(calmTTL, e.Endpoints()...)
	refused.cfg.Auth = func() []conn.Auth { return []conn.Auth{{Scheme: "none", Credentials: []byte("secret")}} }
	_, err = conn.Open(bounded(t), refused.cfg)
	require.ErrorIs(t, err, driver.ErrDenied)
	require.ErrorIs(t, err, zk.ErrAuthFailed)
	assert.NotContains(t, err.Error(), "secret")
}

// TestAWipedServerDoesNotEndTheSession: it refuses a client that has seen more than it has. So the
// session ends with its deadline. Close learns nothing either: a leader that was deposed before the
// session began looks the same.
func TestAWipedServerDoesNotEndTheSession(t *testing.T) {
	e := zktest.New(t, nil)
	admin := e.Client(t)
	for range 20 { // so that the session begins later than what the wiped server has seen
		_, err := admin.Create("/before-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
	}
	c := newClient(shortTTL, e.Endpoints()...).open(t)
	c.has(t, "/a")
	e.Member(0).Kill()
	require.NoError(t, e.Member(0).Wipe())
	require.NoError(t, e.Member(0).Restart(bounded(t)))
	var err error
	for ctx := bounded(t); ctx.Err() == nil; { // until it has reached the new server
		_, err = c.Read(within(t, time.Second), conn.Get("/a"))
		require.ErrorIs(t, err, driver.ErrUnavailable)
		if strings.Contains(err.Error(), "its data is older") {
			break
		}
	}
	require.ErrorContains(t, err, "its data is older than what it showed before")
	err = c.Close(within(t, time.Second))
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "its data is older than what it showed before")
}
