package zkbackend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The little of ZooKeeper's protocol that we speak and read ourselves: the
// handshake of a connection, and the headers of requests and replies. Numbers
// are big endian; a packet is its length in four bytes and its body.

const (
	opClose        = -11 // closeSession
	opGetData      = 4
	opGetChildren2 = 12
	opAuth         = 100
	maxReply       = 64 << 20
	maxHello       = 1 << 10 // a handshake's answer is some 40 bytes
	headerSize     = 16      // of a reply: xid, zxid, error
)

// identity is what a connection needs to speak for a session; the zero value
// asks for a new one.
type identity struct {
	id     int64
	passwd []byte
}

// hello is the answer to a handshake.
type hello struct {
	identity
	ttl    time.Duration // what the server counts; may differ from what was asked for
	packet []byte        // as it came, length included
}

// handshakeRequest asks to go on with a session, or for a new one. A server
// that has not seen the transaction zxid yet closes the connection, so that
// nobody's view goes back in time.
func handshakeRequest(who identity, ttl time.Duration, zxid int64) []byte {
	passwd := who.passwd
	if len(passwd) == 0 {
		passwd = make([]byte, 16)
	}
	b := make([]byte, 4, 48)
	b = binary.BigEndian.AppendUint32(b, 0) // protocol version
	b = binary.BigEndian.AppendUint64(b, uint64(zxid))
	b = binary.BigEndian.AppendUint32(b, uint32(ttl/time.Millisecond))
	b = binary.BigEndian.AppendUint64(b, uint64(who.id))
	b = binary.BigEndian.AppendUint32(b, uint32(len(passwd)))
	b = append(b, passwd...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// errHello: what answered the handshake does not speak ZooKeeper's protocol.
var errHello = errors.New("the answer to the handshake is not ZooKeeper's")

// readHello reads the answer to a handshake. It has an id of 0 if there is no
// such session any more.
func readHello(r io.Reader) (hello, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return hello{}, fmt.Errorf("handshake: %w", err)
	}
	n := binary.BigEndian.Uint32(head)
	if n < 20 || n > maxHello {
		return hello{}, fmt.Errorf("%w: a packet of %d bytes", errHello, n)
	}
	packet := make([]byte, 4+n)
	copy(packet, head)
	body := packet[4:]
	if _, err := io.ReadFull(r, body); err != nil {
		return hello{}, fmt.Errorf("handshake: %w", err)
	}
	h := hello{packet: packet}
	h.ttl = time.Duration(int32(binary.BigEndian.Uint32(body[4:]))) * time.Millisecond
	h.id = int64(binary.BigEndian.Uint64(body[8:]))
	size := binary.BigEndian.Uint32(body[16:])
	if uint64(size) > uint64(n-20) {
		return hello{}, fmt.Errorf("%w: a password of %d bytes in %d", errHello, size, n)
	}
	h.passwd = body[20 : 20+size]
	if h.id != 0 && h.ttl <= 0 {
		return hello{}, fmt.Errorf("%w: a session timeout of %v", errHello, h.ttl)
	}
	return h, nil
}

// greet does the handshake on a fresh connection.
func greet(c net.Conn, who identity, ttl time.Duration, zxid int64) (hello, error) {
	if _, err := c.Write(handshakeRequest(who, ttl, zxid)); err != nil {
		return hello{}, fmt.Errorf("handshake: %w", err)
	}
	h, err := readHello(c)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: the server closed the connection: it has no quorum, its data is older than what it "+
			"showed before, it wants TLS, or it has too many connections from here", err)
	}
	return h, err
}

// bidFarewell ends a session on a fresh connection, and returns nil if that was
// acknowledged. It returns errExpired if there was no such session.
//
// The request to end it is sent with the handshake, without waiting for an answer.
// A handshake by itself prolongs the session by its whole timeout, and where only
// replies are lost, one after the other would keep the dead alive. Servers serve
// what comes behind a handshake when they have answered it. The handshake shows no
// transaction, so that also a server that is behind takes it.
func bidFarewell(c net.Conn, who identity, ttl time.Duration) error {
	const xid = 1
	if _, err := c.Write(append(handshakeRequest(who, ttl, 0), request(xid, opClose)...)); err != nil {
		return fmt.Errorf("farewell: %w", err)
	}
	h, err := readHello(c)
	if err != nil {
		return err
	}
	if h.id != who.id { // 0, or one that is not ours
		return errExpired
	}
	reply := make([]byte, 4+headerSize)
	if _, err := io.ReadFull(c, reply); err != nil {
		return fmt.Errorf("farewell: %w", err)
	}
	got, code := int32(binary.BigEndian.Uint32(reply[4:])), int32(binary.BigEndian.Uint32(reply[16:]))
	if got != xid || code != 0 {
		return fmt.Errorf("farewell: request %d was answered with error %d, want request %d and no error", got, code, xid)
	}
	return nil
}

// request is one without a body.
func request(xid, op int32) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 12), 8)
	b = binary.BigEndian.AppendUint32(b, uint32(xid))
	return binary.BigEndian.AppendUint32(b, uint32(op))
}

// requestHeader reads the number and the kind of a request from its packet.
func requestHeader(packet []byte) (xid, op int32, ok bool) {
	if len(packet) < 12 {
		return 0, 0, false
	}
	return int32(binary.BigEndian.Uint32(packet[4:])), int32(binary.BigEndian.Uint32(packet[8:])), true
}

// replyHeader is what stands before the body of a reply.
type replyHeader struct {
	size int   // of header and body
	xid  int32 // -1: an event, -2: the answer to a ping
	zxid int64 // the newest transaction that the server knew, if positive
	code int32 // 0: no error
}

// replies finds the headers in a stream of replies as it passes by.
type replies struct {
	head [4 + headerSize]byte
	have int // bytes of head
	skip int // bytes of the present packet that are still to come
}

// pass takes in the next bytes, and calls f for each header in them.
func (r *replies) pass(b []byte, f func(replyHeader)) {
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
		if r.have < len(r.head) {
			continue
		}
		r.have = 0
		h := replyHeader{
			size: int(binary.BigEndian.Uint32(r.head[:])),
			xid:  int32(binary.BigEndian.Uint32(r.head[4:])),
			zxid: int64(binary.BigEndian.Uint64(r.head[8:])),
			code: int32(binary.BigEndian.Uint32(r.head[16:])),
		}
		r.skip = max(h.size-headerSize, 0)
		f(h)
	}
}
