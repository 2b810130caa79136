// Package journal reads the transaction log of a ZooKeeper server while the server writes
// it. A client cannot see every change: a watch fires once, and is not notified of changes
// until it is set again. The log has all changes, in order, and is on the disk before any
// client gets an answer.
package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Txn is one transaction, with the nodes that it created and deleted.
type Txn struct {
	Zxid int64
	Ops  []Op
}

// Op is one node that was created or deleted.
type Op struct {
	Created   bool
	Container bool // created as a container, which the server removes after its last child
	Path      string
	Data      []byte // of a created node
}

// The kinds of transactions, as in org.apache.zookeeper.ZooDefs.OpCode.
const (
	opError           = -1
	opCloseSession    = -11
	opCreateSession   = -10
	opCreate          = 1
	opDelete          = 2
	opSetData         = 5
	opSetACL          = 7
	opCheck           = 13
	opMulti           = 14
	opCreate2         = 15
	opReconfig        = 16
	opCreateContainer = 19
	opDeleteContainer = 20
	opCreateTTL       = 21
)

// errShort is the error of a transaction that ends too early.
var errShort = errors.New("it is too short")

// parse reads a transaction: a TxnHeader (session, xid, zxid, time, kind), then the fields
// of its kind. A digest may follow, which parse ignores.
func parse(b []byte) (Txn, error) {
	c := cursor{b: b}
	c.take(8 + 4)
	t := Txn{Zxid: c.long()}
	c.take(8)
	kind := c.int()
	if err := t.add(kind, &c, false); err != nil {
		return t, fmt.Errorf("transaction %#x of kind %d: %w", t.Zxid, kind, err)
	}
	if c.short {
		return t, fmt.Errorf("transaction %#x of kind %d: %w", t.Zxid, kind, errShort)
	}
	return t, nil
}

// add reads the fields of a kind of transaction. Inner is true for a part of another
// transaction.
func (t *Txn) add(kind int32, c *cursor, inner bool) error {
	switch kind {
	case opCreate, opCreate2, opCreateContainer, opCreateTTL:
		path, data := string(c.bytes()), c.bytes()
		t.Ops = append(t.Ops, Op{Created: true, Container: kind == opCreateContainer, Path: path, Data: data})
	case opDelete, opDeleteContainer:
		t.Ops = append(t.Ops, Op{Path: string(c.bytes())})
	case opCloseSession: // with the paths of its ephemeral nodes, since 3.6
		for range c.count() {
			t.Ops = append(t.Ops, Op{Path: string(c.bytes())})
		}
	case opMulti:
		if inner {
			return errors.New("it is part of another")
		}
		return t.addParts(c)
	case opError, opCreateSession, opSetData, opSetACL, opCheck, opReconfig:
	default:
		return errors.New("there is no such kind")
	}
	return nil
}

// addParts reads the parts of a transaction of several. If the server refused one part, it
// did none of them, although the log contains those before it.
func (t *Txn) addParts(c *cursor) error {
	refused := false
	for range c.count() {
		kind := c.int()
		part := cursor{b: c.bytes()}
		if err := t.add(kind, &part, true); err != nil {
			return err
		}
		refused = refused || kind == opError
		c.short = c.short || part.short
	}
	if refused {
		t.Ops = nil
	}
	return nil
}

// cursor reads jute, ZooKeeper's serialization.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.b, c.short = nil, true
		return nil
	}
	taken := c.b[:n:n]
	c.b = c.b[n:]
	return taken
}

func (c *cursor) int() int32 {
	b := c.take(4)
	if b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (c *cursor) long() int64 {
	b := c.take(8)
	if b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// bytes reads a buffer or a string. It returns an empty one for null.
func (c *cursor) bytes() []byte { return c.take(c.length()) }

// count reads the length of a vector. Each element takes at least the 4 bytes of its own
// length.
func (c *cursor) count() int {
	n := c.length()
	if n > len(c.b)/4 {
		c.b, c.short = nil, true
		return 0
	}
	return n
}

func (c *cursor) length() int { return max(int(c.int()), 0) }
