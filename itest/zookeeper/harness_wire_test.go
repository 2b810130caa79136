package zookeeper

import (
	"bufio"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/internal/zkframe"
	"github.com/fairlock/fairlock/session/drivertest"
)

// opens says whether a handshake asks for a session, and does not go on with one.
func opens(f zkframe.Frame) bool { return len(f) >= 28 && binary.BigEndian.Uint64(f[20:]) == 0 }

// counts says whether a request is more than a sign of life, a login or a watch.
func counts(f zkframe.Frame) bool {
	switch f.Op() {
	case zkframe.OpLogin, zkframe.OpSetWatches:
		return false
	case zkframe.OpGetData, zkframe.OpExists, zkframe.OpGetChildren2:
		return !f.Watches()
	}
	return !proves(f)
}

// proves says that a request is a heartbeat: a sync of the root, or a check of it.
func proves(f zkframe.Frame) bool {
	switch f.Op() {
	case zkframe.OpPing:
		return true
	case zkframe.OpSync:
		return f.Path() == "/"
	case zkframe.OpMulti:
		return f.Number(12) == zkframe.OpCheck && f.FirstPath() == "/"
	}
	return false
}

// opsOf says what a request may be.
func opsOf(f zkframe.Frame) []drivertest.Op {
	switch f.Op() {
	case zkframe.OpClose:
		return []drivertest.Op{drivertest.Close}
	case zkframe.OpGetChildren2, zkframe.OpGetData, zkframe.OpExists:
		return []drivertest.Op{drivertest.Look, drivertest.List}
	case zkframe.OpCreate, zkframe.OpSetData, zkframe.OpDelete, zkframe.OpMulti:
		return []drivertest.Op{writes(f)}
	}
	return nil
}

// writes says what a request that writes does. An entry is created as sequential
// by a join only, and deleted by Share only to make another of it.
func writes(f zkframe.Frame) drivertest.Op {
	op := drivertest.Change
	for _, p := range f.Parts() {
		switch entry := zkEntry.MatchString(p.Path); {
		case p.Op == zkframe.OpCreate && p.Flags&zk.FlagSequence != 0:
			return drivertest.Join
		case p.Op == zkframe.OpCreate && entry && !strings.Contains(p.Path, "/holders/"):
			return drivertest.Change
		case p.Op == zkframe.OpDelete && entry && !strings.Contains(p.Path, "/holders/"):
			op = drivertest.Leave
		}
	}
	return op
}

// folderOf is where the first request of a transaction wants to create something.
func folderOf(f zkframe.Frame) string {
	path := f.FirstPath()
	return path[:max(strings.LastIndexByte(path, '/'), 0)]
}

// zkConn is a connection of the client under test. Each of its writes is one
// packet, and each packet that is read is seen before it is handed on.
type zkConn struct {
	net.Conn
	c    *zkClient
	addr string
	in   *bufio.Reader

	greeted bool   // the handshake was sent
	hello   bool   // its answer was read
	ready   []byte // what is left of a packet to hand on

	mu      sync.Mutex
	session zkframe.Frame // the answer to the handshake
	logins  []byte        // all that were sent
	deaf    bool          // nothing more is sent
	mute    bool          // nothing more is handed on
	awaits  bool          // a reply that is to be harmed
	xid     int32
	fault   drivertest.Fault

	once   sync.Once
	closed chan struct{}
}

func newZKConn(c *zkClient, socket net.Conn, addr string) *zkConn {
	return &zkConn{Conn: socket, c: c, addr: addr, in: bufio.NewReader(socket), closed: make(chan struct{})}
}

// errReset is what the story's faults do to a connection.
var errReset = errors.New("connection reset by the story")

func (z *zkConn) Close() error {
	z.once.Do(func() { close(z.closed) })
	return z.Conn.Close()
}

// Write sends one packet, unless a fault hits it.
func (z *zkConn) Write(packet []byte) (int, error) {
	f, first := zkframe.Frame(packet), !z.greeted
	z.greeted = true
	if z.isDeaf() {
		return len(packet), nil
	}
	if first || counts(f) {
		z.c.sends()
	}
	var kinds []drivertest.Op
	switch {
	case !first && f.Op() == zkframe.OpLogin:
		z.mu.Lock()
		z.logins = append(z.logins, f...)
		z.mu.Unlock()
	case !first:
		kinds = opsOf(f)
	case opens(f):
		kinds = []drivertest.Op{drivertest.Open}
	}
	fault, hit := z.c.strike(kinds, f)
	if !hit {
		return z.Conn.Write(packet)
	}
	z.mu.Lock()
	switch fault {
	case drivertest.LostRequest:
		// One ordered connection: what is lost for good takes all with it.
		z.deaf, z.mute = true, true
	case drivertest.LostReply, drivertest.BrokenReply:
		z.awaits, z.xid, z.fault = true, f.Xid(), fault
		if first {
			z.xid = 0
		}
	case drivertest.Kept:
		z.c.keep(keptRequest{slices.Clone(f), z.logins, z.session, z.addr})
	case drivertest.BrokenRequest:
	}
	deaf, broken := z.deaf, !z.awaits && !z.deaf
	z.mu.Unlock()
	switch {
	case deaf:
		return len(packet), nil
	case broken:
		_ = z.Close()
		return 0, errReset
	}
	return z.Conn.Write(packet)
}

func (z *zkConn) isDeaf() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.deaf
}

// Read hands on what was received, unless a fault hits it.
func (z *zkConn) Read(p []byte) (int, error) {
	for len(z.ready) == 0 {
		f, err := zkframe.Read(z.in)
		if z.isMute() {
			if err != nil { // a path that is dead does not tell of the end either
				<-z.closed
				return 0, net.ErrClosed
			}
			continue
		}
		if err != nil {
			return 0, err
		}
		first := !z.hello
		z.hello = true
		if first {
			z.c.svc.learn(f)
			z.mu.Lock()
			z.session = f
			z.mu.Unlock()
		}
		switch fault, hit := z.meets(f, first); {
		case hit && fault == drivertest.BrokenReply:
			_ = z.Close()
			return 0, errReset
		case hit:
			continue
		}
		z.ready = f
	}
	n := copy(p, z.ready)
	z.ready = z.ready[n:]
	return n, nil
}

func (z *zkConn) isMute() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.mute
}

// meets says whether a reply is the one that a fault is for.
func (z *zkConn) meets(f zkframe.Frame, first bool) (drivertest.Fault, bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if !z.awaits || !first && f.Xid() != z.xid {
		return 0, false
	}
	z.awaits, z.mute = false, z.fault == drivertest.LostReply
	return z.fault, true
}
