package conn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// This file has the part of ZooKeeper's protocol that the package reads and writes itself: the
// handshake of a connection, the request that ends a session, and the headers of requests and
// replies. Numbers are big endian. A packet is the length of its body in four bytes, and the body:
//
//	handshake       version 4, newest zxid 8, session timeout 4 (ms), session 8, password
//	its answer      version 4, session timeout 4 (ms), session 8, password
//	request         xid 4, kind 4, fields of the kind
//	reply           xid 4, zxid 8, error code 4, fields of the kind
//
// A text or a password is its length in four bytes, and its bytes. A server closes the connection on
// what it does not understand, so nothing here is sent on trial.

const (
	opLogin      = 100      // auth
	opClose      = -11      // closeSession
	maxReply     = 64 << 20 // the longest reply that the package accepts
	maxHandshake = 1 << 10  // the longest answer to a handshake; a server's has some 40 bytes
	headerSize   = 16       // of a reply: xid, zxid, error code
	xidEvent     = -1       // of the event of a watch
)

// identity is what a handshake shows to continue a session. The zero value asks for a new one.
type identity struct {
	// id and passwd are what the service has given. Another client that knows both can end the session.
	id     int64
	passwd []byte

	// born is a transaction: a server that has seen it has seen the session's begin. It is 0 in the answer
	// to a handshake, until connect has learned it.
	born int64
}

// handshake is the answer to a handshake. Its id is 0 if there is no such session any more.
type handshake struct {
	identity
	ttl    time.Duration // the session timeout that the server grants, above 0 if id is not 0
	packet []byte        // the whole answer, for the library
}

// errHandshake: the peer is no ZooKeeper server.
var errHandshake = errors.New("the answer to the handshake is not ZooKeeper's")

