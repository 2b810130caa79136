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

	"github.com/fairlock/fairlock/internal/zkframe"
)

// joins reports whether a request is the transaction that creates an entry: the server
// appends the sequence number to the path of its first step.
func joins(f zkframe.Frame) bool {
	return f.Op() == zkframe.OpMulti && f.Number(12) == zkframe.OpCreate && strings.HasSuffix(f.FirstPath(), "-lock-")
}

// refused is the reply that a server gives when it refuses.
func refused(f zkframe.Frame, code int32) zkframe.Frame {
	g := append(zkframe.Frame(nil), f[:20]...)
	binary.BigEndian.PutUint32(g, 16)
	binary.BigEndian.PutUint32(g[16:], uint32(code))
	return g
}

// harmless is a request in the place of another, that asks for nothing.
func harmless(f zkframe.Frame) zkframe.Frame {
	g := append(make(zkframe.Frame, 4, 21), f[4:8]...)
	g = binary.BigEndian.AppendUint32(g, zkframe.OpExists)
	g = binary.BigEndian.AppendUint32(g, 1)
	g = append(g, '/', 0)
	binary.BigEndian.PutUint32(g, uint32(len(g)-4))
	return g
}

// wire makes the connections of a client, and sees every packet. Its hooks are set
// before that, and may be nil.
type wire struct {
	refuse    func(addr string) bool                               // reports whether a connection is refused
	handshake func(f zkframe.Frame)                                // may change a handshake
	before    func(f zkframe.Frame) bool                           // false: the connection breaks in its place
	swap      func(f zkframe.Frame) zkframe.Frame                  // what is sent in its place
	after     func(f zkframe.Frame) bool                           // false: the connection breaks when it was sent
	reply     func(request, f zkframe.Frame) (zkframe.Frame, bool) // what is handed on; false: the connection breaks in its place

	mu       sync.Mutex
	to       map[string]int  // connections by address
	requests []zkframe.Frame // all but heartbeats
	down     int             // bytes of the replies to them
	back     map[int32]int   // the same by the number of the request
}

// errCut is the error of a connection that the test has cut.
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
	return &wireConn{Conn: socket, w: w, in: bufio.NewReader(socket), sent: map[int32]zkframe.Frame{}}, nil
}

// connections returns how many connections there were to an address.
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

// seen returns what was sent since then, and how many bytes came back.
func (w *wire) seen() (requests []zkframe.Frame, down int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]zkframe.Frame(nil), w.requests...), w.down
}

// answered returns the requests since forget, with the number of bytes of the answer to
// each. This is wrong if there was more than one session.
func (w *wire) answered() (requests []zkframe.Frame, back map[int32]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]zkframe.Frame(nil), w.requests...), maps.Clone(w.back)
}

// count returns how many of the requests are of that kind.
func (w *wire) count(is func(zkframe.Frame) bool) (n int) {
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

	in       *bufio.Reader
	received bool          // its answer was read
	ready    zkframe.Frame // what is left of a packet to hand on

	mu   sync.Mutex
	sent map[int32]zkframe.Frame // requests that were not answered yet
}

func (c *wireConn) cut() error {
	_ = c.Close()
	return errCut
}

func (c *wireConn) Write(packet []byte) (int, error) {
	f := append(zkframe.Frame(nil), packet...)
	if !c.greeted {
		c.greeted = true
		if c.w.handshake != nil {
			c.w.handshake(f)
		}
		return c.Conn.Write(f)
	}
	c.mu.Lock()
	c.sent[f.Xid()] = f
	c.mu.Unlock()
	if c.w.before != nil && !c.w.before(f) {
		return 0, c.cut()
	}
	if !proves(f) {
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
		f, err := zkframe.Read(c.in)
		if err != nil {
			return 0, err
		}
		first := !c.received
		c.received = true
		c.mu.Lock()
		request := c.sent[f.Xid()]
		delete(c.sent, f.Xid())
		c.mu.Unlock()
		if !first && request != nil && !proves(request) {
			c.w.mu.Lock()
			c.w.down += len(f)
			if c.w.back == nil {
				c.w.back = map[int32]int{}
			}
			c.w.back[f.Xid()] = len(f)
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
