package zookeeper

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"net"
	"strings"
	"sync"
)

// joins says that a request is the transaction that creates an entry: the path
// of its first step ends with what the server is to put the number after.
func (f frame) joins() bool {
	return f.op() == opMulti && f.number(12) == opCreate && strings.HasSuffix(f.created(), "-lock-")
}

// failed is the reply that a server gives when it refuses.
func (f frame) failed(code int32) frame {
	g := append(frame(nil), f[:20]...)
	binary.BigEndian.PutUint32(g, 16)
	binary.BigEndian.PutUint32(g[16:], uint32(code))
	return g
}

// harmless is a request in the place of another, that asks for nothing.
func (f frame) harmless() frame {
	g := append(make(frame, 4, 21), f[4:8]...)
	g = binary.BigEndian.AppendUint32(g, opExists)
	g = binary.BigEndian.AppendUint32(g, 1)
	g = append(g, '/', 0)
	binary.BigEndian.PutUint32(g, uint32(len(g)-4))
	return g
}

// wire is where a client dials, and sees every packet. Its hooks are set before
// that, and may be nil.
type wire struct {
	refuse func(addr string) bool               // says that a connection cannot be had
	hello  func(f frame)                        // may change a handshake
	before func(f frame) bool                   // false: the connection breaks in its place
	swap   func(f frame) frame                  // what is sent in its place
	after  func(f frame) bool                   // false: the connection breaks when it was sent
	reply  func(request, f frame) (frame, bool) // what is handed on; false: the connection breaks in its place

	mu       sync.Mutex
	to       map[string]int // connections by address
	requests []frame        // all but signs of life
	down     int            // bytes of the replies to them
	back     map[int32]int  // the same by the number of the request
}

// errCut is what the test does to a connection.
var errCut = errors.New("connection cut by the test")

// dial is for zkbackend.Options.
func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if w.refuse != nil && w.refuse(addr) {
		return nil, errCut
	}
	socket, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.to == nil {
		w.to = map[string]int{}
	}
	w.to[addr]++
	return &wireConn{Conn: socket, w: w, in: bufio.NewReader(socket), sent: map[int32]frame{}}, nil
}

// connections is how many there were to an address.
func (w *wire) connections(addr string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to[addr]
}

// forget begins counting anew.
func (w *wire) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests, w.down, w.back = nil, 0, nil
}

// seen is what was sent since then, and how much came back.
func (w *wire) seen() (requests []frame, down int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]frame(nil), w.requests...), w.down
}

// answered is what was sent since then, with how much came back for each by its
// number, which says nothing if there was more than one session.
func (w *wire) answered() (requests []frame, back map[int32]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]frame(nil), w.requests...), maps.Clone(w.back)
}

// count is how many of the requests are of that kind.
func (w *wire) count(is func(frame) bool) (n int) {
	all, _ := w.seen()
	for _, f := range all {
		if is(f) {
			n++
		}
	}
	return n
}

// wireConn is one connection. Each of the client's writes is one packet.
type wireConn struct {
	net.Conn
	w *wire

	greeted bool // the handshake was sent

	in    *bufio.Reader
	heard bool  // its answer was read
	ready frame // what is left of a packet to hand on

	mu   sync.Mutex
	sent map[int32]frame // requests that were not answered yet
}

func (c *wireConn) cut() error {
	_ = c.Close()
	return errCut
}

func (c *wireConn) Write(packet []byte) (int, error) {
	f := append(frame(nil), packet...)
	if !c.greeted {
		c.greeted = true
		if c.w.hello != nil {
			c.w.hello(f)
		}
		return c.Conn.Write(f)
	}
	c.mu.Lock()
	c.sent[f.xid()] = f
	c.mu.Unlock()
	if c.w.before != nil && !c.w.before(f) {
		return 0, c.cut()
	}
	if !f.proves() {
		c.w.mu.Lock()
		c.w.requests = append(c.w.requests, f)
		c.w.mu.Unlock()
	}
	if c.w.swap != nil {
		f = c.w.swap(f)
	}
	_, err := c.Conn.Write(f)
	if err == nil && c.w.after != nil && !c.w.after(f) {
		return len(packet), c.cut()
	}
	return len(packet), err
}

func (c *wireConn) Read(p []byte) (int, error) {
	if len(c.ready) == 0 {
		f, err := readFrame(c.in)
		if err != nil {
			return 0, err
		}
		first := !c.heard
		c.heard = true
		c.mu.Lock()
		request := c.sent[f.xid()]
		delete(c.sent, f.xid())
		c.mu.Unlock()
		if !first && request != nil && !request.proves() {
			c.w.mu.Lock()
			c.w.down += len(f)
			if c.w.back == nil {
				c.w.back = map[int32]int{}
			}
			c.w.back[f.xid()] = len(f)
			c.w.mu.Unlock()
		}
		if !first && request != nil && c.w.reply != nil {
			var pass bool
			if f, pass = c.w.reply(request, f); !pass {
				return 0, c.cut()
			}
		}
		c.ready = f
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}
