package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// connection is one connection of a session, with a client library of its own on top. It is used
// once: when it is lost, the session makes another.
type connection struct {
	addr     string
	out      *outbox
	hello    handshake
	sent     driver.Instant // when the handshake was sent
	unproven bool           // ... which proves nothing by itself, see chain
	alone    bool           // what standalone has found on the first connection
	socket   *socket
	lib      *zk.Conn
	events   <-chan zk.Event // closed when the library has come to its end
	expired  func(error)

	zxid    atomic.Int64  // the newest transaction that the server has shown
	pending chan struct{} // of the receiving goroutine: the delivery of the last reply

	// Guarded by outbox.mu.
	urgent []*flight // not given to the library; they go before all that waits
	door   *flight   // given to the library, and not sent
	asked  []*flight // sent and not answered, in order
	active time.Time // when a reply came last, or began to be due
	served bool      // an answer was delivered

	calls   sync.WaitGroup // requests with the library
	failing sync.Once
	cause   error         // why it is down
	down    chan struct{} // it is of no use any more
	freed   chan struct{} // the library was told to end
}

// newConnection puts the client library on top of a socket on which the handshake was done.
func newConnection(s net.Conn, addr string, h handshake, out *outbox, event func(zk.Event), expired func(error)) *connection {
	c := &connection{
		addr: addr, out: out, hello: h, expired: expired, down: make(chan struct{}), freed: make(chan struct{}),
	}
	c.socket = newSocket(s, c, h.packet)
	c.out.mu.Lock() // nothing asks for lib before it is set
	defer c.out.mu.Unlock()
	c.lib, c.events, _ = zk.Connect([]string{addr}, h.ttl, // it fails only if the host provider does
		zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) { return c.socket, nil }),
		zk.WithHostProvider(&onlyHost{server: addr}), zk.WithEventCallback(event),
		zk.WithLogger(silent{}), zk.WithLogInfo(false),
		// A longer request does not fit, and is refused before it is sent.
		zk.WithMaxConnBufferSize(4+longestRequest), zk.WithMaxBufferSize(maxReply),
	)
	return c
}

// written is called with each packet that the library is about to send.
func (c *connection) written(packet []byte) []byte {
	xid, _, ok := requestHeader(packet)
	if !ok || xid < 0 { // a ping
		return packet
	}
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	f := c.door
	if f == nil {
		c.fail(errOrder)
		return packet
	}
	c.door, f.xid, f.size, f.sent = nil, xid, len(packet)-4, c.out.clock.Now()
	if len(c.asked) == 0 {
		c.active = time.Now()
	}
	c.asked = append(c.asked, f)
	c.out.next(c)
	if f.watched {
		return setWatch(packet)
	}
	return packet
}

// replied is called with the header of each reply, in the library's receiving goroutine. A server
// answers the requests of a connection in order.
func (c *connection) replied(h replyHeader) {
	if h.xid < 0 { // an event, or the answer to a ping
		return
	}
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if len(c.asked) == 0 || c.asked[0].xid != h.xid {
		c.fail(errOrder)
		return
	}
	c.active, c.pending = time.Now(), c.asked[0].delivered
	if h.zxid > c.zxid.Load() {
		c.zxid.Store(h.zxid)
	}
}

// settled waits until the answer in the last reply has been delivered. The receiving goroutine calls
// it before it takes in the next packet.
func (c *connection) settled() {
	if c.pending != nil {
		<-c.pending
		c.pending = nil
	}
}

// ask sends a request before all that waits, and waits for the answer.
func (c *connection) ask(ctx context.Context, req Request) (Answer, error) {
	f := newFlight(req, false)
	c.out.addTo(c, f)
	select {
	case a, ok := <-f.late:
		if !ok {
			return Answer{}, f.err
		}
		return a, a.Err
	case <-c.down:
		if driver.Incurable(c.cause) {
			return Answer{}, c.cause
		}
		return Answer{}, fmt.Errorf("%w: lost the connection at once: %w", driver.ErrUnavailable, c.cause)
	case <-ctx.Done():
		return Answer{}, ended(ctx, nil)
	}
}

// standalone reports whether the server is the only one of its service, by what it shows of its ensemble: a name
// may stand for many. What cannot be read is taken for an ensemble: that is the safe side.
func (c *connection) standalone(ctx context.Context) (bool, error) {
	a, err := c.ask(ctx, Get("/zookeeper/config"))
	if errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrSessionOver) || driver.Incurable(err) {
		return false, err
	}
	return err == nil && !strings.Contains(string(a.Data), "server."), nil
}

// prepare sends what comes first on a connection: the logins, and a Sync. It does not wait for the answers, since
// what is sent behind them is carried out behind them. If one of them is refused, the connection is lost.
func (c *connection) prepare(auth []Auth) {
	first := func(req Request, describe func(error) error) {
		c.out.addTo(c, &flight{Request: req, answered: func(a Answer, err error) {
			if err = errors.Join(err, a.Err); err != nil {
				c.fail(describe(err))
			}
		}})
	}
	for _, a := range auth {
		first(login(a), a.failed)
	}
	first(Sync(), func(err error) error { return fmt.Errorf("sync: %w", err) })
}

// failed adds to an error of which login it is, and whether the server refused it.
func (a Auth) failed(err error) error {
	if errors.Is(err, zk.ErrAuthFailed) {
		err = fmt.Errorf("%w: it was refused: %w", driver.ErrDenied, err)
	}
	return fmt.Errorf("login with scheme %q: %w", a.Scheme, err)
}

// silence returns for how long no reply has come while one was due. Requests are answered in order,
// so an answer that is late behind many others is no sign of trouble.
func (c *connection) silence() time.Duration {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if len(c.asked) == 0 {
		return 0
	}
	return time.Since(c.active)
}

// closedByServer reports whether the connection, which is down, was closed by the other side.
func (c *connection) closedByServer() bool {
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(c.cause, err) {
			return true
		}
	}
	return false
}

// fail takes the connection for lost and brings the library to its end. It does not wait for that,
// and takes no lock.
func (c *connection) fail(err error) {
	c.failing.Do(func() {
		c.cause = err
		close(c.down)
		cut(c.socket.Conn)
		go c.free()
	})
}

// free ends the library. It ends by itself: see socket.
func (c *connection) free() {
	defer close(c.freed)
	// Not while it takes in a reply: it would read a result and write it at the same time.
	<-c.socket.quiet
	c.out.mu.Lock() // lib is set
	lib := c.lib
	c.out.mu.Unlock()
	lib.Close()
}

// end takes the connection down and waits until nothing of it runs any more. It takes no time:
// nothing in it waits for the network.
func (c *connection) end(err error) {
	c.fail(err)
	<-c.freed
	for range c.events {
		continue // until it is closed
	}
	c.out.mu.Lock()   // whoever has not seen it down has added its call
	c.out.mu.Unlock() //nolint:staticcheck // see above
	c.calls.Wait()
}

// onlyHost knows one server, and lets the library rest if it asks for another.
type onlyHost struct {
	server string
	asked  bool
}

func (h *onlyHost) Init([]string) error { return nil }
func (h *onlyHost) Len() int            { return 1 }
func (h *onlyHost) Connected()          {}

func (h *onlyHost) Next() (server string, retryStart bool) {
	again := h.asked
	h.asked = true
	return h.server, again
}

// silent keeps the library from writing to the standard logger.
type silent struct{}

func (silent) Printf(string, ...any) {}
