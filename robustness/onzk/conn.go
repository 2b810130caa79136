package onzk

import (
	"bufio"
	"errors"
	"net"
	"sync"

	"github.com/fairlock/fairlock/internal/zkframe"
)

// conn is a connection of a client under test, or with TLS that of a terminator. Each write is
// one packet. Each received packet is inspected before Read returns it.
type conn struct {
	net.Conn
	n      *network
	member int
	in     *bufio.Reader

	handshakeAnswered bool   // the answer to the handshake was read
	ready             []byte // the rest of a packet that Read has to return

	mu            sync.Mutex
	handshakeSent bool
	loss          *loss
	xid           int32 // of the request whose reply is to be lost
	op            int32 // of the same request
}

// errLost is what a client gets instead of a lost reply.
var errLost = errors.New("connection reset by the trial")

// Close ends the connection. A loss that has not happened goes back to the network.
func (c *conn) Close() error {
	c.n.closed(c)
	c.mu.Lock()
	l := c.loss
	c.loss = nil
	c.mu.Unlock()
	if l != nil {
		c.n.restore(l)
	}
	return c.Conn.Close()
}

// Write sends one packet, and notes if its reply is to be lost.
func (c *conn) Write(packet []byte) (int, error) {
	c.mark(packet)
	return c.Conn.Write(packet)
}

func (c *conn) mark(f zkframe.Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.handshakeSent {
		c.handshakeSent = true
		return
	}
	kind := kindOf(f)
	if kind == "" || c.loss != nil {
		return
	}
	c.loss = c.n.take(kind)
	if c.loss != nil {
		c.xid, c.op = f.Xid(), f.Op()
	}
}

// Read returns what was received, except a reply that is to be lost.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.ready) == 0 {
		f, err := zkframe.Read(c.in)
		if err != nil {
			return 0, err
		}
		if !c.handshakeAnswered {
			c.handshakeAnswered = true
			session, password := f.Identity()
			c.n.connected(c, session, password)
		} else if c.isLost(f) {
			_ = c.Close()
			return 0, errLost
		}
		c.ready = f
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// isLost reports whether a reply is the one to be lost. A request that was refused has not
// been carried out, so the loss goes back to the network for another request.
func (c *conn) isLost(f zkframe.Frame) bool {
	c.mu.Lock()
	l := c.loss
	if l == nil || f.Xid() != c.xid {
		c.mu.Unlock()
		return false
	}
	c.loss = nil
	c.mu.Unlock()
	if !f.Done(c.op) {
		c.n.restore(l)
		return false
	}
	c.n.lost(l)
	return true
}
