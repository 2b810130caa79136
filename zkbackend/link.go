package zkbackend

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// link is one connection of one service session, with a client library of its
// own on top. It is used once and never again: when it is lost, the session
// makes another.
type link struct {
	server   string
	hello    hello
	sent     driver.Instant // when the handshake was sent
	unproven bool           // ... which proves nothing by itself, see chain
	conn     *zk.Conn
	tap      *tap
	events   <-chan zk.Event // closed when the library has come to its end

	zxid atomic.Int64 // the newest transaction that the server has shown
	bye  atomic.Bool  // the end of the session was acknowledged

	mu      sync.Mutex
	resting bool
	calls   sync.WaitGroup // requests under way

	failing sync.Once
	cause   error         // why it is down
	down    chan struct{} // it is of no use any more
	made    chan struct{} // conn is set
	freed   chan struct{} // the library was told
}

// errSilent: a request was not answered for so long that the connection is
// taken for dead.
var errSilent = errors.New("no answer")

// errOrder: a request was left out.
var errOrder = errors.New("a reply came before that to an earlier request")

// errBye: the session is over, nobody needs the connection.
var errBye = errors.New("no longer needed")

// errExpired: the service has no such session any more.
var errExpired = errors.New("zookeeper has no such session: it expired or was closed by another client")

// errShortened: the session lives for a shorter time than it did.
var errShortened = errors.New("zookeeper: the session was given a shorter timeout")

// dialing is what the making of a link takes.
type dialing struct {
	b      *backend
	who    identity
	ttl    time.Duration // to ask for
	zxid   int64
	auth   []Auth
	events func(zk.Event)
}

// dial makes a link to one server. It returns errExpired if the server has no
// such session, and an error that wraps driver.ErrDenied if it does not accept
// our login.
func (d dialing) dial(ctx context.Context, server, addr string) (*link, error) {
	socket, keep, err := d.b.bounded(ctx, server, addr)
	if err != nil {
		return nil, err
	}
	sent := d.b.clock.Now()
	h, err := greet(socket, d.who, d.ttl, d.zxid)
	switch {
	case err != nil:
		err = orEnd(ctx, err)
	case d.who.id == 0 && h.id == 0:
		err = fmt.Errorf("%w: no session was given", errHello)
	case d.who.id != 0 && h.id != d.who.id: // 0, or one that is not ours
		err = errExpired
	}
	if err != nil {
		keep()
		_ = socket.Close()
		return nil, err
	}
	l := &link{
		server: server, hello: h, sent: sent,
		down: make(chan struct{}), made: make(chan struct{}), freed: make(chan struct{}),
	}
	l.zxid.Store(d.zxid)
	l.tap = newTap(socket, h.packet, len(d.auth)+1, l.fail, l.replied)
	if !keep() {
		l.fail(context.Cause(ctx))
	}
	if err := l.open(ctx, d); err != nil {
		l.end(err)
		return nil, err
	}
	return l, nil
}

// bounded opens a socket that is closed when ctx ends, unless keep is called
// before. It says whether it came in time.
func (b *backend) bounded(ctx context.Context, server, addr string) (socket net.Conn, keep func() bool, err error) {
	socket, err = b.connect(ctx, server, addr)
	if err != nil {
		return nil, nil, err
	}
	return socket, context.AfterFunc(ctx, func() { _ = socket.Close() }), nil
}

// orEnd is the error of what was done with a bounded socket: the end of ctx, if
// that is what ended it.
func orEnd(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
	return err
}

// connect opens a socket, with TLS if that is wanted.
func (b *backend) connect(ctx context.Context, server, addr string) (net.Conn, error) {
	socket, err := b.opts.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err //nolint:wrapcheck // net's errors name the server
	}
	if b.opts.TLS == nil {
		return socket, nil
	}
	cfg := b.opts.TLS.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(server)
	}
	secure := tls.Client(socket, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = socket.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secure, nil
}

