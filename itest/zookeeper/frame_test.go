package zookeeper

import (
	"encoding/binary"
	"io"
)

// The kinds of requests that ZooKeeper's protocol numbers.
const (
	opCreate          = 1
	opDelete          = 2
	opExists          = 3
	opGetData         = 4
	opSetData         = 5
	opSync            = 9
	opPing            = 11
	opGetChildren     = 12
	opCheck           = 13
	opMulti           = 14
	opCreateContainer = 19
	opLogin           = 100
	opSetWatches      = 101
	opAddWatch        = 106
	opClose           = -11
)

// frame is a packet: the length of what follows in four bytes, then for a
// request its number and its kind, for a reply the number of the request, the
// newest transaction in eight bytes, and an error code. The first of a
// connection, in both directions, is the handshake and has none of these.
type frame []byte

// readFrame reads a whole packet.
func readFrame(r io.Reader) (frame, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	f := make(frame, 4+binary.BigEndian.Uint32(head[:]))
	copy(f, head[:])
	_, err := io.ReadFull(r, f[4:])
	return f, err
}

func (f frame) xid() int32 { return f.number(4) }
func (f frame) op() int32  { return f.number(8) }

// number reads four bytes; 0 if there are none.
func (f frame) number(at int) int32 {
	if len(f) < at+4 {
		return 0
	}
	return int32(binary.BigEndian.Uint32(f[at:]))
}

// text reads what stands at a place, as long as the four bytes before it say.
func (f frame) text(at int) string {
	n := int(f.number(at))
	if n < 0 || len(f) < at+4+n {
		return ""
	}
	return string(f[at+4 : at+4+n])
}

// path is that of a request for one node, created that of the first step of a
// transaction, behind the step's header of nine bytes.
func (f frame) path() string    { return f.text(12) }
func (f frame) created() string { return f.text(21) }

// part is one request of a transaction, or a request that is alone.
type part struct {
	op    int32
	path  string
	flags int32 // of a create
}

// parts are the requests in a request: each of a transaction has a header of
// nine bytes, a path, and what its kind needs.
func (f frame) parts() (all []part) {
	if f.op() != opMulti {
		return []part{{op: f.op(), path: f.path(), flags: f.number(len(f) - 4)}}
	}
	for at := 12; len(f) >= at+9 && f[at+4] == 0; {
		p := part{op: f.number(at), path: f.text(at + 9)}
		at += 9 + 4 + len(p.path)
		switch p.op {
		case opCreate:
			at += 4 + len(f.text(at)) // the data
			n := f.number(at)
			for at += 4; n > 0; n-- { // permissions: a number and two texts
				at += 4
				at += 4 + len(f.text(at))
				at += 4 + len(f.text(at))
			}
			p.flags = f.number(at)
			at += 4
		case opSetData:
			at += 4 + len(f.text(at)) + 4
		default:
			at += 4 // the version
		}
		all = append(all, p)
	}
	return all
}

// watches says that a read asks for a watch too: its last byte.
func (f frame) watches() bool { return f[len(f)-1] != 0 }

// proves says that a request is a heartbeat: a sync of the root, or a check of it.
func (f frame) proves() bool {
	switch f.op() {
	case opPing:
		return true
	case opSync:
		return f.path() == "/"
	case opMulti:
		return f.number(12) == opCheck && f.created() == "/"
	}
	return false
}
