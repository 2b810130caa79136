package onzk

import (
	"encoding/binary"
	"io"
	"regexp"

	"github.com/go-zookeeper/zk"
)

// The kinds of requests that ZooKeeper's protocol numbers.
const (
	opCreate       = 1
	opDelete       = 2
	opGetData      = 4
	opSetData      = 5
	opSync         = 9
	opPing         = 11
	opGetChildren2 = 12
	opMulti        = 14
	opClose        = -11

	partFailed = -1 // in the answer to a transaction that was not done
)

// The kinds of requests whose replies can be lost. Fairlock and zk.Lock make
// entries and delete them in one way each: in transactions, and alone.
const (
	Create      = "create" // of an entry
	GetChildren = "getChildren2"
	GetData     = "getData"
	Sync        = "sync" // Fairlock's heartbeats too
	Delete      = "delete"
	Ping        = "ping" // the client library's heartbeats
)

// frame is a packet: the length of what follows in four bytes, then for a request
// its number and its kind, for a reply the number of the request, the newest
// transaction in eight bytes, and an error code. The first of a connection, in
// both directions, is the handshake and has none of these.
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

// done says of a reply that the server has done what it was asked for.
func (f frame) done(request int32) bool {
	const body = 20
	return f.number(body-4) == 0 && (request != opMulti || f.number(body) != partFailed)
}

// identity is what the answer to a handshake says: a version, a timeout, the
// number of the session, which is 0 if there is none any more, and its password.
func (f frame) identity() (session int64, password string) {
	if len(f) < 20 {
		return 0, ""
	}
	return int64(binary.BigEndian.Uint64(f[12:])), f.text(20)
}

// part is one request of a transaction, or a request that is alone.
type part struct {
	op    int32
	path  string
	flags int32 // of a create
}

// parts are the requests in a request: each of a transaction has a header of nine
// bytes, a path, and what its kind needs.
func (f frame) parts() (all []part) {
	if f.op() != opMulti {
		return []part{{op: f.op(), path: f.text(12), flags: f.number(len(f) - 4)}}
	}
	for at := 12; len(f) >= at+9 && f[at+4] == 0; {
		p := part{op: f.number(at), path: f.text(at + 9)}
		at += 9 + 4 + len(p.path)
		switch p.op {
		case opCreate:
			at += 4 + len(f.text(at)) // the data
			n := f.number(at)
			for at += 4; n > 0 && at < len(f); n-- { // permissions: a number and two texts
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

// isEntry is what the path of an entry ends with, whoever made it.
var isEntry = regexp.MustCompile(`/[^/]*(lock-|__READ__|__WRIT__)[0-9]{10}$`)

// kind says which of the kinds a request is; "" if it is none.
func (f frame) kind() string {
	switch f.op() {
	case opGetChildren2:
		return GetChildren
	case opGetData:
		return GetData
	case opSync:
		return Sync
	case opPing:
		return Ping
	case opCreate, opDelete, opMulti:
		kind := ""
		for _, p := range f.parts() {
			switch {
			case p.op == opCreate && p.flags&zk.FlagSequence != 0:
				return Create
			case p.op == opDelete && isEntry.MatchString(p.path):
				kind = Delete
			}
		}
		return kind
	}
	return ""
}
