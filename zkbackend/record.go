package zkbackend

import (
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// A record is two nodes, which are made and deleted together:
//
//	records/limit           the value, and the version
//	records/limit@<version> nothing
//
// A transaction of ZooKeeper can require that a node is there, or is not there (by making
// it), or has a number of writes, which begins at 0 again with every node. It cannot
// compare data. So each write of a record makes both nodes anew, and the second has a
// random name. To require a version is to require that node: no other write of the record
// has it, also after the record was deleted, so a request that arrives late changes
// nothing. To require that a record is absent is to make the first node. To require a
// value is to require the version that had it when it was read last; if that version is
// gone, the record is read again. A session that has written a record, or has read it,
// needs no read for that.
//
// The version nodes make each write a change of the folder's children, which is what
// watches of records are on.

// recordKey names a record.
type recordKey struct{ queue, record string }

// knownRecords are records as they were read or written; a zero one was not there.
type knownRecords struct {
	seen[recordKey, driver.Record]
}

// see takes in a record. Answers do not come in the order of the store, so what has a lower
// token is dropped.
func (n *knownRecords) see(k recordKey, r driver.Record) {
	n.put(k, r, func(old driver.Record) bool { return r.Version != 0 && r.Token < old.Token })
}

// errDamaged: only an operator can help.
var errDamaged = fmt.Errorf("%w: a record's nodes are damaged", driver.ErrRefused)

// addRecord adds the read of a record, which is zero if it is not there.
func (b *batch) addRecord(s *zkSession, k recordKey, take func(driver.Record)) {
	path := s.b.lay.record(k.queue, k.record)
	b.add(conn.Get(path), func(a conn.Answer) error {
		var r driver.Record
		switch {
		case a.Err == nil:
			var ok bool
			if r.Value, r.Version, ok = decodeRecord(a.Data); !ok {
				return fmt.Errorf("%w: %s was written by another program: delete it", errDamaged, path)
			}
			r.Token = a.Stat.Mzxid
		case !isMissing(a.Err):
			return translate(a.Err, "READ", path)
		}
		s.records.see(k, r)
		take(r)
		return nil
	})
}

// basis is what an Op requires of its record: a version, or 0: that it is absent.
type basis struct {
	version int64
	keep    bool // and nothing is written
}

// steps are the requests that change a record from its basis to a value, nil for none. The
// last of those that write has the record's token in its Stat.
func (b basis) steps(l layout, k recordKey, value []byte, version int64, flags int32, acl []zk.ACL) (reqs []any) {
	path := l.record(k.queue, k.record)
	switch {
	case b.keep:
		return []any{exists(l.version(k.queue, k.record, b.version))}
	case b.version != 0:
		reqs = append(reqs, remove(l.version(k.queue, k.record, b.version)), remove(path))
	case value == nil: // it must be absent, and stays so
		reqs = append(reqs, create(path, nil, flags, acl), remove(path))
	}
	if value == nil {
		return reqs
	}
	return append(reqs,
		create(path, nil, flags, acl),
		create(l.version(k.queue, k.record, version), nil, flags, acl),
		setData(path, encodeRecord(value, version), -1),
	)
}
