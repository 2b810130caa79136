package zookeeper

import (
	"bufio"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/drivertest"
)

// opens says whether a handshake asks for a session, and does not go on with one.
func (f frame) opens() bool { return len(f) >= 28 && binary.BigEndian.Uint64(f[20:]) == 0 }

// counts says whether a request is more than a sign of life, a login or a watch.
func (f frame) counts() bool {
	switch f.op() {
	case opLogin, opSetWatches:
		return false
	case opGetData, opExists, opGetChildren:
		return !f.watches()
	}
	return !f.proves()
}

// kinds says what a request may be.
func (f frame) kinds() []drivertest.Op {
	switch f.op() {
	case opClose:
		return []drivertest.Op{drivertest.Close}
	case opGetChildren, opGetData, opExists:
		return []drivertest.Op{drivertest.Look, drivertest.List}
	case opCreate, opSetData, opDelete, opMulti:
		return []drivertest.Op{f.writes()}
	}
	return nil
}

// writes says what a request that writes does. An entry is created as sequential
// by a join only, and deleted by Share only to make another of it.
func (f frame) writes() drivertest.Op {
	op := drivertest.Change
	for _, p := range f.parts() {
		switch entry := zkEntry.MatchString(p.path); {
		case p.op == opCreate && p.flags&zk.FlagSequence != 0:
			return drivertest.Join
		case p.op == opCreate && entry && !strings.Contains(p.path, "/holders/"):
			return drivertest.Change
		case p.op == opDelete && entry && !strings.Contains(p.path, "/holders/"):
			op = drivertest.Leave
		}
	}
	return op
}

// folder is where the first request of a transaction wants to create something.
func (f frame) folder() string {
	path := f.created()
	return path[:max(strings.LastIndexByte(path, '/'), 0)]
}

// zkConn is a connection of the client under test. Each of its writes is one
// packet, and each packet that is read is seen before it is handed on.
type zkConn struct {
	net.Conn
	c  *zkClient
	in *bufio.Reader

	greeted bool   // the handshake was sent
	hello   bool   // its answer was read
	ready   []byte // what is left of a packet to hand on

	mu     sync.Mutex
	deaf   bool // nothing more is sent
	mute   bool // nothing more is handed on
	awaits bool // a reply that is to be harmed
	xid    int32
	fault  drivertest.Fault

	once   sync.Once
	closed chan struct{}
}

func newZKConn(c *zkClient, socket net.Conn) *zkConn {
	return &zkConn{Conn: socket, c: c, in: bufio.NewReader(socket), closed: make(chan struct{})}
}

// errReset is what the story's faults do to a connection.
var errReset = errors.New("connection reset by the story")

func (z *zkConn) Close() error {
	z.once.Do(func() { close(z.closed) })
	return z.Conn.Close()
}

// Write sends one packet, unless a fault hits it.
func (z *zkConn) Write(packet []byte) (int, error) {
	f, first := frame(packet), !z.greeted
	z.greeted = true
	if z.isDeaf() {
		return len(packet), nil
	}
	if first || f.counts() {
		z.c.sends()
	}
	var kinds []drivertest.Op
	switch {
	case !first:
		kinds = f.kinds()
	case f.opens():
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
		z.awaits, z.xid, z.fault = true, f.xid(), fault
		if first {
			z.xid = 0
		}
	case drivertest.BrokenRequest, drivertest.Kept:
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
		f, err := readFrame(z.in)
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
func (z *zkConn) meets(f frame, first bool) (drivertest.Fault, bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if !z.awaits || !first && f.xid() != z.xid {
		return 0, false
	}
	z.awaits, z.mute = false, z.fault == drivertest.LostReply
	return z.fault, true
}
