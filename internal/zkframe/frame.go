// Package zkframe reads the packets that a ZooKeeper client and its server
// exchange, for tests that are between the two.
package zkframe

import (
	"encoding/binary"
	"io"
	"time"
)

// The kinds of requests, as ZooKeeper's protocol numbers them.
const (
	OpCreate          = 1
	OpDelete          = 2
	OpExists          = 3
	OpGetData         = 4
	OpSetData         = 5
	OpSync            = 9
	OpPing            = 11
	OpGetChildren2    = 12
	OpCheck           = 13
	OpMulti           = 14
	OpCreateContainer = 19
	OpLogin           = 100
	OpSetWatches      = 101
	OpAddWatch        = 106
	OpClose           = -11
)

// partFailed is the kind of the parts in the answer to a transaction that failed.
const partFailed = -1

// Frame is a packet. Four bytes contain the length of the rest. In a request, its
// number and its kind follow. In a reply, the number of the request, the newest
// transaction (eight bytes) and an error code follow. The first packet of a
// connection, in both directions, is the handshake and has none of these.
//
// The methods accept any bytes: a field for which the packet is too short reads
// as 0 or "".
type Frame []byte

// Read reads a whole packet. It trusts the length, so r must come from a peer
// that speaks the protocol.
func Read(r io.Reader) (Frame, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	f := make(Frame, 4+binary.BigEndian.Uint32(head[:]))
	copy(f, head[:])
	_, err := io.ReadFull(r, f[4:])
	return f, err
}

// Xid returns the number of a request, also in the reply to it. It is below 0 for
// a ping, a login and a watch event.
func (f Frame) Xid() int32 { return f.Number(4) }

// Op returns the kind of a request.
func (f Frame) Op() int32 { return f.Number(8) }

// Path returns the path of a request for one node.
func (f Frame) Path() string { return f.Text(12) }

// FirstPath returns the path of the first request of a transaction.
func (f Frame) FirstPath() string { return f.Text(21) }

// Watches reports whether a read also asks for a watch, which is its last byte.
func (f Frame) Watches() bool { return len(f) > 0 && f[len(f)-1] != 0 }

// Done reports whether a reply means that the server has done a request of this
// kind. If a part of a transaction fails, the whole transaction fails, without an
// error code.
func (f Frame) Done(request int32) bool {
	const body = 20
	return f.Number(body-4) == 0 && (request != OpMulti || f.Number(body) != partFailed)
}

// Identity returns the session and the password in the answer to a handshake. The
// answer is a version, a timeout, the number of the session (0 if there is none
// any more), and its password.
func (f Frame) Identity() (session int64, password string) {
	if len(f) < 20 {
		return 0, ""
	}
	return int64(binary.BigEndian.Uint64(f[12:])), f.Text(20)
}

// Number returns the four bytes at an offset; 0 if there are none.
func (f Frame) Number(at int) int32 {
	if at < 0 || len(f) < at+4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(f[at:]))
}

// Text returns the text at an offset. Four bytes before the text contain its
// length.
func (f Frame) Text(at int) string {
	n := int(f.Number(at))
	if n < 0 || len(f) < at+4+n {
		return ""
	}
	return string(f[at+4 : at+4+n])
}

// Resume returns the handshake by which a connection takes over a session. It
// needs only the session's password.
func Resume(session int64, password string, timeout time.Duration) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(28+len(password)))
	b = append(b, make([]byte, 4+8)...) // version, newest transaction
	b = binary.BigEndian.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(session))
	b = binary.BigEndian.AppendUint32(b, uint32(len(password)))
	return append(b, password...)
}

// End returns what ends a session from another connection: the handshake that
// resumes it, and a close. Any client that knows the session's password can send
// this.
func End(session int64, password string, timeout time.Duration) []byte {
	b := Resume(session, password, timeout)
	closing := int32(OpClose)
	for _, n := range []uint32{8, 1, uint32(closing)} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}
