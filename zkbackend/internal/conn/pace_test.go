package conn

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// hangsUp is a server that can be made to end each connection, in one of several ways.
type hangsUp struct {
	server

	mu     sync.Mutex
	way    string // "" for a server that is well
	dialed []time.Time
}

// The ways in which a server ends connections.
func hangUps() []string {
	return []string{"refused", "accepted and closed", "closed after the handshake", "closed after an answer"}
}

func newHangsUp() *hangsUp {
	s := &hangsUp{}
	s.server.handshake = func(int, request) []byte {
		if s.is("accepted and closed") {
			return nil
		}
		return handshakeAnswer(s.ttl, 7)
	}
	s.server.serve = func(p *peer, r request) bool {
		switch {
		case r.op() == opClose:
			return false
		case s.is("closed after an answer"):
			p.send(answerTo(r, 1))
			return p.Close() == nil
		}
		return s.is("closed after the handshake") && p.Close() == nil
	}
	return s
}

func (s *hangsUp) is(way string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.way == way
}

func (s *hangsUp) become(way string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.way, s.dialed = way, nil
}

func (s *hangsUp) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	s.mu.Lock()
	s.dialed = append(s.dialed, time.Now())
	s.mu.Unlock()
	if s.is("refused") {
		return nil, errors.New("connection refused")
	}
	return s.server.dial(ctx, network, addr)
}

// attempts returns how many attempts were made, from some time after the server changed until another.
func (s *hangsUp) attempts(begin time.Time, from, to time.Duration) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.dialed {
		if d := at.Sub(begin); d >= from && d < to {
			n++
		}
	}
	return n
}

// TestASessionMakesAtMostOneAttemptASecondAtServersThatHangUp: a thousand sessions would keep such a server from
// recovering. The first attempt comes at once, at each server, and the first after a success too.
func TestASessionMakesAtMostOneAttemptASecondAtServersThatHangUp(t *testing.T) {
	for _, way := range hangUps() {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHangsUp()
				s.ttl = 15 * time.Second
				cfg, _ := s.config()
				cfg.Dial, cfg.Servers = s.dial, []string{"one:1", "two:2", "three:3"}
				c, err := Open(t.Context(), cfg)
				require.NoError(t, err)
				reset := func(way string) (begin time.Time) {
					time.Sleep(time.Second)
					s.become(way)
					c.Watch(WatchData, "/a", func(Notice) {}) // a request, which the server meets in its way
					if way == "refused" || way == "accepted and closed" {
						c.out.mu.Lock()
						on := c.out.on
						c.out.mu.Unlock()
						on.fail(errTest)
					}
					return time.Now()
				}
				for range 2 {
					begin := reset(way)
					time.Sleep(time.Minute + 10*time.Second)
					assert.GreaterOrEqual(t, s.attempts(begin, 0, time.Millisecond), 3, "each server is tried at once")
					got := s.attempts(begin, 10*time.Second, 70*time.Second)
					assert.LessOrEqual(t, got, 60)
					assert.GreaterOrEqual(t, got, 40, "and none waits for long")
					s.become("")
					_, err = c.Read(t.Context(), Get("/a"))
					require.NoError(t, err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), s.ttl)
				defer cancel()
				assert.NoError(t, c.Close(ctx))
			})
		})
	}
}

// TestAShortSessionGetsItsAttempts: a pause is never so long that the session expires meanwhile.
func TestAShortSessionGetsItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHangsUp()
		s.ttl = 2 * time.Second
		cfg, _ := s.config()
		cfg.Dial = s.dial
		c, err := Open(t.Context(), cfg)
		require.NoError(t, err)
		time.Sleep(s.ttl)
		s.become("refused")
		c.out.on.fail(errTest)
		begin := time.Now()
		time.Sleep(10 * s.ttl)
		assert.GreaterOrEqual(t, s.attempts(begin, 9*s.ttl, 10*s.ttl), 5)
		s.become("")
		time.Sleep(s.ttl)
		assert.NoError(t, c.Close(t.Context()))
	})
}

// TestOpenMakesAtMostOneAttemptASecond where no session can be lost meanwhile.
func TestOpenMakesAtMostOneAttemptASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHangsUp()
		s.ttl = 2 * time.Second
		s.become("accepted and closed")
		cfg, _ := s.config()
		cfg.Dial = s.dial
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		_, err := Open(ctx, cfg)
		require.ErrorIs(t, err, driver.ErrUnavailable)
		assert.LessOrEqual(t, s.attempts(begin, 10*time.Second, time.Minute), 50)
	})
}
