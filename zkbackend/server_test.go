package zkbackend

import (
	"bufio"
	"context"
	"encoding/binary"
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

// The kinds of requests and the error codes of ZooKeeper that the tests name.
const (
	opDelete    = 2
	opExists    = 3
	opGet       = 4
	opSync      = 9
	opPing      = 11
	opMulti     = 14
	opContainer = 19
	opAuth      = 100
	opClose     = -11

	noNode     = -101
	noAuth     = -102
	nodeExists = -110
)

// request is a packet that a client has sent.
type request []byte

func (r request) number(at int) int32 { return int32(binary.BigEndian.Uint32(r[at:])) }
func (r request) xid() int32          { return r.number(4) }
func (r request) op() int32           { return r.number(8) }

// path returns the path of a request for one node, or of the first step of a transaction.
func (r request) path() string {
	at := 12
	if r.op() == opMulti {
		at += 9
	}
	return string(r[at+4:][:r.number(at)])
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

// server is a scripted standalone server. Its answer is called with each request but heartbeats,
// in the goroutine of the connection; it returns the reply, or nil to be silent, or hangUp.
type server struct {
	answer func(r request) []byte

	mu    sync.Mutex
	asked []request
}

// hangUp is the answer of a server that closes the connection.
var hangUp = []byte{}

// reply is the reply to a request, with an error code or the fields of the answer.
func reply(r request, code int, fields ...any) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(r.xid()))
	b = binary.BigEndian.AppendUint64(b, 1)
	return fieldsOf(append(b, encode(code)...), fields...)
}

// refuse is the reply to a transaction of which a step is refused.
func refuse(r request, step, code int) []byte {
	before := []any{-1, byte(0), 0, 0}
	return reply(r, 0, append(slices.Repeat(before, step), -1, byte(0), 0, code, -1, byte(1), -1)...)
}

func encode(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(int32(n))) }

// fieldsOf appends fields to a packet and puts its length in front.
func fieldsOf(b []byte, fields ...any) []byte {
	for _, f := range fields {
		switch v := f.(type) {
		case int:
			b = append(b, encode(v)...)
		case byte:
			b = append(b, v)
		case []byte:
			b = append(b, v...)
		case string:
			b = append(append(b, encode(len(v))...), v...)
		}
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func (s *server) dial(context.Context, string, string) (net.Conn, error) {
	client, own := net.Pipe()
	go s.run(own)
	return client, nil
}

func (s *server) run(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c) // so that a write of several packets does not wait for the replies
	asked, err := readRequest(in)
	if err != nil {
		return
	}
	_, _ = c.Write(fieldsOf(make([]byte, 4), 0, int(asked.number(16)), 0, 7, "0123456789abcdef", byte(0)))
	for {
		r, err := readRequest(in)
		if err != nil {
			return
		}
		var answer []byte
		switch op := r.op(); {
		case op == opSync:
			answer = reply(r, 0, "/")
		case op == opPing, op == opClose, op == opAuth:
			answer = reply(r, 0)
		case op == opGet && r.path() == "/zookeeper/config":
			answer = reply(r, 0, "version=0", make([]byte, 68))
		default:
			s.mu.Lock()
			s.asked = append(s.asked, r)
			s.mu.Unlock()
			answer = s.answer(r)
		}
		if answer != nil && len(answer) == 0 {
			return
		}
		if _, err := c.Write(answer); err != nil || r.op() == opClose {
			return
		}
	}
}

// backend returns a backend on the server.
func (s *server) backend(t *testing.T, root string) *backend {
	t.Helper()
	b, err := newBackend([]string{"server"}, &Options{Root: root, Dial: s.dial})
	require.NoError(t, err)
	return b
}

// config is that of a session with a TTL of 8 s.
func (s *server) config(b *backend) driver.Config {
	return driver.Config{
		TTL: 8 * time.Second, Margin: b.Info().Margin, Logger: slog.New(slog.DiscardHandler),
		Renewed: func(driver.Instant, time.Duration, time.Duration) {}, Gone: func(error) {},
	}
}

// scripted runs f with a session without a seal, in time that is virtual.
func scripted(t *testing.T, s *server, f func(t *testing.T, c *zkSession)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := s.backend(t, "/r")
		c, err := b.open(t.Context(), s.config(b), nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) }()
		f(t, c)
	})
}
