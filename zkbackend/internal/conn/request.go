package conn

import (
	"slices"

	"github.com/go-zookeeper/zk"
)

// Request is one request to a server. It is made by the functions of this package, and may be sent more than once.
type Request struct {
	// call has the library send the request, and blocks until it has the answer.
	call func(*zk.Conn) (Answer, error)

	// watched: the packet asks for a watch, see watching.
	watched bool
}

// Answer is the answer to a request. Its slices belong to the caller.
type Answer struct {
	Data     []byte   // of Get
	Children []string // of Children, in no order
	Stat     zk.Stat  // of Get, Exists and Children; zero with an error

	// Ops has an answer for each op of a Multi. If that was not carried out, Failed is the index of
	// the op that the server refused.
	Ops    []zk.MultiResponse
	Failed int

	// Repeated reports that the request was sent before, on a connection that was lost, and may have
	// been carried out then too: one that deletes a node and gets zk.ErrNoNode may have deleted it.
	Repeated bool

	// Err is nil if the request was carried out, and the server's error otherwise.
	Err error
}

// Get reads the data and the Stat of a node.
func Get(path string) Request {
	return Request{call: func(c *zk.Conn) (Answer, error) {
		data, stat, err := c.Get(path)
		return Answer{Data: data, Stat: or0(stat)}, err
	}}
}

// Children lists a folder, with its Stat.
func Children(path string) Request {
	return Request{call: func(c *zk.Conn) (Answer, error) {
		names, stat, err := c.Children(path)
		return Answer{Children: names, Stat: or0(stat)}, err
	}}
}

// Exists reads the Stat of a node. The error of a node that is not there is zk.ErrNoNode. Servers from 3.8.4
// and 3.9.2 on require READ on a node that is there, older ones nothing (CVE-2024-23944).
func Exists(path string) Request {
	return Request{call: func(c *zk.Conn) (Answer, error) {
		there, stat, err := c.Exists(path)
		if err == nil && !there {
			err = zk.ErrNoNode
		}
		return Answer{Stat: or0(stat)}, err
	}}
}

// Sync is answered when the server has seen all that was committed before the request, and by the leader at
// once. A read behind it, also in the same call of Read, is not older; but see the package documentation.
func Sync() Request {
	return Request{call: func(c *zk.Conn) (a Answer, err error) {
		_, err = c.Sync("/")
		return a, err
	}}
}

// CreateContainer creates a container node without data.
func CreateContainer(path string, acl []zk.ACL) Request {
	return Request{call: func(c *zk.Conn) (a Answer, err error) {
		_, err = c.CreateContainer(path, []byte{}, zk.FlagContainer, acl)
		return a, err
	}}
}

// Multi is a transaction of *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest and
// *zk.CheckVersionRequest, of which all are carried out or none.
func Multi(ops ...any) Request {
	return Request{call: func(c *zk.Conn) (a Answer, err error) {
		if sizeOf(ops) > longestRequest {
			return a, zk.ErrShortBuffer // the library would panic if its buffer ended within the header of an op
		}
		a.Ops, err = c.Multi(ops...)
		if err == nil && len(a.Ops) != len(ops) {
			return a, errOddAnswer
		}
		// Ops before the one that was refused have no error, and those behind it "runtime inconsistency".
		a.Failed = max(slices.IndexFunc(a.Ops, func(r zk.MultiResponse) bool { return r.Error != nil }), 0)
		return a, err
	}}
}

// sizeOf returns the length of the packet of a transaction, without the length in front of it: what a server compares
// with its jute.maxbuffer.
func sizeOf(ops []any) int {
	const number, header = 4, 9
	text := func(n int) int { return number + n }
	size := 2*number + header // of the request, and behind the last op
	for _, op := range ops {
		size += header
		switch r := op.(type) {
		case *zk.CreateRequest:
			size += text(len(r.Path)) + text(len(r.Data)) + number + number
			for _, a := range r.Acl {
				size += number + text(len(a.Scheme)) + text(len(a.ID))
			}
		case *zk.SetDataRequest:
			size += text(len(r.Path)) + text(len(r.Data)) + number
		case *zk.DeleteRequest:
			size += text(len(r.Path)) + number
		case *zk.CheckVersionRequest:
			size += text(len(r.Path)) + number
		}
	}
	return size
}

// login logs in on the connection.
func login(a Auth) Request {
	return Request{call: func(c *zk.Conn) (Answer, error) { return Answer{}, c.AddAuth(a.Scheme, a.Credentials) }}
}

// watching returns a Get or Children that leaves a watch at the server. The library encodes a plain
// read, and the connection changes the packet. For the library remembers its own watches and repeats
// them on a new connection, with a data race. Events of watches that it does not know come all the same.
func (r Request) watching() Request {
	r.watched = true
	return r
}

// setWatch makes the packet of a read ask for a watch: its last byte does.
func setWatch(packet []byte) { packet[len(packet)-1] = 1 }

func or0(stat *zk.Stat) zk.Stat {
	if stat == nil {
		return zk.Stat{}
	}
	return *stat
}
