package onzk

import (
	"bufio"
	"errors"
	"net"
	"sync"

	"github.com/fairlock/fairlock/internal/zkframe"
)

// conn is a connection of a client under trial. Each of its writes is one packet,
// and each packet that is read is seen before it is handed on.
type conn struct {
	net.Conn
	n  *network
	in *bufio.Reader

	hello bool   // the answer to the handshake was read
	ready []byte // what is left of a packet to hand on

	mu    sync.Mutex
	asked bool // the handshake was sent
	loss  *loss
	xid   int32 // of the request whose reply it is for
	op    int32
}

// errLost is what a client gets instead of a reply.
var errLost = errors.New("connection reset by the trial")

// Close ends the connection. A loss that was to meet it is for another one.
func (c *conn) Close() error {
	c.n.closed(c)
	c.mu.Lock()
	l := c.loss
	c.loss = nil
	c.mu.Unlock()
	if l != nil {
		c.n.spared(l)
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
	if !c.asked {
		c.asked = true
		return
	}
	kind := kindOf(f)
	if kind == "" || c.loss != nil {
		return
	}
	if c.loss = c.n.loses(kind); c.loss != nil {
		c.xid, c.op = f.Xid(), f.Op()
	}
}

// Read hands on what was received, but for a reply that is to be lost.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.ready) == 0 {
		f, err := zkframe.Read(c.in)
		if err != nil {
			return 0, err
		}
		if !c.hello {
			c.hello = true
			session, password := f.Identity()
			c.n.greeted(c, session, password)
		} else if c.loses(f) {
			_ = c.Close()
			return 0, errLost
		}
		c.ready = f
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

// loses says whether a reply is the one to be lost. A request that was refused
// has not been carried out, and another is waited for.
func (c *conn) loses(f zkframe.Frame) bool {
	c.mu.Lock()
	l := c.loss
	if l == nil || f.Xid() != c.xid {
		c.mu.Unlock()
		return false
	}
	c.loss = nil
	c.mu.Unlock()
	if !f.Done(c.op) {
		c.n.spared(l)
		return false
	}
	c.n.struck(l)
	return true
}
