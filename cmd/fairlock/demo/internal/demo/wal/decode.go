// Package wal follows the changes of tables in PostgreSQL's write-ahead log, by logical
// replication: all that was committed, in the order of the commits. See "Logical Replication
// Message Formats" in PostgreSQL's manual.
package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Change is a row that a transaction has made or deleted.
type Change struct {
	Table   string
	Made    bool              // false: it was deleted, and Columns are those of the primary key
	Columns map[string][]byte // as text; a null is missing
	Commit  int64             // where the commit of the transaction is in the log
}

// table is what the log has of a table before its first change.
type table struct {
	name    string
	columns []string
}

// decoder reads the messages of the output plugin pgoutput, version 1 of its protocol.
type decoder struct {
	tables map[uint32]table
	commit int64
}

func newDecoder() *decoder { return &decoder{tables: map[uint32]table{}} }

// decode reads a message. It returns false if that is no change which Change describes.
func (d *decoder) decode(message []byte) (c Change, ok bool, err error) {
	if len(message) == 0 {
		return c, false, errShort
	}
	r := &fields{rest: message[1:]}
	switch message[0] {
	case 'B':
		d.commit = int64(r.number(8))
	case 'R':
		d.relation(r)
	case 'I':
		c, err = d.row(r, "N")
		c.Made, ok = true, true
	case 'D':
		c, err = d.row(r, "KO")
		ok = true
	}
	return c, ok, errors.Join(err, r.err)
}

func (d *decoder) relation(r *fields) {
	id := uint32(r.number(4))
	_ = r.text() // the schema
	t := table{name: r.text()}
	_ = r.number(1) // how deleted rows are identified
	for range r.number(2) {
		_ = r.number(1) // whether it is part of the key
		t.columns = append(t.columns, r.text())
		_ = r.number(8) // type and modifier
	}
	d.tables[id] = t
}

// row reads a row of one of some kinds.
func (d *decoder) row(r *fields, kinds string) (Change, error) {
	t, known := d.tables[uint32(r.number(4))]
	kind := byte(r.number(1))
	n := int(r.number(2))
	if r.err != nil {
		return Change{}, r.err
	}
	if !known || n != len(t.columns) || !bytes.ContainsRune([]byte(kinds), rune(kind)) {
		return Change{}, fmt.Errorf("a row %q of %d columns, and table %q has %d", kind, n, t.name, len(t.columns))
	}
	c := Change{Table: t.name, Columns: map[string][]byte{}, Commit: d.commit}
	for _, column := range t.columns {
		if r.number(1) == 't' {
			c.Columns[column] = r.bytes(int(r.number(4)))
		}
	}
	return c, nil
}

var errShort = errors.New("a message is too short")

// fields reads the fields of a message. After an error it returns zeros.
type fields struct {
	rest []byte
	err  error
}

func (f *fields) bytes(n int) []byte {
	if n < 0 || n > len(f.rest) {
		f.err, f.rest = errShort, nil
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

// number reads a number of at most eight bytes.
func (f *fields) number(size int) uint64 {
	var b [8]byte
	copy(b[8-size:], f.bytes(size))
	return binary.BigEndian.Uint64(b[:])
}

func (f *fields) text() string {
	i := bytes.IndexByte(f.rest, 0)
	if i < 0 {
		f.err, f.rest = errShort, nil
		return ""
	}
	return string(f.bytes(i + 1)[:i])
}
