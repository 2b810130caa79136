package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// connection is one connection of a session, with a client library of its own on top. It is used
// once: when it is lost, the session makes another.
//
// Its life:
//
//	connect      handshake, newConnection, prepare: logins and a Sync go out first
//	keepAlive    heartbeats go out, and the requests that wait
//	fail         the first trouble: down is closed, and no request is sent any more
//	end          waits until no goroutine of it runs
//	takeBack     decides about the requests that it had
type connection struct {
	addr string
	out  *outbox

	// granted is what the server has answered to the handshake, and sent is when that was sent. The
	// identity in it is complete when connect has returned.
	granted handshake
	sent    driver.Instant

	// unproven: the handshake renews nothing before a heartbeat behind it is answered, see chain.
	unproven bool

	// alone is, on the first connection of a session, what standalone has returned.
	alone bool

	socket  *socket
	lib     *zk.Conn
	events  <-chan zk.Event // closed when the library has come to its end
	expired func(error)     // is called when the server reports that the session has expired

	// zxid is the newest transaction that the server has shown. It only rises, and begins with what the
	// connection before has shown: the handshake requires that.
	zxid atomic.Int64

	// pending is closed when the last reply was delivered; nil if it was. Only the receiving goroutine
	// uses it.
	pending chan struct{}

	// The next six are guarded by outbox.mu.

	// urgent are requests of the connection itself, which are sent before those that wait.
	urgent []*flight

	// unsent is the one that the library has, and that has not left at the socket. It is nil in between.
	unsent *flight

	// unanswered were sent and not answered, in order. The next reply is to the first of them.
	unanswered []*flight

	// active is when the last reply came, or a piece of one, or the next began to be due. It counts only
	// while requests are unanswered.
	active time.Time

	// served: an answer was delivered. used: one to a request that is not of the connection itself. By
	// these, run decides whether the connection was of use, so that the next one is made at once.
	served bool
	used   bool

	// calls are the goroutines of requests that the library has: see outbox.exchange.
	calls sync.WaitGroup

	// cause is why the connection is down. It is set once, before down is closed, and read only after.
	failing sync.Once
	cause   error

	// down is closed when the connection is of no use any more, and freed when the library's Close has
	// returned.
	down  chan struct{}
	freed chan struct{}
}

// newConnection starts a client library on a socket on which the handshake was done.
func newConnection(s net.Conn, addr string, h handshake, out *outbox, event func(zk.Event), expired func(error)) *connection {
	c := &connection{
		addr: addr, out: out, granted: h, expired: expired, down: make(chan struct{}), freed: make(chan struct{}),
	}
	c.socket = newSocket(s, c, h.packet)
	c.out.mu.Lock() // free waits until lib is set
	defer c.out.mu.Unlock()
	c.lib, c.events, _ = zk.Connect([]string{addr}, h.ttl, // it fails only if the host provider does
		zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) { return c.socket, nil }),
		zk.WithHostProvider(&onlyHost{server: addr}), zk.WithEventCallback(event),
		zk.WithLogger(silent{}), zk.WithLogInfo(false),
		// The library refuses a request that does not fit, before it sends anything.
		zk.WithMaxConnBufferSize(4+longestRequest), zk.WithMaxBufferSize(maxReply),
	)
	return c
}

// written is called with each packet that the library is about to send, and returns the packet to send. A ping
// goes as it is. The packet of a request gets another number: the library begins with 1 on each connection, and a
// server in an ensemble finds the request that a commit belongs to by its session and its number alone
// (CommitProcessor of ZooKeeper), so it would answer a request of this connection with the result of an older one.
func (c *connection) written(packet []byte) []byte {
	xid, _, ok := requestHeader(packet)
	if !ok || xid < 0 { // a ping
		return packet
	}
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	f := c.unsent
	if f == nil {
		c.fail(errOrder)
		return packet
	}
	c.out.xid = (c.out.xid + 1) & math.MaxInt32
	c.unsent = nil
	f.xid = c.out.xid
	f.libXid = xid
	f.sent = c.out.clock.Now() // before the packet leaves: the server cannot have it earlier
	if len(c.unanswered) == 0 {
		c.active = time.Now()
	}
	c.unanswered = append(c.unanswered, f)
	c.out.next(c)
	packet = slices.Clone(packet)
	setXid(packet, f.xid)
	if f.watched {
		setWatch(packet)
	}
	return packet
}

