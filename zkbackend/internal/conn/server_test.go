package conn

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// Kinds of requests.
const (
	opExists    = 3
	opGet       = 4
	opSync      = 9
	opChildren2 = 12
	opMulti     = 14
	opAuth      = 100
)

// request is a packet that a client has sent.
type request []byte

func (r request) xid() int32 { return int32(binary.BigEndian.Uint32(r[4:])) }
func (r request) op() int32  { return int32(binary.BigEndian.Uint32(r[8:])) }
func (r request) path() string {
	return string(r[16 : 16+binary.BigEndian.Uint32(r[12:])])
}
func (r request) watches() bool { return r[len(r)-1] == 1 }

// packet puts the length before fields.
func packet(fields ...any) []byte {
	b := make([]byte, 4)
	for _, f := range fields {
		switch v := f.(type) {
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(int32(v)))
		case int32:
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		case int64:
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		case string:
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
		case byte:
			b = append(b, v)
		case []byte:
			b = append(b, v...)
		}
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// answerTo is the usual answer to a request.
func answerTo(r request, zxid int64) []byte {
	stat := make([]byte, 68)
	switch r.op() {
	case opGet:
		return packet(r.xid(), zxid, 0, "data", stat)
	case opChildren2:
		return packet(r.xid(), zxid, 0, 0, stat)
	case opExists:
		return packet(r.xid(), zxid, 0, stat)
	case opSync:
		return packet(r.xid(), zxid, 0, "/")
	case opMulti: // of one check
		return packet(r.xid(), zxid, 0, 13, byte(0), 0, -1, byte(1), -1)
	}
	return packet(r.xid(), zxid, 0)
}

func refusal(r request, code int) []byte { return packet(r.xid(), int64(0), code) }

// event is the event of a watch.
func event(kind int, path string) []byte { return packet(-1, int64(-1), 0, kind, 3, path) }

// server is a scripted server. Its hooks are called in the goroutine of a connection.
type server struct {
	ttl       time.Duration
	handshake func(n int, asked request) []byte           // answers a handshake; nil: as usual
	serve     func(p *peer, r request) (answered bool)    // false: as usual; it does not get those for the configuration
	ensemble  func() string                               // the configuration; nil: of a standalone server
	wire      func(addr string, client net.Conn) net.Conn // what the client is given; nil: the same

	mu    sync.Mutex
	n     int // connections
	dials []string
	sent  []request // of all connections, without pings
}

// peer is the server's side of a connection.
type peer struct {
	net.Conn
	n    int // its number
	addr string
}

func (p *peer) send(packets ...[]byte) { _, _ = p.Write(slices.Concat(packets...)) }

func (s *server) dial(_ context.Context, _, addr string) (net.Conn, error) {
	pipe, own := net.Pipe()
	client := net.Conn(newBuffered(pipe))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.dials = append(s.dials, addr)
	go s.run(&peer{Conn: own, n: s.n, addr: addr})
	if s.wire != nil {
		client = s.wire(addr, client)
	}
	return client, nil
}

// buffered is the client's side of a pipe. What it writes does not wait for the reader, as a socket.
type buffered struct {
	net.Conn
	out  chan []byte
	over chan struct{}
	once sync.Once
}

func newBuffered(c net.Conn) *buffered {
	b := &buffered{Conn: c, out: make(chan []byte, 1000), over: make(chan struct{})}
	go func() {
		for {
			select {
			case p := <-b.out:
				_, _ = c.Write(p)
			case <-b.over:
				return
			}
		}
	}()
	return b
}

func (b *buffered) Write(p []byte) (int, error) {
	select {
	case <-b.over:
		return 0, net.ErrClosed
	case b.out <- slices.Clone(p):
		return len(p), nil
	}
}

func (b *buffered) Close() error {
	b.once.Do(func() { close(b.over) })
	return b.Conn.Close()
}

func (s *server) run(p *peer) {
	defer p.Close()
	asked, err := readRequest(p)
	if err != nil {
		return
	}
	answer := packet(0, int(s.ttl/time.Millisecond), int64(7), "0123456789abcdef", byte(0))
	if s.handshake != nil {
		if answer = s.handshake(p.n, asked); answer == nil {
			return
		}
	}
	p.send(answer)
	for zxid := int64(1); ; zxid++ {
		r, err := readRequest(p)
		if err != nil {
			return
		}
		if r.xid() == -2 {
			p.send(packet(-2, int64(0), 0))
			continue
		}
		if r.op() == opGet && r.path() == "/zookeeper/config" {
			config := "version=0"
			if s.ensemble != nil {
				config = s.ensemble()
			}
			p.send(packet(r.xid(), zxid, 0, config, make([]byte, 68)))
			continue
		}
		s.mu.Lock()
		s.sent = append(s.sent, r)
		s.mu.Unlock()
		if s.serve == nil || !s.serve(p, r) {
			p.send(answerTo(r, zxid))
		}
		if r.op() == opClose {
			return
		}
	}
}

func readRequest(r io.Reader) (request, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head))
	_, err := io.ReadFull(r, b)
	return append(head, b...), err
}

// requests returns what was sent, without heartbeats.
func (s *server) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.sent), func(r request) bool { return r.op() == opSync })
}

func (s *server) addrs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.dials)
}

// bubbleClock is the time of a synctest bubble.
type bubbleClock struct{ origin time.Time }

func (c bubbleClock) Now() driver.Instant { return driver.Instant(1 + time.Since(c.origin)) }
func (c bubbleClock) Wall() time.Time     { return time.Now() }
func (c bubbleClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// reports is what a session has reported.
type reports struct {
	mu       sync.Mutex
	renewals []driver.Instant
	gone     []error
}

func (r *reports) losses() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.gone)
}

func (r *reports) newest() driver.Instant {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.renewals[len(r.renewals)-1]
}

func (r *reports) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.renewals)
}

// config is that of a session on s.
func (s *server) config() (Config, *reports) {
	if s.ttl == 0 {
		s.ttl = 8 * time.Second
	}
	var r reports
	return Config{
		Servers: []string{"one:2181"}, Dial: s.dial, TTL: s.ttl, TickTime: 100 * time.Millisecond, Proof: ProofPing,
		Margin: func(ttl time.Duration) time.Duration { return ttl / 10 },
		Renewed: func(sent driver.Instant, _, _ time.Duration) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.renewals = append(r.renewals, sent)
		},
		Gone: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.gone = append(r.gone, err)
		},
		Logger: slog.New(slog.DiscardHandler), Clock: bubbleClock{time.Now()},
	}, &r
}

// scripted runs f with a session on a server, in time that is virtual. Nothing of the session is
// left when it has been closed: the bubble would not end.
func scripted(t *testing.T, s *server, change func(*Config), f func(t *testing.T, c *Session, r *reports)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg, r := s.config()
		if change != nil {
			change(&cfg)
		}
		c, err := Open(t.Context(), cfg)
		require.NoError(t, err)
		f(t, c, r)
		ctx, cancel := context.WithTimeout(context.Background(), s.ttl)
		defer cancel()
		_ = c.Close(ctx)
	})
}

var errTest = errors.New("the test has ended it")
