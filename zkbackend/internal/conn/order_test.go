package conn

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// TestRequestsLeaveInTheOrderOfTheCalls: no request comes between those of one call of Read.
func TestRequestsLeaveInTheOrderOfTheCalls(t *testing.T) {
	const workers, each = 20, 10
	s := &server{}
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		var working sync.WaitGroup
		for w := range workers {
			working.Go(func() {
				for i := range each {
					name := fmt.Sprintf("/%d-%d", w, i)
					_, err := c.Read(t.Context(), Children(name+"/queue"), Get(name+"/limit"), Exists(name+"/holders"))
					assert.NoError(t, err)
				}
			})
		}
		working.Wait()

		sent := s.requests()
		require.Len(t, sent, 3*workers*each)
		for three := range slices.Chunk(sent, 3) {
			name := strings.TrimSuffix(three[0].path(), "/queue")
			assert.Equal(t, []string{name + "/queue", name + "/limit", name + "/holders"},
				[]string{three[0].path(), three[1].path(), three[2].path()})
			assert.Equal(t, []int32{opChildren2, opGet, opExists}, []int32{three[0].op(), three[1].op(), three[2].op()})
			assert.False(t, three[0].watches())
		}
	})
}

// TestAWatchIsSentBeforeTheReadBehindIt, also where the connection is lost in between.
func TestAWatchIsSentBeforeTheReadBehindIt(t *testing.T) {
	s := &server{}
	s.serve = func(p *peer, r request) bool {
		if p.n == 1 && r.op() != opSync {
			_ = p.Close()
			return true
		}
		return false
	}
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		armed := false
		c.Watch(WatchData, "/a", func(n Notice) { armed = n.Kind == Armed })
		_, err := c.Read(t.Context(), Get("/b"))
		require.NoError(t, err)

		assert.True(t, armed)
		sent := s.requests()
		last := sent[len(sent)-2:]
		assert.Equal(t, []string{"/a", "/b"}, []string{last[0].path(), last[1].path()})
		assert.True(t, last[0].watches())
		assert.False(t, last[1].watches())
	})
}

// TestEveryConnectionBeginsWithTheLoginsAndASync, and what is sent behind them waits for no answer.
func TestEveryConnectionBeginsWithTheLoginsAndASync(t *testing.T) {
	s := &server{}
	kept := map[int][]int32{}
	var held [][]byte
	s.serve = func(p *peer, r request) bool {
		kept[p.n] = append(kept[p.n], r.op())
		if p.n == 1 {
			return r.op() == opExists && p.Close() == nil
		}
		if held = append(held, answerTo(r, 9)); r.op() == opExists { // they come together
			p.send(held...)
		}
		return true
	}
	auth := func() []Auth { return []Auth{{"digest", []byte("a:b")}, {"digest", []byte("c:d")}} }
	scripted(t, s, func(c *Config) { c.Auth = auth }, func(t *testing.T, c *Session, _ *reports) {
		_, err := c.Read(t.Context(), Exists("/a"))
		require.NoError(t, err)

		assert.Equal(t, []int32{opAuth, opAuth, opSync, opExists}, kept[1])
		assert.Equal(t, []int32{opAuth, opAuth, opSync, opExists}, kept[2])
		s.serve = nil
	})
}

// TestAnEventBeforeTheAnswerIsNotLost: a server may send the event of a watch before the answer to
// the read of that watch.
func TestAnEventBeforeTheAnswerIsNotLost(t *testing.T) {
	s := &server{}
	s.serve = func(p *peer, r request) bool {
		if r.op() != opGet {
			return false
		}
		p.send(event(4, r.path()), event(3, r.path()), answerTo(r, 5), event(2, r.path()))
		return true
	}
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		var got []Notice
		c.Watch(WatchData, "/a", func(n Notice) { got = append(got, n) })
		synctest.Wait()

		require.Len(t, got, 2)
		assert.Equal(t, Armed, got[0].Kind)
		assert.Equal(t, "data", string(got[0].Answer.Data))
		assert.Equal(t, Notice{Kind: Fired, Event: zk.EventNodeDataChanged}, got[1])
	})
}

// TestAHandshakeShowsTheNewestEvent, so that a server that is behind it refuses the connection. Servers
// before 3.9 show no transaction with an event. The answer to a ping shows none that was delivered.
func TestAHandshakeShowsTheNewestEvent(t *testing.T) {
	for shown, want := range map[int64]int64{-1: 5, 0: 5, 4: 5, 80: 80} {
		var asked []int64
		s := &server{}
		s.handshake = func(_ int, r request) []byte {
			asked = append(asked, int64(binary.BigEndian.Uint64(r[8:])))
			return handshakeAnswer(8*time.Second, 7)
		}
		s.serve = func(p *peer, r request) bool {
			if p.n > 1 || r.op() != opGet {
				return false
			}
			p.send(answerTo(r, 5), packet(-2, int64(90), 0), packet(-1, shown, 0, 3, 3, r.path()))
			return p.Close() == nil
		}
		scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
			fired := false
			c.Watch(WatchData, "/a", func(n Notice) { fired = fired || n.Kind == Fired })
			synctest.Wait()

			assert.True(t, fired)
			assert.Equal(t, []int64{0, want}, asked)
		})
	}
}