// replied is called with each reply, in the library's receiving goroutine. A server answers the requests of a
// connection in order, so the reply is to the first request that is unanswered. It gets the library's number.
func (c *connection) replied(packet []byte) {
	h := headerOf(packet)
	if h.xid < 0 { // an event, or the answer to a ping
		if h.xid == xidEvent {
			c.shown(h.zxid)
		}
		return
	}
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if len(c.unanswered) == 0 || c.unanswered[0].xid != h.xid {
		c.fail(errOrder)
		return
	}
	c.active = time.Now()
	c.pending = c.unanswered[0].delivered
	setXid(packet, c.unanswered[0].libXid)
	c.shown(h.zxid)
}

// shown takes in a transaction that the server has shown. Only the receiving goroutine calls it.
func (c *connection) shown(zxid int64) {
	if zxid > c.zxid.Load() {
		c.zxid.Store(zxid)
	}
}

// arriving is called when a piece of a long reply has come.
func (c *connection) arriving() {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.active = time.Now()
}

// settled blocks until the answer in the last reply was delivered. The receiving goroutine calls it before it
// reads the next packet.
func (c *connection) settled() {
	if c.pending != nil {
		<-c.pending
		c.pending = nil
	}
}

// ask sends a request before all requests that wait, and blocks until the answer comes. A server's error is returned
// as it is; if there is no answer, the error is classified.
func (c *connection) ask(ctx context.Context, req Request) (Answer, error) {
	f := newFlight(req, false)
	c.out.addTo(c, f)
	select {
	case r := <-f.reply:
		return r.Answer, cmp.Or(r.err, r.Err)
	case <-c.down:
		if driver.Incurable(c.cause) {
			return Answer{}, c.cause
		}
		return Answer{}, fmt.Errorf("%w: lost the connection at once: %w", driver.ErrUnavailable, c.cause)
	case <-ctx.Done():
		return Answer{}, ended(ctx, nil)
	}
}

// standalone reports whether the server is the only one of its service. It reads the server's configuration,
// because one address may lead to many servers. A configuration that cannot be read counts as an ensemble's, where
// more is needed for a renewal. The error means that there was no answer.
func (c *connection) standalone(ctx context.Context) (bool, error) {
	a, err := c.ask(ctx, Get("/zookeeper/config"))
	if errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrSessionOver) || driver.Incurable(err) {
		return false, err
	}
	return err == nil && !strings.Contains(string(a.Data), "server."), nil
}

// prepare sends what comes first on a connection: the logins, and a Sync. It does not wait for the answers, since
// the server carries out requests in order. If the server refuses one of them, the connection fails.
func (c *connection) prepare(auth []Auth) {
	first := func(req Request, describe func(error) error) {
		c.out.addTo(c, &flight{Request: req, answered: func(a Answer, err error) {
			switch {
			case err != nil:
				c.fail(describe(err))
			case a.Err != nil:
				c.fail(describe(lasting(a.Err)))
			}
		}})
	}
	for _, a := range auth {
		first(login(a), a.failed)
	}
	first(Sync(), func(err error) error { return fmt.Errorf("sync: %w", err) })
}

// failed returns the error of a login, which names the scheme.
func (a Auth) failed(err error) error { return fmt.Errorf("login with scheme %q: %w", a.Scheme, err) }

// silence returns for how long no reply has come while one was due. Any reply ends a silence, and so does each
// piece of a long one: an answer that comes late, behind many others, is no sign of trouble.
func (c *connection) silence() time.Duration {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	if len(c.unanswered) == 0 {
		return 0
	}
	return time.Since(c.active)
}

// fail ends the connection because of err, and has the library ended. It does not wait for that, and takes no
// lock. Only the first call has an effect.
func (c *connection) fail(err error) {
	c.failing.Do(func() {
		c.cause = err
		close(c.down)
		cut(c.socket.Conn)
		go c.free()
	})
}

// free ends the library, which needs nothing of the network for that: see socket. It has a goroutine of its own,
// because fail is called by the library's goroutines, and Close waits for those.
func (c *connection) free() {
	defer close(c.freed)
	// Close while the library decodes a reply would be a data race on the result.
	<-c.socket.quiet
	c.out.mu.Lock() // until newConnection has set lib
	lib := c.lib
	c.out.mu.Unlock()
	lib.Close()
}

// end ends the connection and blocks until no goroutine of it runs any more. No step waits for the network.
func (c *connection) end(err error) {
	c.fail(err)
	<-c.freed
	for range c.events {
		continue // until it is closed
	}
	c.out.mu.Lock()   // outbox.next, if it has not seen the connection down, has added to calls
	c.out.mu.Unlock() //nolint:staticcheck // see above
	c.calls.Wait()
}

// onlyHost is a zk.HostProvider with one server. If the library asks again, onlyHost makes it pause.
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
