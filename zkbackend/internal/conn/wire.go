package conn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// This file has the little of ZooKeeper's protocol that the package writes and reads itself: the
// handshake of a connection, the request that ends a session, and the headers of requests and
// replies. Numbers are big endian. A packet is its length in four bytes, and its body.

const (
	opClose      = -11      // closeSession
	maxReply     = 64 << 20 // the longest reply that is read
	maxHandshake = 1 << 10  // the answer to a handshake has some 40 bytes
	headerSize   = 16       // of a reply: xid, zxid, error code
)

// identity is what a connection needs to speak for a session. The zero value asks for a new one.
type identity struct {
	id     int64
	passwd []byte
}

// handshake is the answer to a handshake. Its id is 0 if there is no such session any more.
type handshake struct {
	identity
	ttl    time.Duration // the session timeout that the server counts; it may not be the one asked for
	packet []byte
}

// errHandshake: the peer does not speak ZooKeeper's protocol.
var errHandshake = errors.New("the answer to the handshake is not ZooKeeper's")

// handshakeRequest asks to go on with a session, or for a new one. A server that has not seen the
// transaction zxid yet closes the connection, so what a session reads never goes back.
func handshakeRequest(who identity, ttl time.Duration, zxid int64) []byte {
	passwd := who.passwd
	if len(passwd) == 0 {
		passwd = make([]byte, 16)
	}
	b := make([]byte, 8, 64) // its length, and the protocol's version
	b = binary.BigEndian.AppendUint64(b, uint64(zxid))
	b = binary.BigEndian.AppendUint32(b, uint32(ttl/time.Millisecond))
	b = binary.BigEndian.AppendUint64(b, uint64(who.id))
	b = binary.BigEndian.AppendUint32(b, uint32(len(passwd)))
	b = append(b, passwd...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// readPacket reads a packet, with its length, of at most so many bytes.
func readPacket(r io.Reader, most int) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err //nolint:wrapcheck // the connection's own
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < headerSize || n > uint32(most) {
		return nil, &sizeError{size: n, most: most}
	}
	packet := make([]byte, 4+n)
	copy(packet, head[:])
	_, err := io.ReadFull(r, packet[4:])
	return packet, err //nolint:wrapcheck // the same
}

// readHandshake reads the answer to a handshake.
func readHandshake(r io.Reader) (handshake, error) {
	packet, err := readPacket(r, maxHandshake)
	if _, odd := errors.AsType[*sizeError](err); odd || err == nil && len(packet) < 24 {
		return handshake{}, fmt.Errorf("%w: %w", errHandshake, err)
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

// shakeHands does the handshake on a fresh socket.
func shakeHands(c net.Conn, who identity, ttl time.Duration, zxid int64) (handshake, error) {
	if _, err := c.Write(handshakeRequest(who, ttl, zxid)); err != nil {
		return handshake{}, fmt.Errorf("handshake: %w", err)
	}
	h, err := readHandshake(c)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: the server closed the connection: it has no quorum, its data is older than what it "+
			"showed before, it wants TLS, or it has too many connections from here", err)
	}
	return h, err
}

// endSession ends a session on a fresh socket. Nil means that the server has acknowledged this, and
// errExpired that there was no such session.
//
// The request is sent with the handshake, without waiting for an answer. A handshake by itself
// extends the session by its whole timeout, and where only replies are lost, one handshake after the
// other would keep the session alive. Servers carry out what comes behind a handshake when they have
// answered it. The handshake shows no transaction, so that a server that is behind takes it too.
func endSession(c net.Conn, who identity, ttl time.Duration) error {
	const xid = 1
	closing := int32(opClose)
	b := binary.BigEndian.AppendUint32(handshakeRequest(who, ttl, 0), 8)
	b = binary.BigEndian.AppendUint32(b, xid)
	if _, err := c.Write(binary.BigEndian.AppendUint32(b, uint32(closing))); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	h, err := readHandshake(c)
	if err != nil {
		return err
	}
	if h.id != who.id { // 0, or a session that is not ours
		return errExpired
	}
	reply, err := readPacket(c, maxReply)
	if err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if r := headerOf(reply); r.xid != xid || r.code != 0 {
		return fmt.Errorf("close: request %d was answered with error %d, want request %d and no error", r.xid, r.code, xid)
	}
	return nil
}

// requestHeader reads the number and the kind of a request from its packet.
func requestHeader(packet []byte) (xid, op int32, ok bool) {
	if len(packet) < 12 {
		return 0, 0, false
	}
	return int32(binary.BigEndian.Uint32(packet[4:])), int32(binary.BigEndian.Uint32(packet[8:])), true
}

// replyHeader stands before the body of a reply.
type replyHeader struct {
	xid  int32 // -1: the event of a watch, -2: the answer to a ping
	zxid int64 // the newest transaction that the server knew, if positive
	code int32 // 0: no error
}

// headerOf reads the header of a reply that readPacket has returned.
func headerOf(packet []byte) replyHeader {
	return replyHeader{
		xid:  int32(binary.BigEndian.Uint32(packet[4:])),
		zxid: int64(binary.BigEndian.Uint64(packet[8:])),
		code: int32(binary.BigEndian.Uint32(packet[16:])),
	}
}
