package conn

import (
	"bufio"
	"io"
	"net"
	"sync"
)

// socket is the net.Conn that the client library is given. It shows its connection each packet that passes,
// in both directions.
//
// The library gets one socket in its life, on which the handshake has been done already. It never
// reconnects, because what it does then cannot be controlled from outside: it goes on with another session
// if the old one has expired, sends there what was queued for the old one, waits up to ten times its timeout
// for a silent server, can block for ever when it repeats a login, and has a data race between the first
// reply and its SetWatches.
//
// When the connection is down, the library is ended in the one way that leaves no goroutine of its waiting:
// its writes go on to succeed, and its read blocks, until it has written the request that ends a session.
type socket struct {
	net.Conn
	c  *connection
	in *bufio.Reader

	ready   []byte // of the packet that the library is reading; at first, the answer to the handshake
	greeted bool   // the library has written its own handshake

	quiet   chan struct{} // closed when the connection is down, and the library waits in Read, with nothing half done
	ended   chan struct{} // closed when the library has written its last request
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

// Read implements net.Conn for the library's receiving goroutine. When that asks for the next packet, it has
// done everything with the last one. So this is the place to wait until the goroutine of the request that was
// answered has delivered the answer: then answers and events are delivered in their order.
func (s *socket) Read(p []byte) (int, error) {
	if len(s.ready) == 0 {
		s.c.settled()
		packet, err := readPacket(s.in, maxReply)
		if err != nil {
			s.c.fail(err)
		}
		if isClosed(s.c.down) {
			s.quieten()
			<-s.ended
			return 0, io.EOF
		}
		s.c.replied(headerOf(packet))
		s.ready = packet
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// Write implements net.Conn for the library's sending goroutine, which writes one packet at a time.
func (s *socket) Write(packet []byte) (int, error) {
	if !s.greeted { // the handshake, which was done without it
		s.greeted = true
		return len(packet), nil
	}
	if !isClosed(s.c.down) {
		if _, err := s.Conn.Write(s.c.written(packet)); err != nil {
			s.c.fail(err)
		}
	}
	if _, op, ok := requestHeader(packet); ok && op == opClose {
		s.end()
	}
	return len(packet), nil
}

// Close implements net.Conn. The library calls it when its receiving goroutine has ended, or was never begun:
// the sending one sees no error that would make it call first.
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