// open puts the client library on top, and logs in.
func (l *link) open(ctx context.Context, d dialing) error {
	conn, events, err := zk.Connect([]string{l.server}, l.hello.ttl,
		zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) { return l.tap, nil }),
		zk.WithHostProvider(&onlyHost{server: l.server}),
		zk.WithEventCallback(d.events),
		zk.WithLogger(silent{}), zk.WithLogInfo(false),
		zk.WithMaxConnBufferSize(sendBuffer), zk.WithMaxBufferSize(maxReply),
	)
	l.conn, l.events = conn, events
	close(l.made)
	if err != nil { // only if the host provider had something to complain about
		return fmt.Errorf("zookeeper client: %w", err)
	}
	for _, a := range d.auth {
		login := l.login
		if d.who.id != 0 {
			login = l.relogin
		}
		if err := login(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// sendBuffer is the longest request that the library can send: one more than a
// server takes by default. What is never used of it takes no memory.
const sendBuffer = 1 << 20

// login shows one identity to the server.
func (l *link) login(ctx context.Context, a Auth) error {
	_, err := onLink(ctx, l, func(c *zk.Conn) (struct{}, error) {
		return struct{}{}, c.AddAuth(a.Scheme, a.Credentials)
	})
	return loginError(a, err)
}

// loginError says of which login an error is, and whether the server refused it.
func loginError(a Auth, err error) error {
	if errors.Is(err, zk.ErrAuthFailed) {
		return fmt.Errorf("%w: the login with scheme %q was refused: %w", driver.ErrDenied, a.Scheme, err)
	}
	if err != nil {
		return fmt.Errorf("login with scheme %q: %w", a.Scheme, err)
	}
	return nil
}

// relogin shows an identity that was accepted before, and does not wait for the
// answer: what is sent behind it is served with it. If it is refused now, the
// server closes the connection.
func (l *link) relogin(ctx context.Context, a Auth) error {
	if !l.begin() {
		return l.cause
	}
	go func() {
		defer l.calls.Done()
		if err := l.conn.AddAuth(a.Scheme, a.Credentials); err != nil {
			l.fail(loginError(a, err))
		}
	}()
	select {
	case <-l.tap.logins:
		return nil
	case <-l.down:
		return l.cause
	case <-ctx.Done():
		return fmt.Errorf("login with scheme %q: %w", a.Scheme, context.Cause(ctx))
	}
}

// replied hears of every reply, in the library's receiving goroutine.
func (l *link) replied(h replyHeader) {
	switch {
	case h.size < headerSize || h.size > maxReply:
		l.fail(&bigReplyError{size: h.size})
	case h.xid < 0:
	default:
		if !l.tap.answered(h.xid) {
			l.fail(errOrder)
		}
		if h.zxid > l.zxid.Load() {
			l.zxid.Store(h.zxid)
		}
		if h.xid == l.tap.last.Load() && h.code == 0 {
			l.bye.Store(true)
		}
	}
}

// bigReplyError: a reply is longer than what anybody would read.
type bigReplyError struct{ size int }

func (e *bigReplyError) Error() string {
	return fmt.Sprintf("a reply of %d bytes, want %d to %d: there are too many children, or this is no ZooKeeper server",
		e.size, headerSize, maxReply)
}

// fail takes the connection for lost and brings the library to its end. It does
// not wait for that.
func (l *link) fail(err error) {
	l.failing.Do(func() {
		l.cause = err
		close(l.down)
		l.tap.cut()
		go l.free()
	})
}

// free ends the library, once that is in no request's way. It ends by itself:
// see tap.
func (l *link) free() {
	defer close(l.freed)
	if <-l.made; l.conn == nil {
		return
	}
	// Not while it takes in a reply: it would read a result and write it at the
	// same time.
	<-l.tap.quiet
	l.conn.Close()
}

// end takes the link down and waits until nothing of it runs any more. It takes
// no time: nothing in it waits for the network.
func (l *link) end(err error) {
	l.fail(err)
	<-l.freed
	if l.conn != nil {
		for range l.events {
			continue // until it is closed
		}
	}
	l.rest()
}

// begin notes a request that is to be made; false if the link is ending.
func (l *link) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resting {
		return false
	}
	l.calls.Add(1)
	return true
}

// rest lets no more requests begin, and waits for those under way.
func (l *link) rest() {
	l.mu.Lock()
	l.resting = true
	l.mu.Unlock()
	l.calls.Wait()
}

// farewell ends the service session. It says whether the service has
// acknowledged that. The link is of no use afterwards.
func (l *link) farewell(ctx context.Context, limit time.Duration) bool {
	stop := context.AfterFunc(ctx, func() { l.fail(errBye) })
	late := time.AfterFunc(limit, func() { l.fail(errSilent) })
	l.rest() // the library would read their results and write them at the same time
	l.conn.Close()
	stop()
	late.Stop()
	l.end(errBye)
	return l.bye.Load()
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