// TestAnswersAndEventsAreDeliveredInTheirOrder, however many come at once.
func TestAnswersAndEventsAreDeliveredInTheirOrder(t *testing.T) {
	const rounds = 50
	s := &server{}
	var held [][]byte
	s.serve = func(p *peer, r request) bool {
		if r.op() != opGet {
			return false
		}
		if held = append(held, answerTo(r, 5), event(3, r.path())); len(held) == 2*rounds {
			p.send(held...)
		}
		return true
	}
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		var got []string
		for i := range rounds {
			path := fmt.Sprint("/", i)
			c.Watch(WatchData, path, func(n Notice) { got = append(got, fmt.Sprint(path, " ", n.Kind)) })
		}
		synctest.Wait()

		var want []string
		for i := range rounds {
			path := fmt.Sprint("/", i)
			want = append(want, fmt.Sprint(path, " ", Armed), fmt.Sprint(path, " ", Fired))
		}
		assert.Equal(t, want, got)
	})
}

func TestAReplyOutOfOrderEndsTheConnection(t *testing.T) {
	s := &server{}
	s.serve = func(p *peer, r request) bool {
		if r.op() != opGet || p.n > 1 {
			return false
		}
		p.send(packet(r.xid()+1, int64(0), 0, "data", make([]byte, 68)))
		return true
	}
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		all, err := c.Read(t.Context(), Get("/a"))
		require.NoError(t, err)
		assert.True(t, all[0].Repeated)
		assert.Len(t, s.addrs(), 2)
	})
}

// TestARequestWhoseReplyIsLeftOutIsSentAgain: a server that knows the session on another connection
// answers no write. It closes the connection, and may answer the request behind the write before that
// (FinalRequestProcessor and SessionMovedException of ZooKeeper 3.8).
func TestARequestWhoseReplyIsLeftOutIsSentAgain(t *testing.T) {
	s := &server{}
	s.serve = func(p *peer, r request) bool { return p.n == 1 && r.op() == opMulti }
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var writing sync.WaitGroup
		writing.Go(func() {
			a, err := c.Repeat(ctx, Multi(&zk.CheckVersionRequest{Path: "/", Version: -1}))
			assert.NoError(t, err)
			assert.True(t, a.Repeated)
		})
		synctest.Wait()
		_, err := c.Read(ctx, Get("/behind"))
		require.NoError(t, err)
		writing.Wait()
		assert.Len(t, s.addrs(), 2)
	})
}

// TestRequestsOfASessionHaveDifferentNumbers, also on different connections: a server in an ensemble finds
// the request that a commit belongs to by its session and its number.
func TestRequestsOfASessionHaveDifferentNumbers(t *testing.T) {
	s := &server{}
	s.serve = func(p *peer, r request) bool {
		return p.n < 4 && r.op() == opGet && r.path() == "/b" && p.Close() == nil
	}
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		all, err := c.Read(t.Context(), Get("/a"), Get("/b"))
		require.NoError(t, err)
		assert.Equal(t, "data", string(all[1].Data))
		require.Len(t, s.addrs(), 4)
		last := int32(0)
		for _, r := range s.requests() {
			assert.Greater(t, r.xid(), last, r.path())
			last = r.xid()
		}
	})
}

func TestAnOutcomeIsDoneOrNotOrUnknown(t *testing.T) {
	s := &server{}
	s.serve = func(p *peer, r request) bool {
		if p.n == 1 && r.op() == opMulti {
			_ = p.Close()
			return true
		}
		return p.n == 2 && r.op() != opClose // silent
	}
	check := Multi(&zk.CheckVersionRequest{Path: "/", Version: -1})
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		_, err := c.Once(t.Context(), check)
		var unknown *UnknownError
		require.ErrorAs(t, err, &unknown)
		require.ErrorIs(t, err, driver.ErrUnavailable)

		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errTest)
		defer cancel()
		began := time.Now()
		_, err = c.Once(ctx, check)
		assert.Equal(t, 50*time.Millisecond, time.Since(began))
		require.ErrorAs(t, err, &unknown)
		require.ErrorContains(t, err, errTest.Error())

		a, err := c.Repeat(t.Context(), check)
		require.NoError(t, err)
		assert.True(t, a.Repeated)
		assert.GreaterOrEqual(t, time.Since(began), s.ttl/4, "the connection was silent")
		assert.LessOrEqual(t, time.Since(began), s.ttl/4+s.ttl/16)
		assert.Len(t, s.addrs(), 3)
	})
}

