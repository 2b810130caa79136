package etcdbackend

import (
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/session/driver"
)

// entry reads a key of a line. full says that the answer has the value and the
// lease too, which keys-only answers have not. A value that is for others to
// read is left out: it can be long, and only lists show it.
func (l layout) entry(line string, kv *mvccpb.KeyValue, full bool) driver.Entry {
	e := driver.Entry{
		Ref:   driver.Ref{Line: line, Key: string(kv.Key), Place: kv.CreateRevision},
		Token: kv.CreateRevision,
	}
	k, ok := parseEntry(string(kv.Key[len(l.prefix(line)):]))
	if ok {
		e.Mode, e.Weight, e.Session = k.mode, k.weight, leaseName(k.lease)
	} else {
		e.Foreign = true
	}
	if !full {
		// Only Admit writes a semaphore's entry, so that it was written is
		// enough to know. Who is wrong about it, because an operator wrote it,
		// wakes up more often.
		e.Admitted = k.mode == driver.Weighted && !k.valued && kv.Version > 1
		return e
	}
	// What the key says of its lease is only a name; this is the truth.
	e.Session, e.Unleased = "", kv.Lease == 0
	if kv.Lease != 0 {
		e.Session = leaseName(clientv3.LeaseID(kv.Lease))
	}
	if e.Foreign || k.valued {
		return e
	}
	e.Meta, _ = driver.DecodeMeta(kv.Value)
	m := readMark(kv.Value)
	e.Admitted = m.Admitted
	if m.Shared && e.Mode == driver.Exclusive {
		e.Mode = driver.Shared
	}
	return e
}

// listed is an entry as a list shows it: with its value, if that is for others
// to read. said is what an entry with a value says of itself.
func (l layout) listed(line string, kv *mvccpb.KeyValue, said map[string][]byte) driver.Entry {
	e := l.entry(line, kv, true)
	if l.valued(e.Ref) {
		e.Meta, _ = driver.DecodeMeta(said[l.meta(e.Ref)])
	} else if _, ok := driver.DecodeMeta(kv.Value); ok && !e.Foreign {
		return e
	}
	if e.Value = kv.Value; e.Value == nil {
		e.Value = []byte{} // nil would mean that the answer did not tell
	}
	return e
}

// unclear says that a keys-only answer leaves open what an entry is: a foreign
// one has a lease or not, and a writer's that was written since may be a
// reader's by now. Entries with values are written too, but cannot be shared.
func (l layout) unclear(line string, kv *mvccpb.KeyValue) bool {
	k, own := parseEntry(string(kv.Key[len(l.prefix(line)):]))
	return !own || !k.valued && k.mode != driver.Weighted && kv.Version > 1
}

// entries reads the keys of a line.
func (l layout) entries(line string, kvs []*mvccpb.KeyValue, full bool) []driver.Entry {
	es := make([]driver.Entry, len(kvs))
	for i, kv := range kvs {
		es[i] = l.entry(line, kv, full)
	}
	return es
}
