package conn

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/fairlock/fairlock/session/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handshakeAnswer is the answer to a handshake.
func handshakeAnswer(ttl time.Duration, id int64) []byte {
	return packet(0, int(ttl/time.Millisecond), id, "0123456789abcdef", byte(0))
}

func TestHeartbeatsRenewTheSession(t *testing.T) {
	scripted(t, &server{}, nil, func(t *testing.T, c *Session, r *reports) {
		for range 20 {
			time.Sleep(c.TTL() / 8)
			synctest.Wait()
			assert.LessOrEqual(t, c.cfg.Clock.Now().Sub(r.newest()), c.TTL()/8)
		}
		time.Sleep(c.TTL() / 20)
		c.Renew()
		synctest.Wait()
		assert.Equal(t, c.cfg.Clock.Now(), r.newest())
	})
}

// TestAHeartbeatIsTimedWhenItIsSent, and not when it was queued: so it proves more.
func TestAHeartbeatIsTimedWhenItIsSent(t *testing.T) {
	s := &server{}
	var slow atomic.Bool
	s.wire = func(_ string, client net.Conn) net.Conn { return slowWriter{client, &slow} }
	scripted(t, s, nil, func(t *testing.T, c *Session, r *reports) {
		slow.Store(true)
		var asking sync.WaitGroup
		asking.Go(func() { _, _ = c.Read(t.Context(), Get("/a")) })
		synctest.Wait()
		c.Renew()
		time.Sleep(250 * time.Millisecond)
		assert.Equal(t, c.cfg.Clock.Now().Add(-150*time.Millisecond), r.newest())
		slow.Store(false)
		asking.Wait()
	})
}

// slowWriter takes 100 ms for a packet while it is slow.
type slowWriter struct {
	net.Conn
	slow *atomic.Bool
}

func (c slowWriter) Write(p []byte) (int, error) {
	if c.slow.Load() {
		time.Sleep(100 * time.Millisecond)
	}
	return c.Conn.Write(p)
}

// TestASilentConnectionIsReplacedByOneToAnotherServer within a quarter of the TTL.
func TestASilentConnectionIsReplacedByOneToAnotherServer(t *testing.T) {
	s := &server{}
	var silent atomic.Bool
	s.serve = func(p *peer, _ request) bool { return silent.Load() && p.n == 1 }
	servers := func(c *Config) { c.Servers = []string{"one:1", "two:2"} }
	scripted(t, s, servers, func(t *testing.T, c *Session, r *reports) {
		silent.Store(true)
		began, before := time.Now(), r.count()
		_, err := c.Read(t.Context(), Get("/a"))
		require.NoError(t, err)

		assert.LessOrEqual(t, time.Since(began), c.TTL()/4+c.TTL()/16)
		addrs := s.addrs()
		require.Len(t, addrs, 2)
		assert.NotEqual(t, addrs[0], addrs[1])
		assert.Equal(t, before+1, r.count(), "nothing was renewed before")
		assert.Equal(t, c.cfg.Clock.Now(), r.newest(), "by the handshake")
		assert.Empty(t, r.losses())
	})
}

// TestALongReplyIsWaitedForAsLongAsItArrives: a listing may take longer than the time for which a
// connection may be silent, and than the library's timeout for a packet.
func TestALongReplyIsWaitedForAsLongAsItArrives(t *testing.T) {
	const pieces = 14
	s := &server{}
	s.serve = func(p *peer, r request) bool {
		if r.op() != opGet {
			return false
		}
		for piece := range slices.Chunk(packet(r.xid(), int64(1), 0, strings.Repeat("x", pieces<<12), make([]byte, 68)), 1<<12) {
			time.Sleep(s.ttl / 16)
			p.send(piece)
		}
		return true
	}
	scripted(t, s, nil, func(t *testing.T, c *Session, r *reports) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*s.ttl)
		defer cancel()
		a, err := c.Read(ctx, Get("/a"))
		require.NoError(t, err)

		assert.Len(t, a[0].Data, pieces<<12)
		assert.Len(t, s.addrs(), 1, "on the first connection")
		assert.Empty(t, r.losses())
	})
}

