package zookeeper

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
)

// The kinds of requests that ZooKeeper's protocol numbers.
const (
	opGetData         = 4
	opSync            = 9
	opPing            = 11
	opGetChildren     = 12
	opMulti           = 14
	opCreateContainer = 19
	opExists          = 3
	opCheck           = 13
	opLogin           = 100
)

// frame is a packet: the length of what follows in four bytes, then for a
// request its number and its kind, for a reply the number of the request, the
// newest transaction in eight bytes, and an error code. The first of a
// connection, in both directions, is the handshake and has none of these.
type frame []byte

func (f frame) xid() int32 { return f.number(4) }
func (f frame) op() int32  { return f.number(8) }

// number reads four bytes; 0 if there are none.
func (f frame) number(at int) int32 {
	if len(f) < at+4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(f[at:]))
}

// path is that of a request for one node.
func (f frame) path() string {
	n := int(f.number(12))
	if n < 0 || len(f) < 16+n {
		return ""
	}
	return string(f[16 : 16+n])
}

// watches says that a read asks for a watch too.
func (f frame) watches() bool { return f[len(f)-1] != 0 }

// proves says that a request is a heartbeat.
func (f frame) proves() bool {
	switch f.op() {
	case opPing:
		return true
	case opSync:
		return f.path() == "/"
	case opMulti:
		return f.number(12) == opCheck
	}
	return false
}

// joins says that a request is the transaction that creates an entry: its first
// step is a create, and the path, behind the step's header of nine bytes, ends
// with what the server is to put the number after.
func (f frame) joins() bool {
	n := int(f.number(21))
	return f.op() == opMulti && f.number(12) == 1 && n >= 0 && len(f) >= 25+n && strings.HasSuffix(string(f[25:25+n]), "-lock-")
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
	w.requests, w.down = nil, 0
}

// seen is what was sent since then, and how much came back.
func (w *wire) seen() (requests []frame, down int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]frame(nil), w.requests...), w.down
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
		f, err := c.receive()
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

// receive reads a whole packet.
func (c *wireConn) receive() (frame, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return nil, err
	}
	f := make(frame, 4+binary.BigEndian.Uint32(head[:]))
	copy(f, head[:])
	_, err := io.ReadFull(c.in, f[4:])
	return f, err
}
