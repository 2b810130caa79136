package zktest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"time"
)

// The kinds of transactions in a log. See org.apache.zookeeper.txn and
// ZooDefs.OpCode. All other kinds change no node.
const (
	txnError           = -1
	txnCloseSession    = -11
	txnCreate          = opCreate
	txnDelete          = opDelete
	txnSetData         = 5
	txnMulti           = 14
	txnCreate2         = 15
	txnCreateContainer = 19
	txnDeleteContainer = 20
	txnCreateTTL       = 21
)

// ended is a change without a path: the end of a session, which deletes all of
// its nodes. The record may name them too (zookeeper.closeSessionTxn.enabled),
// but need not.
const ended ChangeKind = "ended"

var errTorn = errors.New("it ends too soon")

// eachRecord calls f with each transaction of a log until the log ends, or until
// f returns an error. If f returns io.EOF, eachRecord stops and returns nil.
func eachRecord(log io.Reader, f func(txn []byte) error) error {
	in := bufio.NewReader(log)
	if _, err := in.Discard(len(logMagic)); err != nil {
		return nil //nolint:nilerr // the server has just created the file
	}
	return eachRecordOf(in, f)
}

// eachRecordOf is eachRecord for a log without its header.
func eachRecordOf(in io.Reader, f func(txn []byte) error) error {
	for {
		var head [recordHead]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil //nolint:nilerr // the end, or a record that is being written
		}
		sum, size := binary.BigEndian.Uint64(head[:]), int32(binary.BigEndian.Uint32(head[8:]))
		if size < txnHead || size > maxRecord {
			return nil
		}
		record := make([]byte, size+1)
		if _, err := io.ReadFull(in, record); err != nil {
			return nil //nolint:nilerr // as above
		}
		txn := record[:size]
		if record[size] != endOfRecord || uint64(adler32.Checksum(txn)) != sum {
			return nil
		}
		err := f(txn)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// maxRecord is larger than any record: servers accept no request above 1 MB.
const maxRecord = 1 << 24

// txnHeader is the head of every transaction.
type txnHeader struct {
	session, zxid int64
	at            time.Time
	kind          int32
}

func headOf(txn []byte) (txnHeader, []byte) {
	return txnHeader{
		session: int64(binary.BigEndian.Uint64(txn)),
		zxid:    int64(binary.BigEndian.Uint64(txn[txnZxid:])),
		at:      time.UnixMilli(int64(binary.BigEndian.Uint64(txn[txnTime:]))),
		kind:    int32(binary.BigEndian.Uint32(txn[txnHead-4:])),
	}, txn[txnHead:]
}

// decode returns the changes that a transaction makes. A digest may follow the
// transaction.
func decode(head txnHeader, rest []byte) ([]Change, error) {
	d := decoder{rest: rest}
	c := Change{Zxid: head.zxid, Session: head.session, At: head.at}
	switch head.kind {
	case txnMulti:
		return decodeMulti(head, &d)
	case txnCloseSession:
		c.Kind = ended
	case txnCreate, txnCreate2, txnCreateContainer, txnCreateTTL:
		c.Kind, c.Path, c.Data = Created, d.text(), d.bytes()
		d.acl()
		plain := head.kind == txnCreate || head.kind == txnCreate2
		if plain && d.take(1)[0] != 0 {
			c.Owner = head.session
		}
	case txnDelete, txnDeleteContainer:
		c.Kind, c.Path = Deleted, d.text()
	case txnSetData:
		c.Kind, c.Path, c.Data = Written, d.text(), d.bytes()
	default:
		return nil, nil
	}
	return []Change{c}, d.err
}

// decodeMulti returns the changes of all parts of a transaction. It returns none
// if one part failed: the log then contains the parts before it as if they had
// been done.
func decodeMulti(head txnHeader, d *decoder) (all []Change, err error) {
	failed := false
	for n := d.number(); n > 0 && d.err == nil; n-- {
		part := head
		part.kind = d.number()
		did, err := decode(part, d.bytes())
		if err != nil {
			return nil, fmt.Errorf("part of kind %d: %w", part.kind, err)
		}
		failed = failed || part.kind == txnError
		all = append(all, did...)
	}
	if failed {
		return nil, d.err
	}
	return all, d.err
}

// decoder reads what Java has written with jute, and keeps the first error.
type decoder struct {
	rest []byte
	err  error
}

// take returns n bytes, zeros when there are no more.
func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.rest, d.err = nil, errTorn
		return make([]byte, min(max(n, 0), 8))
	}
	taken := d.rest[:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *decoder) number() int32 { return int32(binary.BigEndian.Uint32(d.take(4))) }

// bytes reads a length and as many bytes; a length of -1 stands for none.
func (d *decoder) bytes() []byte { return d.take(int(max(d.number(), 0))) }

func (d *decoder) text() string { return string(d.bytes()) }

// acl skips permissions: a number, a scheme and an identity each.
func (d *decoder) acl() {
	for n := d.number(); n > 0 && d.err == nil; n-- {
		d.number()
		d.bytes()
		d.bytes()
	}
}