func TestASessionEndsWhenTheServiceHasEndedIt(t *testing.T) {
	for name, s := range map[string]struct {
		handshake func(n int, asked request) []byte
		serve     func(p *peer, r request) bool
		err       error
		gone      bool // it is certain that the service has it no more
	}{
		"a handshake that is refused": {
			handshake: func(n int, _ request) []byte {
				if n > 1 {
					return handshakeAnswer(0, 0)
				}
				return handshakeAnswer(8*time.Second, 7)
			},
			serve: func(p *peer, r request) bool { return r.op() == opGet && p.Close() == nil },
			err:   errExpired, gone: true,
		},
		"another session for ours": {
			handshake: func(n int, _ request) []byte { return handshakeAnswer(8*time.Second, int64(n)) },
			serve:     func(p *peer, r request) bool { return r.op() == opGet && p.Close() == nil },
			err:       errExpired, gone: true,
		},
		"a request that is refused": {
			serve: func(p *peer, r request) bool {
				if r.op() == opGet {
					p.send(refusal(r, -112))
				}
				return r.op() == opGet
			},
			gone: true,
		},
		"a shorter timeout": {
			handshake: func(n int, _ request) []byte { return handshakeAnswer(8*time.Second/time.Duration(n), 7) },
			serve:     func(p *peer, r request) bool { return r.op() == opGet && p.Close() == nil },
			err:       errShortened,
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := &server{handshake: s.handshake, serve: s.serve}
			scripted(t, srv, nil, func(t *testing.T, c *Session, r *reports) {
				noticed := 0
				c.Watch(WatchChildren, "/w", func(Notice) { noticed++ })
				synctest.Wait()
				_, err := c.Read(t.Context(), Get("/a"))
				require.ErrorIs(t, err, driver.ErrSessionOver)
				<-c.ctx.Done()
				_, err = c.Once(t.Context(), Get("/b"))
				require.ErrorIs(t, err, driver.ErrSessionOver)
				assert.NotErrorAs(t, err, new(*UnknownError))
				synctest.Wait()

				losses := r.losses()
				require.Len(t, losses, 1)
				if s.err != nil {
					require.ErrorIs(t, losses[0], s.err)
				}
				assert.Equal(t, s.gone, c.gone)
				assert.False(t, c.Go(func(context.Context) {}))
				sent := len(srv.requests())
				c.Watch(WatchData, "/b", func(Notice) { noticed++ })
				synctest.Wait()
				assert.Len(t, srv.requests(), sent)
				assert.LessOrEqual(t, noticed, 2, "Armed, and Lost perhaps")
			})
		})
	}
}

// TestARepeatThatMeetsTheEndOfTheSessionIsUnknown: the first server may have carried it out.
func TestARepeatThatMeetsTheEndOfTheSessionIsUnknown(t *testing.T) {
	s := &server{}
	s.serve = func(p *peer, r request) bool {
		switch {
		case r.op() != opExists:
			return false
		case p.n == 1:
			_ = p.Close()
		default:
			p.send(refusal(r, -112))
		}
		return true
	}
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		_, err := c.Repeat(t.Context(), Exists("/a"))
		require.ErrorIs(t, err, driver.ErrSessionOver)
		assert.ErrorAs(t, err, new(*UnknownError))
	})
}

// TestAStandaloneServerThatJoinsAnEnsembleEndsTheSession: the answers to its heartbeats are no
// renewals any more.
func TestAStandaloneServerThatJoinsAnEnsembleEndsTheSession(t *testing.T) {
	s := &server{}
	config := "version=0"
	s.ensemble = func() string { return config }
	s.serve = func(p *peer, r request) bool { return r.op() == opExists && p.Close() == nil }
	auto := func(c *Config) { c.Proof = ProofAuto }
	scripted(t, s, auto, func(t *testing.T, c *Session, r *reports) {
		assert.True(t, c.Standalone())
		_, _ = c.Once(t.Context(), Exists("/"))
		_, err := c.Read(t.Context(), Get("/"))
		require.NoError(t, err)
		config = "server.1=a:2888:3888:participant"
		_, _ = c.Once(t.Context(), Exists("/"))
		<-c.ctx.Done()
		synctest.Wait()
		require.Len(t, r.losses(), 1)
		assert.ErrorIs(t, r.losses()[0], errEnsemble)
	})
	scripted(t, s, auto, func(t *testing.T, c *Session, _ *reports) {
		assert.False(t, c.Standalone())
		assert.Equal(t, ProofSync, c.pace.proof)
	})
}

