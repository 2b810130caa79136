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
// A transaction of ZooKeeper can require that a node exists, or does not (by making it), or has
// a number of writes, which begins at 0 again with every node. It cannot compare data. So each
// write of a record makes both nodes anew, and the name of the second has a random part.
//
//   - To require a version is to require its version node. No other write of the record makes a
//     node of that name, not even after the record was deleted. So a late request changes nothing.
//   - To require that a record is absent is to make the first node.
//   - To require a value is to require the version that had it when it was read last. If that
//     version is gone, the record is read again. A session that has written or read the record
//     needs no other read.
//
// Each write changes the children of the records' folder, by the version nodes. Watches of
// records are on that folder.
//
// Not handled: a record whose version node an operator has deleted alone. No request that requires
// the record as it was read can be met then, so a caller that needs it reads and tries again until
// its context ends. To delete a record by hand is to delete both nodes, as the package documentation
// states.

// recordKey names a record of a queue.
type recordKey struct{ queue, record string }

// knownRecords are records as they were read or written; a zero one was not there. What is known may be
// out of date at any time: the transaction that rests on it requires the version.
type knownRecords struct {
	seen[recordKey, driver.Record]
}

// see remembers a record, unless a newer one is known: answers do not come in the order of the
// store. That a record is absent has no token, so it is always remembered.
func (n *knownRecords) see(k recordKey, r driver.Record) {
	n.put(k, r, func(old driver.Record) bool { return r.Version != 0 && r.Token < old.Token })
}

// addRecord adds the read of a record. A record that is not there is zero.
func (b *batch) addRecord(s *zkSession, k recordKey, take func(driver.Record)) {
	path := s.b.lay.record(k.queue, k.record)
	b.add(conn.Get(path), func(a conn.Answer) error {
		var r driver.Record
		switch {
		case a.Err == nil:
			var ok bool
			r.Value, r.Version, ok = decodeRecord(a.Data)
			if !ok {
				return fmt.Errorf("%w: the record %s was written by another program: delete it", driver.ErrRefused, path)
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

// basis is what an Op requires of its record. The zero basis requires that it is absent.
type basis struct {
	// version is the version that the record must have; 0 if it must be absent.
	version int64

	// keep: the record is as the Op wants it, so nothing is written. version is above 0 then.
	keep bool
}

// steps returns the requests that change a record from its basis to a value, or delete it if
// value is nil. If a value is written, the Stat of the last answer has the record's token.
//
//	basis            value   requests
//	version, keep            require the version's node
//	version          a       delete both nodes, make both, write the first
//	version          nil     delete both nodes
//	absent           a       make both nodes, write the first
//	absent           nil     make the first node, delete it
//
// The deletions and creations are the conditions too. The last write is for the answer alone, which
// shows the transaction.
func (b basis) steps(l layout, k recordKey, value []byte, version int64, flags int32, acl []zk.ACL) (reqs []any) {
	path := l.record(k.queue, k.record)
	switch {
	case b.keep:
		return []any{exists(l.version(k.queue, k.record, b.version))}
	case b.version != 0:
		reqs = append(reqs, remove(l.version(k.queue, k.record, b.version)), remove(path))
	case value == nil:
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
