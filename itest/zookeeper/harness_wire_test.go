package zookeeper

import (
	"bufio"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/zkframe"
)

// opens reports whether a handshake is for a new session.
func opens(f zkframe.Frame) bool { return len(f) >= 28 && binary.BigEndian.Uint64(f[20:]) == 0 }

// counts reports whether a request is none of a heartbeat, a login and a watch.
func counts(f zkframe.Frame) bool {
	switch f.Op() {
	case zkframe.OpLogin, zkframe.OpSetWatches:
		return false
	case zkframe.OpGetData, zkframe.OpExists, zkframe.OpGetChildren2:
		return !f.Watches()
	}
	return !proves(f)
}

// proves reports whether a request is a heartbeat: a sync of the root, or a check of it.
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

// opsOf returns the kinds of requests that a request may be.
func opsOf(f zkframe.Frame) []fault.Op {
	switch f.Op() {
	case zkframe.OpClose:
		return []fault.Op{fault.Close}
	case zkframe.OpGetChildren2, zkframe.OpGetData, zkframe.OpExists:
		return []fault.Op{fault.Read, fault.Names}
	case zkframe.OpCreate, zkframe.OpSetData, zkframe.OpDelete, zkframe.OpMulti:
		return []fault.Op{writes(f)}
	}
	return nil
}

// writes returns the kind of a request that writes. An entry is created as sequential
// by a join only, and deleted by Share only to make another of it.
func writes(f zkframe.Frame) fault.Op {
	op := fault.Update
	for _, p := range f.Parts() {
		switch entry := zkEntry.MatchString(p.Path); {
		case p.Op == zkframe.OpCreate && p.Flags&zk.FlagSequence != 0:
			return fault.Join
		case p.Op == zkframe.OpCreate && entry && !strings.Contains(p.Path, "/holders/"):
			return fault.Update
		case p.Op == zkframe.OpDelete && entry && !strings.Contains(p.Path, "/holders/"):
			op = fault.Leave
		}
	}
	return op
}

// folderOf returns the folder in which the first request of a transaction creates a
// node.
func folderOf(f zkframe.Frame) string {
	path := f.FirstPath()
	return path[:max(strings.LastIndexByte(path, '/'), 0)]
}

// zkConn is a connection of the client under test. Each of its writes is one packet. It
// inspects each packet that it reads before it passes the packet on.
type zkConn struct {
	net.Conn
	c    *zkClient
	addr string
	in   *bufio.Reader

	greeted   bool   // the handshake was sent
	handshake bool   // its answer was read
	ready     []byte // the rest of a packet to pass on

	mu            sync.Mutex
	session       zkframe.Frame // the answer to the handshake
	logins        []byte        // all that were sent
	dropsRequests bool          // nothing more is sent
	dropsReplies  bool          // nothing more is passed on
	awaits        fault.Kind    // what is to hit a reply; "": nothing
	xid           int32         // which one
	op            fault.Op      // what its request may be
	since         int           // see both.Replies

	once   sync.Once
	closed chan struct{}
}

func newZKConn(c *zkClient, socket net.Conn, addr string) *zkConn {
	return &zkConn{Conn: socket, c: c, addr: addr, in: bufio.NewReader(socket), closed: make(chan struct{})}
}

// putBack has another request meet the fault of CutRepliesTo: the server may not have got this
// one. It needs the mutex.
func (z *zkConn) putBack() {
	if z.awaits == cutReplies {
		z.awaits = ""
		z.c.CutRepliesTo(z.op)
	}
}

// errReset is the error of a connection that a fault of the case has broken.
var errReset = errors.New("connection reset by the case")

func (z *zkConn) Close() error {
	z.once.Do(func() {
		close(z.closed)
		z.mu.Lock()
		defer z.mu.Unlock()
		z.putBack()
	})
	return z.Conn.Close()
}

// dies breaks the connection a second after it has lost a packet for good, as a kernel does in
// the end. So no client waits until a part of a long TTL has passed.
func (z *zkConn) dies() { time.AfterFunc(time.Second, func() { _ = z.Close() }) }

// Write sends one packet, unless a fault hits it.
func (z *zkConn) Write(packet []byte) (int, error) {
	f, first := zkframe.Frame(packet), !z.greeted
	z.greeted = true
	if z.droppingRequests() {
		return len(packet), nil
	}
	if first || counts(f) {
		z.c.sends()
	}
	var kinds []fault.Op
	switch {
	case !first && f.Op() == zkframe.OpLogin:
		z.mu.Lock()
		z.logins = append(z.logins, f...)
		z.mu.Unlock()
	case !first:
		kinds = opsOf(f)
	case opens(f):
		kinds = []fault.Op{fault.Open}
	}
	hit, since := z.c.hits(f, kinds)
	if hit == "" {
		return z.send(packet, first)
	}
	z.mu.Lock()
	switch hit {
	case fault.LostRequest:
		// One ordered connection: what is lost for good takes all with it.
		z.dropsRequests, z.dropsReplies = true, true
		z.dies()
	case fault.LostReply, fault.BrokenReply, cutReplies:
		z.awaits, z.xid, z.op, z.since = hit, f.Xid(), kinds[0], since
		if first {
			z.xid = 0
		}
		select {
		case <-z.closed:
			z.putBack()
		default:
		}
	case fault.LateRequest:
		z.c.keep(keptRequest{slices.Clone(f), z.logins, z.session, z.addr})
	case fault.BrokenRequest:
	}
	dropped, broken := z.dropsRequests, z.awaits == "" && !z.dropsRequests // or closed by now
	z.mu.Unlock()
	switch {
	case dropped:
		return len(packet), nil
	case broken:
		_ = z.Close()
		return 0, errReset
	}
	return z.send(packet, first)
}

// send sends one packet. A handshake continues no session that the harness has taken over.
func (z *zkConn) send(packet []byte, first bool) (int, error) {
	if first {
		z.c.svc.gate.RLock()
		defer z.c.svc.gate.RUnlock()
	}
	return z.Conn.Write(packet)
}

func (z *zkConn) droppingRequests() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.dropsRequests
}

// Read passes on what was received, unless a fault hits it.
func (z *zkConn) Read(p []byte) (int, error) {
	for len(z.ready) == 0 {
		f, err := zkframe.Read(z.in)
		if z.droppingReplies() {
			if err != nil { // a network that is cut off does not report the end either
				<-z.closed
				return 0, net.ErrClosed
			}
			continue
		}
		if err != nil {
			return 0, err
		}
		first := !z.handshake
		z.handshake = true
		if first {
			z.c.svc.learn(f)
			z.mu.Lock()
			z.session = f
			z.mu.Unlock()
		}
		switch z.meets(f, first) {
		case fault.BrokenReply:
			_ = z.Close()
			return 0, errReset
		case fault.LostReply:
			z.dies()
			continue
		default: // no fault is for this reply
		}
		z.ready = f
	}
	n := copy(p, z.ready)
	z.ready = z.ready[n:]
	return n, nil
}

func (z *zkConn) droppingReplies() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.dropsReplies
}

// meets returns the fault that hits a reply, "" if none does.
func (z *zkConn) meets(f zkframe.Frame, first bool) fault.Kind {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.awaits == "" || !first && f.Xid() != z.xid {
		return ""
	}
	hit := z.awaits
	if hit == cutReplies && z.c.CutSince(z.since) {
		hit = fault.LostReply
	}
	z.awaits, z.dropsReplies = "", hit == fault.LostReply
	return hit
}
