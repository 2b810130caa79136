package zkbackend

import (
	"bytes"
	"encoding/binary"

	"github.com/go-zookeeper/zk"
)

// watchMark is put behind the path of a read that is to leave a watch at the
// server. The library is told of a plain read, and the tap makes the other of it:
// for the library remembers its watches, repeats them when its loop comes to
// that, which on a busy machine can be after the first of them has been made, and
// then reads without a lock what the replies write (zk.Conn's sendSetWatches and
// lastZxid). What it does not know it cannot repeat, and the events come all the
// same. No path that we use can end like this: a "%" stands before hex digits
// there, or before the word "beside".
const watchMark = "/%watch"

// getWatched is GetW.
func getWatched(c *zk.Conn, path string) ([]byte, *zk.Stat, error) {
	return c.Get(path + watchMark) //nolint:wrapcheck // it is the answer to a request
}

// childrenWatched is ChildrenW.
func childrenWatched(c *zk.Conn, path string) ([]string, *zk.Stat, error) {
	return c.Children(path + watchMark) //nolint:wrapcheck // it is the answer to a request
}

// watching returns what is to be sent in the place of a packet of the library's:
// length, number and kind of request, path with its length, and for these kinds
// the byte that asks for a watch.
func watching(packet []byte) []byte {
	const path = 16 // where it begins
	if len(packet) <= path {
		return packet
	}
	op := int32(binary.BigEndian.Uint32(packet[8:])) //nolint:gosec // kinds are signed
	end := len(packet) - 1
	if op != opGetData && op != opGetChildren2 || !bytes.HasSuffix(packet[path:end], []byte(watchMark)) {
		return packet
	}
	end -= len(watchMark)
	p := append(bytes.Clone(packet[:end]), 1)
	binary.BigEndian.PutUint32(p, uint32(len(p)-4))          //nolint:gosec // it was longer before
	binary.BigEndian.PutUint32(p[path-4:], uint32(end-path)) //nolint:gosec // the same
	return p
}