// TestARefusedLoginEndsOpenAndDelaysASession: one that was accepted before may be accepted again.
func TestARefusedLoginEndsOpenAndDelaysASession(t *testing.T) {
	s := &server{}
	var refuse atomic.Bool
	s.serve = func(p *peer, r request) bool {
		switch {
		case r.op() == opAuth && refuse.Load():
			p.send(refusal(r, -115))
			_ = p.Close()
			return true
		case r.op() == opExists:
			_ = p.Close()
			return true
		}
		return false
	}
	auth := func(c *Config) { c.Auth = func() []Auth { return []Auth{{"digest", []byte("a:b")}} } }
	scripted(t, s, auth, func(t *testing.T, c *Session, r *reports) {
		refuse.Store(true)
		_, _ = c.Once(t.Context(), Exists("/"))
		began := time.Now()
		time.AfterFunc(c.TTL(), func() { refuse.Store(false) })
		_, err := c.Read(t.Context(), Get("/"))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(began), c.TTL())
		assert.LessOrEqual(t, len(s.addrs()), 12, "it waits between the attempts")
		assert.Empty(t, r.losses())

		refuse.Store(true)
		cfg, _ := s.config()
		auth(&cfg)
		_, err = Open(t.Context(), cfg)
		require.ErrorIs(t, err, driver.ErrDenied)
		assert.NotContains(t, err.Error(), "a:b")
		refuse.Store(false)
	})
}

func TestOpenReturnsWhyThereIsNoSession(t *testing.T) {
	for name, c := range map[string]struct {
		handshake func(n int, asked request) []byte
		change    func(*Config)
		is        error
		text      string
	}{
		"no quorum": {
			handshake: func(int, request) []byte { return nil },
			is:        driver.ErrUnavailable, text: "no quorum",
		},
		"another protocol": {
			handshake: func(int, request) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") },
			is:        driver.ErrUnavailable, text: errHandshake.Error(),
		},
		"no TLS": {
			change: func(c *Config) {
				c.TLS = func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS13} }
				c.Dial = func(context.Context, string, string) (net.Conn, error) {
					client, own := net.Pipe()
					go func() {
						_, _ = own.Read(make([]byte, 1<<14))
						_ = own.Close()
					}()
					return client, nil
				}
			},
			is: driver.ErrUnavailable, text: "it speaks no TLS there, or it has too many connections from here",
		},
		"a short timeout": {
			handshake: func(int, request) []byte { return handshakeAnswer(time.Second, 7) },
			change: func(c *Config) {
				c.Proof, c.TickTime = ProofSync, 2*time.Second
			},
			is: driver.ErrRefused, text: "TickTime",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{handshake: c.handshake}
				cfg, _ := s.config()
				if c.change != nil {
					c.change(&cfg)
				}
				ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, errTest)
				defer cancel()
				_, err := Open(ctx, cfg)
				require.ErrorIs(t, err, c.is)
				require.ErrorContains(t, err, c.text)
				assert.Equal(t, errors.Is(c.is, driver.ErrUnavailable), strings.Contains(err.Error(), errTest.Error()))
			})
		})
	}
}

// TestOpenTriesAgain when a connection is lost that has just been made.
func TestOpenTriesAgain(t *testing.T) {
	s := &server{}
	s.serve = func(p *peer, r request) bool { return p.n < 6 && r.op() != opClose && p.Close() == nil }
	scripted(t, s, func(c *Config) { c.Proof = ProofAuto }, func(t *testing.T, c *Session, _ *reports) {
		_, err := c.Read(t.Context(), Get("/"))
		require.NoError(t, err)
	})
}