// TestARequestThatWasNotSentIsNotUnknown: requests wait while there is no connection. If its context ends, a
// request is never sent.
func TestARequestThatWasNotSentIsNotUnknown(t *testing.T) {
	s := &server{}
	var down atomic.Bool
	s.handshake = func(n int, _ request) []byte {
		if down.Load() {
			return nil
		}
		return packet(0, int(s.ttl/time.Millisecond), int64(7), "0123456789abcdef", byte(0))
	}
	s.serve = func(p *peer, r request) bool { return r.op() == opGet && p.n == 1 && p.Close() == nil }
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		down.Store(true)
		var lost sync.WaitGroup
		lost.Go(func() {
			_, err := c.Read(t.Context(), Get("/first"))
			assert.NoError(t, err)
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Once(ctx, Multi(&zk.CheckVersionRequest{Path: "/", Version: -1}))
		require.ErrorIs(t, err, driver.ErrUnavailable)
		require.ErrorContains(t, err, "the server closed the connection", "why there was none")
		assert.NotErrorAs(t, err, new(*UnknownError))
		calls := 0
		cancelWatch := c.Watch(WatchData, "/b", func(Notice) { calls++ })
		cancelWatch()
		down.Store(false)
		lost.Wait()
		_, err = c.Read(t.Context(), Get("/last"))
		require.NoError(t, err)

		assert.Equal(t, []string{"/first", "/first", "/last"}, s.paths())
		assert.Zero(t, calls)
	})
}

func TestServerErrorsHaveValues(t *testing.T) {
	codes := map[string]int{"/none": -101, "/quota": -125, "/old": -6, "/local": -120, "/odd": -999}
	s := &server{}
	s.serve = func(p *peer, r request) bool {
		if r.op() != opGet {
			return false
		}
		code, ok := codes[r.path()]
		if !ok && p.n < 4 { // codes that another server may not return
			code, ok = []int{-127, -118, -7}[p.n-1], true
		}
		if ok {
			p.send(refusal(r, code))
		}
		return ok
	}
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		all, err := c.Read(t.Context(), Get("/none"), Get("/quota"), Get("/old"), Get("/local"), Get("/odd"))
		require.NoError(t, err)
		for i, want := range []error{zk.ErrNoNode, ErrQuota, ErrUnimplemented, ErrLocalSession, zk.ErrAPIError} {
			assert.ErrorIs(t, all[i].Err, want)
		}
		assert.Len(t, s.addrs(), 1)

		_, err = c.Read(t.Context(), Get("/busy"))
		require.NoError(t, err)
		assert.Len(t, s.addrs(), 4, "another connection for each")
	})
}

func TestATooLongReplyFailsOnlyItsRequest(t *testing.T) {
	s := &server{}
	s.serve = func(p *peer, r request) bool {
		if r.op() == opGet && r.path() == "/long" {
			p.send([]byte{127, 255, 255, 255, 0, 0, 0, 0})
			return true
		}
		return false
	}
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		var asking sync.WaitGroup
		asking.Go(func() {
			_, err := c.Read(t.Context(), Get("/long"))
			assert.ErrorIs(t, err, driver.ErrRefused)
			assert.ErrorContains(t, err, "too many children")
		})
		synctest.Wait()
		_, err := c.Read(t.Context(), Get("/short"))
		require.NoError(t, err)
		asking.Wait()
	})
}

// slowServer returns a server whose clients can be made to write slowly, and its first connection.
func slowServer() (s *server, slow *atomic.Bool, first func() *peer) {
	var peers atomic.Pointer[peer]
	s, slow = &server{}, new(atomic.Bool)
	s.wire = func(_ string, client net.Conn) net.Conn { return slowWriter{client, slow} }
	s.serve = func(p *peer, _ request) bool {
		peers.CompareAndSwap(nil, p)
		return false
	}
	return s, slow, peers.Load
}

// paths returns those of all requests that the server got.
func (s *server) paths() (all []string) {
	for _, r := range s.requests() {
		all = append(all, r.path())
	}
	return all
}

// TestTheOrderSurvivesTheConnection: requests that were sent, that the library has, and that wait are
// sent again in the order of the calls.
func TestTheOrderSurvivesTheConnection(t *testing.T) {
	s, slow, first := slowServer()
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		_, err := c.Read(t.Context(), Get("/"))
		require.NoError(t, err)
		slow.Store(true)
		var asking sync.WaitGroup
		for i := range 5 {
			asking.Go(func() { _, _ = c.Read(t.Context(), Get(fmt.Sprint("/", i))) })
			synctest.Wait()
		}
		_ = first().Close()
		slow.Store(false)
		asking.Wait()

		assert.Equal(t, []string{"/", "/0", "/1", "/2", "/3", "/4"}, s.paths())
	})
}

// TestARequestThatWasGivenUpIsNotSentLater: the library had it when the connection was lost, and had not sent it.
func TestARequestThatWasGivenUpIsNotSentLater(t *testing.T) {
	s, slow, first := slowServer()
	scripted(t, s, nil, func(t *testing.T, c *Session, _ *reports) {
		slow.Store(true)
		var asking sync.WaitGroup
		asking.Go(func() { _, _ = c.Read(t.Context(), Get("/a")) })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		asking.Go(func() {
			_, err := c.Once(ctx, Get("/given-up"))
			assert.ErrorIs(t, err, driver.ErrUnavailable)
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		_ = first().Close()
		slow.Store(false)
		asking.Wait()
		_, err := c.Read(t.Context(), Get("/b"))
		require.NoError(t, err)

		assert.Equal(t, []string{"/a", "/b"}, s.paths())
	})
}
