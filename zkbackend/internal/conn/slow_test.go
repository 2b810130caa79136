package conn

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// TestALargeRequestOnASlowNetworkEndsNoSession: it takes longer to send than a connection may be silent, so each
// connection ends. But each begins with a heartbeat, which goes before the request, so the session never reaches its
// deadline.
func TestALargeRequestOnASlowNetworkEndsNoSession(t *testing.T) {
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
		over := make(chan struct{})
		asking.Go(func() {
			for !isClosed(over) {
				time.Sleep(s.ttl / 100)
				assert.Less(t, c.cfg.Clock.Now().Sub(r.newest()), s.ttl-c.cfg.Margin(s.ttl))
			}
		})
		_, err := c.Repeat(ctx, Multi(&zk.SetDataRequest{Path: "/a", Data: make([]byte, 100<<10), Version: -1}))
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.ErrorAs(t, err, new(*UnknownError))
		_, err = c.Read(t.Context(), Get("/b"))
		require.NoError(t, err)
		close(over)
		asking.Wait()
		assert.Empty(t, r.losses())
	})
}

// slowUplink takes its time for each large packet.
type slowUplink struct {
	*buffered
	takes time.Duration
}

func (c slowUplink) Write(p []byte) (int, error) {
	if len(p) > 64<<10 {
		select {
		case <-time.After(c.takes):
		case <-c.over:
			return 0, net.ErrClosed
		}
	}
	return c.buffered.Write(p)
}

// TestARequestThatTheLibraryRefusesIsNotSent, and the requests behind it are.
func TestARequestThatTheLibraryRefusesIsNotSent(t *testing.T) {
	scripted(t, &server{}, nil, func(t *testing.T, c *Session, _ *reports) {
		_, err := c.Once(t.Context(), Get("no path"))
		require.ErrorIs(t, err, driver.ErrRefused)
		assert.NotErrorAs(t, err, new(*UnknownError))
		_, err = c.Read(t.Context(), Get("/b"))
		require.NoError(t, err)
	})
}
