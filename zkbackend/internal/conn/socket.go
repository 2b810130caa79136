package conn

import (
	"bufio"
	"io"
	"net"
	"sync"
	"time"
)

// socket is the net.Conn of the client library. It calls the connection with each packet that passes, in both
// directions.
//
// A library gets one socket, on which the handshake is done already, and never reconnects. A reconnect of the
// library cannot be controlled from outside. It goes on with another session if the old one has expired, and
// sends there what was queued for the old one. It waits up to ten times its timeout for a silent server, and
// can block for ever when it repeats a login. Its first reply and its SetWatches are a data race.
//
// When the connection is down, one way to end the library leaves none of its goroutines waiting: its writes
// go on to succeed, and its read blocks, until it has written the request that ends a session. The order is:
//
//  1. The connection fails: down is closed. A Read that is under way returns from the network, or one begins.
//  2. Read closes quiet and blocks on ended. Nothing of the library decodes a reply from now on.
//  3. connection.free has waited for quiet, and calls the library's Close.
//  4. Close writes the request that ends a session. Write does not send it, and closes ended.
//  5. Read returns io.EOF, and the library's goroutines end.
type socket struct {
	net.Conn
	c  *connection
	in *bufio.Reader

	// ready is the rest of the packet that the library reads; at first, the answer to the handshake. Only
	// the library's receiving goroutine uses it.
	ready []byte

	// begun: the library has written its own handshake. Only its sending goroutine uses it.
	begun bool

	// quiet is closed when the connection is down, and the library waits in Read and decodes nothing.
	// ended is closed when the library has written its last request. quieten and end close them, once.
	quiet   chan struct{}
	ended   chan struct{}
	quieten func()
	end     func()
}

func newSocket(s net.Conn, c *connection, answer []byte) *socket {
	quiet, ended := make(chan struct{}), make(chan struct{})
	return &socket{
		Conn: s, c: c, in: bufio.NewReaderSize(s, 16<<10), ready: answer, quiet: quiet, ended: ended,
		quieten: sync.OnceFunc(func() { close(quiet) }), end: sync.OnceFunc(func() { close(ended) }),
	}
}

// Read implements net.Conn for the library's receiving goroutine. When that goroutine reads the next packet, it
// has finished with the last one. So Read first waits until the answer in that packet was delivered, which happens
// in another goroutine: this keeps answers and events in order.
func (s *socket) Read(p []byte) (int, error) {
	if len(s.ready) == 0 {
		s.c.settled()
		packet, err := readPacket(&pieces{r: s.in, c: s.c}, maxReply)
		if err != nil {
			s.c.fail(err)
		} else {
			s.c.replied(packet)
		}
		if isClosed(s.c.down) { // also if it was not the next reply: its request is not the first that is unanswered
			s.quieten()
			<-s.ended
			return 0, io.EOF
		}
		s.ready = packet
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// SetReadDeadline implements net.Conn. The library allows a fixed time for each packet, also for one that is
// still arriving. The session notices by itself that a connection is dead: see connection.silence.
func (s *socket) SetReadDeadline(time.Time) error { return nil }

// shortReply is longer than any answer to a ping. A server that answers only pings is of no use.
const shortReply = 4 << 10

// pieces is the reader of one packet. It reports each further piece of a long one, so that a reply which takes long
// to arrive is not taken for a silence.
type pieces struct {
	r    io.Reader
	c    *connection
	read int // how many bytes of the packet have come
}

func (p *pieces) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.read += n
	if p.read > shortReply {
		p.c.arriving()
	}
	return n, err //nolint:wrapcheck // the connection's own
}

// Write implements net.Conn for the library's sending goroutine, which writes one packet at a time. It never returns
// an error: the library would close the socket while it decodes a reply.
func (s *socket) Write(packet []byte) (int, error) {
	if !s.begun { // the library's handshake, which is not sent
		s.begun = true
		return len(packet), nil
	}
	if !isClosed(s.c.down) {
		if _, err := s.Conn.Write(s.c.written(packet)); err != nil {
			s.c.fail(err)
		}
	}
	_, op, ok := requestHeader(packet)
	if ok && op == opClose {
		s.end()
	}
	return len(packet), nil
}

// Close implements net.Conn. The library calls it when its receiving goroutine has ended, or never began. Its
// sending goroutine never calls it first, because no write returns an error.
func (s *socket) Close() error {
	s.c.fail(net.ErrClosed)
	s.quieten()
	s.end()
	return nil
}

// isClosed reports whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
