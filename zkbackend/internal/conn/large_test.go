package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// TestALargeRequestDoesNotEndConnectionsForEver: a server closes the connection on a request that is
// longer than its jute.maxbuffer.
func TestALargeRequestDoesNotEndConnectionsForEver(t *testing.T) {
	s := &server{}
	s.wire = func(_ string, client net.Conn) net.Conn { return resetting{client} }
	s.serve = func(p *peer, r request) bool {
		return len(r) > largeRequest && p.Close() == nil
	}
	large := func(n int) Request {
		return Multi(&zk.SetDataRequest{Path: "/a", Data: make([]byte, n), Version: -1})
	}
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		_, err := c.Repeat(t.Context(), large(100<<10))
		require.ErrorIs(t, err, driver.ErrRefused)
		require.ErrorContains(t, err, "jute.maxbuffer")
		time.Sleep(time.Second) // for the next connection
		assert.Len(t, s.addrs(), 1+maxCuts)
		_, err = c.Once(t.Context(), large(100<<10))
		require.ErrorIs(t, err, driver.ErrRefused)
		assert.ErrorAs(t, err, new(*UnknownError))

		_, err = c.Once(t.Context(), large(1<<20))
		require.ErrorIs(t, err, driver.ErrRefused)
		assert.NotErrorAs(t, err, new(*UnknownError), "no server takes it, so it was not sent")
		time.Sleep(time.Second)
		assert.Len(t, s.addrs(), 1+maxCuts+1)
		_, err = c.Once(t.Context(), Get("no path"))
		require.ErrorIs(t, err, driver.ErrRefused)
		_, err = c.Read(t.Context(), Get("/b"))
		require.NoError(t, err)
	})
}

// TestALargeRequestOnASlowNetworkDoesNotStarveTheOthers: it takes longer to send than a connection may be silent.
// Nor does the session reach its deadline: each new connection renews it.
func TestALargeRequestOnASlowNetworkDoesNotStarveTheOthers(t *testing.T) {
	for _, proof := range []Proof{ProofPing, ProofSync, ProofQuorum} {
		t.Run(fmt.Sprint(proof), func(t *testing.T) { largeOnSlowNetwork(t, proof) })
	}
}

func largeOnSlowNetwork(t *testing.T, proof Proof) {
	s := &server{}
	s.wire = func(_ string, client net.Conn) net.Conn { return slowUplink{client.(*buffered), s.ttl / 2} }
	scripted(t, s, func(c *Config) { c.Proof = proof }, func(t *testing.T, c *Session, r *reports) {
		time.Sleep(s.ttl - time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 2*s.ttl)
		defer cancel()
		var asking sync.WaitGroup
		refused := make(chan struct{})
		asking.Go(func() {
			for !isClosed(refused) {
				time.Sleep(s.ttl / 100)
				assert.Less(t, c.cfg.Clock.Now().Sub(r.newest()), s.ttl-c.cfg.Margin(s.ttl))
			}
		})
		asking.Go(func() {
			defer close(refused)
			_, err := c.Repeat(ctx, Multi(&zk.SetDataRequest{Path: "/a", Data: make([]byte, 100<<10), Version: -1}))
			assert.ErrorIs(t, err, driver.ErrRefused)
			assert.ErrorAs(t, err, new(*UnknownError))
			assert.ErrorContains(t, err, "the network too slow")
		})
		synctest.Wait()
		_, err := c.Read(ctx, Get("/b"))
		assert.NoError(t, err)
		asking.Wait()
		assert.Len(t, s.addrs(), 1+maxCuts)
		assert.Empty(t, r.losses())
	})
}

// slowUplink takes its time for each large packet.
type slowUplink struct {
	*buffered
	takes time.Duration
}

func (c slowUplink) Write(p []byte) (int, error) {
	if len(p) > largeRequest {
		select {
		case <-time.After(c.takes):
		case <-c.over:
			return 0, net.ErrClosed
		}
	}
	return c.buffered.Write(p)
}

// TestOnlyConnectionsInARowCount: a large request may be in flight when a connection ends for another reason.
func TestOnlyConnectionsInARowCount(t *testing.T) {
	s := &server{}
	s.wire = func(_ string, client net.Conn) net.Conn { return resetting{client} }
	s.serve = func(p *peer, r request) bool { return r.op() != opSync && r.op() != opClose && p.Close() == nil }
	large := Multi(&zk.SetDataRequest{Path: "/a", Data: make([]byte, 100<<10), Version: -1})
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		for range 2 * maxCuts {
			_, err := c.Once(t.Context(), large)
			require.ErrorIs(t, err, driver.ErrUnavailable)
			require.NotErrorIs(t, err, driver.ErrRefused)
			synctest.Wait()
			_, err = c.Once(t.Context(), Get("/b"))
			require.ErrorIs(t, err, driver.ErrUnavailable)
			synctest.Wait()
		}
	})
}

// resetting is a connection whose end by the other side is a reset.
type resetting struct{ net.Conn }

func (c resetting) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		err = syscall.ECONNRESET
	}
	return n, err
}
