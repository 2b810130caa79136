package conn

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// asObserver changes the Config of a test to that of an Observer.
func asObserver(c *Config) { c.Observer, c.TTL, c.Margin, c.Renewed = true, 0, nil, nil }

// TestAnObserverGetsAnotherSession when its own has expired, and never calls Renewed or Gone.
func TestAnObserverGetsAnotherSession(t *testing.T) {
	s := &server{}
	s.handshake = func(n int, asked request) []byte {
		if n == 2 {
			return handshakeAnswer(0, 0)
		}
		return handshakeAnswer(4*time.Second, int64(n))
	}
	s.serve = func(p *peer, r request) bool { return r.op() == opExists && p.Close() == nil }
	scripted(t, s, asObserver, func(t *testing.T, c *Session, r *reports) {
		assert.Equal(t, "0x1", c.ID())
		var kinds []NoticeKind
		c.Watch(WatchData, "/w", func(n Notice) { kinds = append(kinds, n.Kind) })
		_, _ = c.Once(t.Context(), Exists("/"))
		_, err := c.Read(t.Context(), Get("/"))
		require.NoError(t, err)
		assert.Equal(t, "0x3", c.ID())
		assert.Equal(t, []NoticeKind{Armed, Lost}, kinds)
		time.Sleep(c.TTL())
		assert.Empty(t, r.losses())
	})
}

// TestAnObserverGoesOnAfterTheServiceWentBack, when it was wiped or restored: its servers refuse a
// client that has seen more than they have, before they examine its session.
func TestAnObserverGoesOnAfterTheServiceWentBack(t *testing.T) {
	s := &server{}
	s.handshake = func(n int, asked request) []byte {
		zxid, id := binary.BigEndian.Uint64(asked[8:]), binary.BigEndian.Uint64(asked[20:])
		switch {
		case n > 1 && zxid > 0:
			return nil
		case n > 1 && id == 1:
			return handshakeAnswer(0, 0)
		}
		return handshakeAnswer(4*time.Second, int64(n))
	}
	s.serve = func(p *peer, r request) bool { return p.n == 1 && r.op() == opExists && p.Close() == nil }
	scripted(t, s, asObserver, func(t *testing.T, c *Session, _ *reports) {
		_, _ = c.Once(t.Context(), Exists("/"))
		ctx, cancel := context.WithTimeout(t.Context(), c.TTL()/2)
		defer cancel()
		_, err := c.Read(ctx, Get("/"))
		require.ErrorIs(t, err, driver.ErrUnavailable)
		assert.Equal(t, "0x1", c.ID(), "the server may be one that is only behind the others")

		ctx, cancel = context.WithTimeout(t.Context(), c.TTL())
		defer cancel()
		_, err = c.Read(ctx, Get("/"))
		require.NoError(t, err)
		assert.NotEqual(t, "0x1", c.ID())
	})
}
