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

// kindOf returns the kind of a request with this operation code of ZooKeeper.
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
		// Fairlock's heartbeat is a Sync. Its other use, to learn the outcome of a request
		// without an answer, does not occur here.
		return stand.Keepalive
	}
	return other
}

// A counter counts what one client sends and receives, on the wire.
type counter struct{ *stand.Tally }

func newCounter() counter { return counter{stand.NewTally(requestKinds())} }

// dial opens a connection that counts.
func (c counter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	socket, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &counted{Conn: socket, counter: c}, nil
}

// counted is a connection whose frames are counted. The first frame in each direction is the
// handshake, which has another form.
type counted struct {
	net.Conn
	counter
	up, down frames
}

// Write counts before it sends, so that no answer can come first.
func (c *counted) Write(b []byte) (int, error) {
	c.Moved(len(b))
	c.up.scan(b, func(xid, op int32) {
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
	c.down.scan(b[:n], func(xid, _ int32) {
		switch {
		case xid >= 0:
			c.End()
		case xid == watchEvent:
			c.Event(1)
		}
	})
	return n, err
}

// watchEvent is the request number of a frame with an event of a watch. Other negative numbers
// are those of the answers to a ping and to a login.
const watchEvent = -1

// headerSize is the size of the header of a frame: its length and two numbers. The first is
// the number of the request; the second is the kind of a request.
const headerSize = 12

// frames finds the headers of frames in a stream.
type frames struct {
	handshakeSeen bool
	header        [headerSize]byte
	have          int // bytes of the header that have come
	skip          int // bytes of the present frame that have not come
}

// scan reads the next bytes of the stream, and calls f for each header in them.
func (r *frames) scan(b []byte, f func(first, second int32)) {
	for len(b) > 0 {
		if r.skip > 0 {
			n := min(r.skip, len(b))
			r.skip -= n
			b = b[n:]
			continue
		}
		n := copy(r.header[r.have:], b)
		r.have += n
		b = b[n:]
		if r.have < headerSize {
			continue
		}
		r.have = 0
		r.skip = max(int(binary.BigEndian.Uint32(r.header[:]))+4-headerSize, 0)
		if r.handshakeSeen {
			f(int32(binary.BigEndian.Uint32(r.header[4:])), int32(binary.BigEndian.Uint32(r.header[8:])))
		}
		r.handshakeSeen = true
	}
}
