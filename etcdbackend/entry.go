package etcdbackend

import (
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/session/driver"
)

// entry reads a key of a line. full says that the answer has the value and the
// lease too, which keys-only answers have not.
func (l layout) entry(line string, kv *mvccpb.KeyValue, full bool) driver.Entry {
	e := driver.Entry{
		Ref:   driver.Ref{Line: line, Key: string(kv.Key), Place: kv.CreateRevision},
		Token: kv.CreateRevision,
	}
	if k, ok := parseEntry(string(kv.Key[len(l.prefix(line)):])); ok {
		e.Mode, e.Weight, e.Session = k.mode, k.weight, leaseName(k.lease)
	} else {
		e.Foreign = true
	}
	if !full {
		return e
	}
	// What the key says of its lease is only a name; this is the truth.
	e.Session, e.Unleased = "", kv.Lease == 0
	if kv.Lease != 0 {
		e.Session = leaseName(clientv3.LeaseID(kv.Lease))
	}
	if !e.Foreign {
		e.Meta, _ = driver.DecodeMeta(kv.Value)
	}
	return e
}

// entries reads the keys of a line.
func (l layout) entries(line string, kvs []*mvccpb.KeyValue, full bool) []driver.Entry {
	es := make([]driver.Entry, len(kvs))
	for i, kv := range kvs {
		es[i] = l.entry(line, kv, full)
	}
	return es
}
