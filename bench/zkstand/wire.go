package zkstand

import (
	"context"
	"encoding/binary"
	"net"

	"github.com/fairlock/fairlock/bench/stand"
)

// The kinds of requests, as the server sees them.
const (
	create = iota
	remove
	multi
	get
	list
	exists
	other
)

func requestKinds() []string {
	return []string{"create", "delete", "multi", "get", "list", "exists", "other"}
}

// kindOf reads the number that ZooKeeper has for a request.
func kindOf(op int32) int {
	switch op {
	case 1, 15, 19, 21:
		return create
	case 2, 20:
		return remove
	case 14:
		return multi
	case 4:
		return get
	case 8, 12:
		return list
	case 3:
		return exists
	case 9, 11:
		// A Sync is ours' heartbeat; its other use, to learn what became of a
		// request that was not answered, has no place here.
		return stand.Keepalive
	}
	return other
}

// A counter counts what one client says and hears, on the wire.
type counter struct{ *stand.Tally }

func newCounter() counter { return counter{stand.NewTally(requestKinds())} }

// dial makes a connection that counts.
func (c counter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	socket, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &counted{Conn: socket, counter: c}, nil
}

// counted is a connection whose frames are counted. The first in each direction
// is the handshake, which is of another form.
type counted struct {
	net.Conn
	counter
	up, down frames
}

// Write counts before it sends, so that no answer can come first.
func (c *counted) Write(b []byte) (int, error) {
	c.Moved(len(b))
	c.up.pass(b, func(xid, op int32) {
		c.Request(kindOf(op))
		if xid >= 0 {
			c.Begin()
		}
	})
	return c.Conn.Write(b)
}

// Read implements net.Conn.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.Moved(n)
	c.down.pass(b[:n], func(xid, _ int32) {
		switch {
		case xid >= 0:
			c.End()
		case xid == watchEvent:
			c.Event(1)
		}
	})
	return n, err
}

// watchEvent stands for a request where there is none: what follows is told by a
// watch. Other numbers below 0 are the answers to a ping and to a login.
const watchEvent = -1

// headSize is what is read of a frame: its length, and two numbers. The first
// says to which request it belongs; the second is a request's kind.
const headSize = 12

// frames finds the heads of frames in a stream that passes by.
type frames struct {
	greeted bool
	head    [headSize]byte
	have    int // bytes of head
	skip    int // bytes of the present frame that are still to come
}

// pass takes in the next bytes, and calls f for each head in them.
func (r *frames) pass(b []byte, f func(first, second int32)) {
	for len(b) > 0 {
		if r.skip > 0 {
			n := min(r.skip, len(b))
			r.skip -= n
			b = b[n:]
			continue
		}
		n := copy(r.head[r.have:], b)
		r.have += n
		b = b[n:]
		if r.have < headSize {
			continue
		}
		r.have = 0
		r.skip = max(int(binary.BigEndian.Uint32(r.head[:]))+4-headSize, 0)
		if r.greeted {
			f(int32(binary.BigEndian.Uint32(r.head[4:])), int32(binary.BigEndian.Uint32(r.head[8:])))
		}
		r.greeted = true
	}
}