// handshakeRequest asks to continue a session, or for a new one. A server that has not seen the
// transaction zxid yet closes the connection. So the reads of a session never go back in time.
func handshakeRequest(self identity, ttl time.Duration, zxid int64) []byte {
	passwd := self.passwd
	if len(passwd) == 0 {
		passwd = make([]byte, 16)
	}
	b := make([]byte, 8, 64) // its length, and the protocol's version
	b = binary.BigEndian.AppendUint64(b, uint64(zxid))
	b = binary.BigEndian.AppendUint32(b, uint32(ttl/time.Millisecond))
	b = binary.BigEndian.AppendUint64(b, uint64(self.id))
	b = binary.BigEndian.AppendUint32(b, uint32(len(passwd)))
	b = append(b, passwd...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// readPacket reads a packet and returns it with its length. Its body has at most that many bytes. The memory for it is
// taken at once, so the limit is what a server, or another program at its address, can make this process take.
func readPacket(r io.Reader, most int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err //nolint:wrapcheck // the connection's own
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < headerSize || n > uint32(most) {
		return nil, fmt.Errorf("a packet of %d bytes, want %d to %d: %w", n, headerSize, most, errSize)
	}
	packet := make([]byte, 4+n)
	copy(packet, head[:])
	_, err := io.ReadFull(r, packet[4:])
	return packet, err //nolint:wrapcheck // the same
}

// readHandshake reads the answer to a handshake. Any program may be at the address of a server, so every number is
// checked. The error of a connection that was closed names what ZooKeeper closes one for without a word.
func readHandshake(r io.Reader) (handshake, error) {
	packet, err := readPacket(r, maxHandshake)
	if errors.Is(err, errSize) || err == nil && len(packet) < 24 {
		return handshake{}, fmt.Errorf("%w: %w", errHandshake, err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: the server closed the connection: it has no quorum, its data is older than what it "+
			"showed before, it wants TLS, or it has too many connections from here", err)
	}
	if err != nil {
		return handshake{}, fmt.Errorf("handshake: %w", err)
	}
	h := handshake{packet: packet}
	h.ttl = time.Duration(int32(binary.BigEndian.Uint32(packet[8:]))) * time.Millisecond
	h.id = int64(binary.BigEndian.Uint64(packet[12:]))
	size, rest := binary.BigEndian.Uint32(packet[20:]), packet[24:]
	if uint64(size) > uint64(len(rest)) || h.id != 0 && h.ttl <= 0 {
		return handshake{}, fmt.Errorf("%w: a password of %d bytes in %d, a session timeout of %v", errHandshake, size, len(rest), h.ttl)
	}
	h.passwd = rest[:size]
	return h, nil
}

// shakeHands does the handshake on a new socket.
func shakeHands(c net.Conn, self identity, ttl time.Duration, zxid int64) (handshake, error) {
	if _, err := c.Write(handshakeRequest(self, ttl, zxid)); err != nil {
		return handshake{}, fmt.Errorf("handshake: %w", err)
	}
	return readHandshake(c)
}

// endSession ends a session on a new socket, with its logins. Nil means that the server has acknowledged this, and
// errExpired that there was no such session. A finalError is an answer that every server would give.
//
// It sends the logins and the request with the handshake, and does not wait for the answer to that. A handshake
// alone extends the session by its whole timeout: where only replies are lost, repeated handshakes would keep
// the session alive. A server carries out the requests behind a handshake when it has answered the
// handshake. The handshake shows the session's birth only, so that a server that is behind accepts it
// too, but none that has not seen the session yet: that one would answer that there is no such session.
func endSession(c net.Conn, self identity, ttl time.Duration, logins []Auth) error {
	b := handshakeRequest(self, ttl, self.born)
	for i, a := range logins {
		b = appendRequest(b, int32(1+i), opLogin, a.fields())
	}
	last := int32(1 + len(logins))
	if _, err := c.Write(appendRequest(b, last, opClose, nil)); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	h, err := readHandshake(c)
	if err != nil {
		return err
	}
	if h.id != self.id { // 0, or a session that is not ours
		return errExpired
	}
	for xid := int32(1); xid <= last; xid++ {
		reply, err := readPacket(c, maxReply)
		if err != nil {
			return fmt.Errorf("close: %w", err)
		}
		err = outcome(xid, headerOf(reply))
		switch {
		case err != nil && xid < last:
			return logins[xid-1].failed(err)
		case err != nil:
			return fmt.Errorf("close: %w", err)
		}
	}
	return nil
}

// outcome returns the error in the header of a reply to the request with that number. It is a finalError if every
// server would answer so.
func outcome(xid int32, h replyHeader) error {
	c := code(h.code)
	err := fmt.Errorf("the server's error is %d", c)
	switch {
	case h.xid != xid:
		return fmt.Errorf("%w: the reply is to request %d instead of %d", errOrder, h.xid, xid)
	case c == 0:
		return nil
	case c.class() == classOver:
		return errExpired
	case c.class() == classUnavailable:
		return c.explain(err)
	default:
		return finalError{lasting(c.explain(err))}
	}
}

// appendRequest appends a request to packets.
func appendRequest(packets []byte, xid, op int32, fields []byte) []byte {
	packets = binary.BigEndian.AppendUint32(packets, uint32(8+len(fields)))
	packets = binary.BigEndian.AppendUint32(packets, uint32(xid))
	packets = binary.BigEndian.AppendUint32(packets, uint32(op))
	return append(packets, fields...)
}

// fields returns a login as the fields of a request.
func (a Auth) fields() []byte {
	b := make([]byte, 4, 12+len(a.Scheme)+len(a.Credentials)) // its type
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(a.Scheme))), a.Scheme...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(a.Credentials))), a.Credentials...)
}

// requestHeader returns the number and the kind of a request from its packet.
func requestHeader(packet []byte) (xid, op int32, ok bool) {
	if len(packet) < 12 {
		return 0, 0, false
	}
	return int32(binary.BigEndian.Uint32(packet[4:])), int32(binary.BigEndian.Uint32(packet[8:])), true
}

// setXid sets the number of a request, or of the request that a reply is to.
func setXid(packet []byte, xid int32) { binary.BigEndian.PutUint32(packet[4:], uint32(xid)) }

// replyHeader begins a reply.
type replyHeader struct {
	xid  int32 // xidEvent: the event of a watch, -2: the answer to a ping
	zxid int64 // if positive, the newest transaction that the server has seen; since 3.9 an event's own
	code int32 // 0: no error
}

// headerOf returns the header of a reply that readPacket has returned.
func headerOf(packet []byte) replyHeader {
	return replyHeader{
		xid:  int32(binary.BigEndian.Uint32(packet[4:])),
		zxid: int64(binary.BigEndian.Uint64(packet[8:])),
		code: int32(binary.BigEndian.Uint32(packet[16:])),
	}
}
