package testnet

import (
	"context"
	"net"
	"sync"
	"time"
)

const (
	retryEvery  = 10 * time.Millisecond
	dialTimeout = 5 * time.Second
	headLimit   = 16 << 10
)

// conn is a client's connection and our connection to the server.
type conn struct {
	p      *Proxy
	client *net.TCPConn
	label  string
	done   chan struct{} // closed when both sides are

	mu     sync.Mutex
	server *net.TCPConn // nil until dialled
	over   bool
}

func newConn(p *Proxy, client *net.TCPConn) *conn {
	return &conn{p: p, client: client, done: make(chan struct{})}
}

// run serves the connection until both directions have ended or it is reset.
func (c *conn) run(ctx context.Context) {
	up, down := newPipe(c, 0), newPipe(c, 1)
	var wg sync.WaitGroup
	defer func() {
		c.close() // first: it ends the readers
		wg.Wait()
		up.empty()
		down.empty()
	}()
	if !c.recognize(up) {
		return
	}

	wg.Go(func() { up.read(c.client) })
	// A connection to the server counts as a request: while requests are held or
	// dropped, the server must not see the connection.
	if !up.passable() || !c.dial(ctx) {
		c.reset()
		return
	}
	wg.Go(func() { down.read(c.server) })
	wg.Go(func() { down.write(c.client) })
	up.write(c.server)
	// The end of the requests does not end the replies, and the other way round.
	<-down.finished
}

// recognize reads until the options recognize the connection, and puts the client's
// first bytes into up. It reports false when the client closed the connection before.
func (c *conn) recognize(up *pipe) bool {
	if c.p.opts.Label == nil && c.p.opts.Rewrite == nil {
		return true
	}
	head := make([]byte, 0, headLimit)
	for len(head) < cap(head) {
		n, err := c.client.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
		if n > 0 {
			label, instead, ok := c.p.opts.recognize(head)
			if ok {
				c.label, head = label, instead
				break
			}
		}
		if err != nil {
			// An incomplete beginning is passed on to the server too. The reader meets
			// the same end of the stream again.
			break
		}
	}
	if len(head) == 0 {
		return false
	}
	up.push(chunk{data: head, due: time.Now().Add(c.p.delay(up.dir))})
	return true
}

// dial connects to the server. It reports false when there is none, or when the
// connection ended meanwhile.
func (c *conn) dial(ctx context.Context) bool {
	dialer := net.Dialer{Timeout: dialTimeout}
	for {
		server, err := dialer.DialContext(ctx, "tcp", c.p.target)
		if err == nil {
			return c.connected(server.(*net.TCPConn))
		}
		if !c.p.opts.DialRetry {
			c.p.stats.failed.Add(1)
			return false
		}
		select {
		case <-c.done: // Close ends us too, so ctx needs no case
			return false
		case <-time.After(retryEvery):
		}
	}
}

// connected stores the server's side, unless a reset came first.
func (c *conn) connected(server *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		hangUp(server)
		return false
	}
	c.server = server
	return true
}

// reset ends both sides with a TCP reset; the bytes under way are lost.
func (c *conn) reset() { c.end(hangUp) }

func (c *conn) close() { c.end(func(nc *net.TCPConn) { _ = nc.Close() }) }

// end ends both sides once; the first call decides how.
func (c *conn) end(how func(*net.TCPConn)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	close(c.done)
	how(c.client)
	if c.server != nil {
		how(c.server)
	}
}

// hangUp closes with a reset.
func hangUp(nc *net.TCPConn) {
	_ = nc.SetLinger(0)
	_ = nc.Close()
}
