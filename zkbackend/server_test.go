package zkbackend

import (
	"bufio"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/session/driver"
)

// The error codes of ZooKeeper.
const (
	noNode = -101
	noAuth = -102
)

// server is a scripted standalone server. Its answer is called with each request but heartbeats,
// in the goroutine of the connection; it returns the reply, or nil to be silent.
type server struct {
	answer func(f zkframe.Frame) []byte

	mu    sync.Mutex
	asked []zkframe.Frame
}

// reply is the reply to a request, with an error code or the fields of the answer.
func reply(f zkframe.Frame, code int, fields ...any) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(f.Xid()))
	b = binary.BigEndian.AppendUint64(b, 1)
	return fieldsOf(append(b, encode(code)...), fields...)
}

// refuse is the reply to a transaction of which one step is refused.
func refuse(f zkframe.Frame, step, code int) []byte {
	var fields []any
	for i := range f.Parts() {
		fields = append(fields, -1, byte(0), 0, map[bool]int{true: code}[i == step])
	}
	return reply(f, 0, append(fields, -1, byte(1), -1)...)
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
	asked, err := zkframe.Read(in)
	if err != nil {
		return
	}
	_, _ = c.Write(fieldsOf(make([]byte, 4), 0, int(asked.Number(16)), 0, 7, "0123456789abcdef", byte(0)))
	for {
		f, err := zkframe.Read(in)
		if err != nil {
			return
		}
		var answer []byte
		switch {
		case f.Op() == zkframe.OpSync:
			answer = reply(f, 0, "/")
		case f.Op() == zkframe.OpPing, f.Op() == zkframe.OpClose, f.Op() == zkframe.OpLogin:
			answer = reply(f, 0)
		case f.Op() == zkframe.OpGetData && f.Path() == "/zookeeper/config":
			answer = reply(f, 0, "version=0", make([]byte, 68))
		default:
			s.mu.Lock()
			s.asked = append(s.asked, f)
			s.mu.Unlock()
			answer = s.answer(f)
		}
		if _, err := c.Write(answer); err != nil || f.Op() == zkframe.OpClose {
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
		Renewed: func(driver.Instant, time.Duration) {}, Gone: func(error) {},
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
