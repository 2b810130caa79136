// Package zkframe reads the packets that a ZooKeeper client and its server
// exchange, for tests that stand between the two.
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

// partFailed is in the answer to a transaction that was not done.
const partFailed = -1

// Frame is a packet: the length of what follows in four bytes, then for a request
// its number and its kind, for a reply the number of the request, the newest
// transaction in eight bytes, and an error code. The first of a connection, in
// both directions, is the handshake and has none of these.
//
// What a packet is too short for reads as 0 or "": its methods bear any bytes.
type Frame []byte

// Read reads a whole packet. It believes the length, so r is to be from a peer
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

// Xid is the number of a request, also in the reply to it; of a ping, a login and
// the news of a watch it is below 0.
func (f Frame) Xid() int32 { return f.Number(4) }

// Op is the kind of a request.
func (f Frame) Op() int32 { return f.Number(8) }

// Path is that of a request for one node.
func (f Frame) Path() string { return f.Text(12) }

// FirstPath is that of the first request of a transaction.
func (f Frame) FirstPath() string { return f.Text(21) }

// Watches says whether a read asks for a watch too: its last byte.
func (f Frame) Watches() bool { return len(f) > 0 && f[len(f)-1] != 0 }

// Done says of a reply that the server has done what a request of this kind asked
// for. A transaction fails as a whole with a part, and without an error code.
func (f Frame) Done(request int32) bool {
	const body = 20
	return f.Number(body-4) == 0 && (request != OpMulti || f.Number(body) != partFailed)
}

// Identity is what the answer to a handshake says: a version, a timeout, the
// number of the session, which is 0 if there is none any more, and its password.
func (f Frame) Identity() (session int64, password string) {
	if len(f) < 20 {
		return 0, ""
	}
	return int64(binary.BigEndian.Uint64(f[12:])), f.Text(20)
}

// Number reads four bytes; 0 if there are none.
func (f Frame) Number(at int) int32 {
	if at < 0 || len(f) < at+4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(f[at:]))
}

// Text reads what stands at a place, as long as the four bytes before it say.
func (f Frame) Text(at int) string {
	n := int(f.Number(at))
	if n < 0 || len(f) < at+4+n {
		return ""
	}
	return string(f[at+4 : at+4+n])
}

// Resume is the handshake by which a connection takes over a session. Whoever
// knows the session's password can send it.
func Resume(session int64, password string, timeout time.Duration) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(28+len(password)))
	b = append(b, make([]byte, 4+8)...) // version, newest transaction
	b = binary.BigEndian.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(session))
	b = binary.BigEndian.AppendUint32(b, uint32(len(password)))
	return append(b, password...)
}

// End is what anybody sends, on a connection of his own, who ends a session
// whose password he knows: the handshake that goes on with it, and the close.
func End(session int64, password string, timeout time.Duration) []byte {
	b := Resume(session, password, timeout)
	closing := int32(OpClose)
	for _, n := range []uint32{8, 1, uint32(closing)} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}