// TestCloseBelievesNoServerThatHasNotSeenTheSession: a leader that was deposed before the session began, and
// has not noticed, would answer that there is no such session. A server that is behind can end it all the same.
func TestCloseBelievesNoServerThatHasNotSeenTheSession(t *testing.T) {
	for name, change := range map[string]func(*Config){"session": nil, "observer": asObserver} {
		t.Run(name, func(t *testing.T) {
			const reconnected, behind = 2, 3
			var shown []int64
			s := &server{}
			s.handshake = func(n int, r request) []byte {
				zxid := int64(binary.BigEndian.Uint64(r[8:]))
				shown = append(shown, zxid)
				switch {
				case n == behind && zxid > 1:
					return nil
				case n == behind:
					return handshakeAnswer(0, 0)
				}
				return handshakeAnswer(10*time.Second, 7)
			}
			s.serve = func(p *peer, r request) bool { return p.n == 1 && r.op() == opGet && p.Close() == nil }
			scripted(t, s, change, func(t *testing.T, c *Session, _ *reports) {
				for range 5 {
					_, err := c.Read(t.Context(), Exists("/a"))
					require.NoError(t, err)
				}
				_, err := c.Read(t.Context(), Get("/a"))
				require.NoError(t, err)
				require.Len(t, s.addrs(), reconnected)

				require.NoError(t, c.Close(t.Context()))

				sent := s.requests()
				assert.Equal(t, int32(opClose), sent[len(sent)-1].op(), "the session has ended at the service")
				require.Len(t, shown, 4)
				assert.Greater(t, shown[reconnected-1], int64(2))
				assert.Equal(t, []int64{2, 2}, shown[behind-1:], "what the first answers have shown")
			})
		})
	}
}

// TestEachWayInLogsIn: that of Close, and that of an Open that cannot use its session. The server carries out nothing
// before a login, as with enforce.auth.enabled. A "no" ends the attempts.
func TestEachWayInLogsIn(t *testing.T) {
	s := &server{}
	loggedIn := map[*peer]bool{}
	var granted, wrong atomic.Bool
	s.handshake = func(int, request) []byte {
		if granted.Load() {
			return handshakeAnswer(time.Second, 7)
		}
		return handshakeAnswer(8*time.Second, 7)
	}
	s.serve = func(p *peer, r request) bool {
		switch {
		case r.op() == opAuth && wrong.Load():
			p.send(refusal(r, -115))
			return p.Close() == nil
		case r.op() == opAuth:
			loggedIn[p] = true
			return false
		case !loggedIn[p]:
			p.send(refusal(r, -124))
			return p.Close() == nil
		}
		return false
	}
	auth := func(c *Config) {
		c.Auth = func() []Auth { return []Auth{{"digest", []byte("a:b")}} }
		c.Servers = []string{"one:1", "two:2", "three:3"}
	}
	closed := func() (n int) {
		for _, r := range s.requests() {
			if r.op() == opClose {
				n++
			}
		}
		return n
	}
	for _, change := range []func(*Config){auth, func(c *Config) { auth(c); asObserver(c) }} {
		scripted(t, s, change, func(t *testing.T, c *Session, _ *reports) {
			dials, ends := len(s.addrs()), closed()
			require.NoError(t, c.Close(t.Context()))
			assert.Len(t, s.addrs(), dials+1)
			assert.Equal(t, ends+1, closed())
		})
	}
	synctest.Test(t, func(t *testing.T) { // the granted timeout is too short
		cfg, _ := s.config()
		auth(&cfg)
		cfg.Proof, cfg.TickTime = ProofSync, time.Second
		granted.Store(true)
		defer granted.Store(false)
		ends := closed()
		_, err := Open(t.Context(), cfg)
		require.ErrorIs(t, err, driver.ErrRefused)
		assert.Equal(t, ends+1, closed())
	})
	scripted(t, s, auth, func(t *testing.T, c *Session, _ *reports) {
		dials := len(s.addrs())
		wrong.Store(true)
		require.ErrorIs(t, c.Close(t.Context()), driver.ErrDenied)
		assert.Len(t, s.addrs(), dials+1, "another server would say the same")
	})
}

func TestCloseWaitsForTheGoroutinesOfGo(t *testing.T) {
	s := &server{}
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		ended := false
		require.True(t, c.Go(func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
		}))
		require.NoError(t, c.Close(t.Context()))
		assert.True(t, ended)
		sent := s.requests()
		assert.EqualValues(t, opClose, sent[len(sent)-1].op())
	})
}

// TestAttemptsPauseWhereAServerAnswersNothing: it accepts the session, and closes the connection.
func TestAttemptsPauseWhereAServerAnswersNothing(t *testing.T) {
	s := &server{}
	var closing atomic.Bool
	s.serve = func(p *peer, r request) bool { return closing.Load() && r.op() != opClose && p.Close() == nil }
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		closing.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := c.Read(ctx, Get("/a"))
		require.ErrorIs(t, err, driver.ErrUnavailable)
		assert.LessOrEqual(t, len(s.addrs()), 15)
		closing.Store(false)
		_, err = c.Read(t.Context(), Get("/a"))
		require.NoError(t, err)
	})
}
