package etcdbackend

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/fairlock/fairlock/etcdbackend/internal/lease"
	"github.com/fairlock/fairlock/session/driver"
)

// entryKey is what the key of an entry of this library contains behind the queue's prefix.
// All that a waiter must know of the entries ahead is in their keys, so that a read of a queue
// needs no values. The key of an entry never changes.
type entryKey struct {
	lease int64 // of the session that made the entry; never 0

	// index distinguishes the entries of one session in one queue: no two that exist at the
	// same time have the same. It is used again when its entry is gone.
	index int

	mode   driver.Mode
	weight int64 // the permits of a Weighted one, 0 in all other modes
	writer bool  // an Exclusive one that can become a reader, by a mark
	valued bool  // its value is for other programs, and has no marks
}

// valuedSuffix ends the key of an entry whose value is for other programs, so that a read
// without values knows it.
const valuedSuffix = ".v"

// append appends the form that parseEntryKey reads. There is only one for each entryKey.
func (k entryKey) append(b []byte) []byte {
	b = strconv.AppendUint(b, uint64(k.lease), 16) //nolint:gosec // lease ids are opaque bits
	b = append(b, '.')
	b = strconv.AppendInt(b, int64(k.index), 10)
	switch k.mode {
	case driver.Shared:
		b = append(b, ".r"...)
	case driver.Weighted:
		b = append(b, ".w"...)
		b = strconv.AppendInt(b, k.weight, 10)
	case driver.Exclusive:
		if k.writer {
			b = append(b, ".x"...)
		}
	}
	if k.valued {
		b = append(b, valuedSuffix...)
	}
	return b
}

// parseEntryKey reads the part of a key behind the queue's prefix. It accepts only what
// append writes, to the letter: any other key was made by another program, and is
// foreign. So no number needs a check of its own: what is not read right is written
// differently.
func parseEntryKey(s string) (entryKey, bool) {
	rest, valued := strings.CutSuffix(s, valuedSuffix)
	hex, rest, _ := strings.Cut(rest, ".")
	digits, mode, _ := strings.Cut(rest, ".")
	id, _ := strconv.ParseUint(hex, 16, 64)
	index, _ := strconv.ParseUint(digits, 10, 31)
	k := entryKey{lease: int64(id), index: int(index), valued: valued} //nolint:gosec // lease ids are opaque bits, and the index has 31
	permits, weighted := strings.CutPrefix(mode, "w")
	switch {
	case weighted:
		weight, _ := strconv.ParseUint(permits, 10, 63)
		k.mode, k.weight = driver.Weighted, int64(weight) //nolint:gosec // it has 63 bits
	case mode == "r":
		k.mode = driver.Shared
	default:
		k.writer = mode == "x"
	}
	if id == 0 || string(k.append(make([]byte, 0, maxEntryKey))) != s {
		return entryKey{}, false
	}
	return k, true
}

// maxEntryKey is at least the length of what append writes: 16 digits of a lease, 10 of
// an index, 19 of a weight, and what is between them.
const maxEntryKey = 64

// takes returns the mark that the entry can get, 0 if there is none. An entry that takes none
// is written once, so a watch of it needs no writes.
func (k entryKey) takes() driver.Marks {
	switch {
	case k.valued:
	case k.mode == driver.Weighted:
		return driver.MarkAdmitted
	case k.writer:
		return driver.MarkShared
	}
	return 0
}

// marksLine introduces the last line of the value of an entry that has marks. Only a value
// that was written again is read for marks: the data of a new entry may end like that.
const marksLine = "\n#"

// markNames returns the text of that line, "" if there are no marks. No entry has both marks.
func markNames(m driver.Marks) string {
	return [...]string{driver.MarkShared: "shared", driver.MarkAdmitted: "admitted"}[m]
}

// encodeMarks returns the value of an entry with marks. Other programs read the data
// first, and etcdctl shows the marks.
func encodeMarks(data []byte, m driver.Marks) []byte {
	if m == 0 {
		return data
	}
	return slices.Concat(data, []byte(marksLine+markNames(m)))
}

// decodeMarks is the inverse of encodeMarks. If another program has written the value, the
// marks are lost, and the entry counts as what its key shows. This is safe: without marks
// an entry never lets more other entries hold.
func decodeMarks(value []byte) (data []byte, m driver.Marks) {
	i := bytes.LastIndex(value, []byte(marksLine))
	if i < 0 {
		return value, 0
	}
	for m := driver.MarkShared; m <= driver.MarkAdmitted; m++ {
		if string(value[i+len(marksLine):]) == markNames(m) {
			return value[:i], m
		}
	}
	return value, 0
}

// marksOf returns the marks that the value of an entry's key shows: none if the key was
// written once, because then the value is what the owner joined with.
func marksOf(kv *mvccpb.KeyValue) (m driver.Marks) {
	if kv.Version > 1 && !strings.HasSuffix(string(kv.Key), valuedSuffix) {
		_, m = decodeMarks(kv.Value)
	}
	return m
}

// entry returns what a key shows of an entry, without the value. A semaphore's request is
// written again only by its owner, and only to mark it as admitted, so the version of the
// key shows that mark. If an operator has written it, the only effect is that the waiter
// behind it is notified more often.
func (q *queue) entry(kv *mvccpb.KeyValue) driver.Entry {
	e := driver.Entry{Ref: driver.Ref{Queue: q.name, Key: string(kv.Key), Place: kv.CreateRevision}}
	k, ok := parseEntryKey(e.Key[len(q.prefix):])
	e.Mode, e.Weight, e.Valued, e.Foreign = k.mode, k.weight, k.valued, !ok
	if k.mode == driver.Weighted && kv.Version > 1 {
		e.Marks = driver.MarkAdmitted
	}
	return e
}

// entries returns what keys show of entries.
func (q *queue) entries(kvs []*mvccpb.KeyValue) []driver.Entry {
	es := make([]driver.Entry, len(kvs))
	for i, kv := range kvs {
		es[i] = q.entry(kv)
	}
	return es
}

// hides reports whether the key alone does not show which marks an entry has: it was written
// again, and may have become a reader. Then its value must be read, see reader.complete.
//
//	written once               no marks                  shown
//	another program's, valued  takes no marks            shown
//	Weighted, written again    Admitted, see entry       shown
//	any other, written again   Shared, or an operator    hidden
func hides(e *driver.Entry, kv *mvccpb.KeyValue) bool {
	return kv.Version > 1 && !e.Foreign && !e.Valued && e.Mode != driver.Weighted
}

// reveal adds to an entry what its value and its lease show. kv is the key as a read with
// values has returned it, of the same entry.
func reveal(e *driver.Entry, kv *mvccpb.KeyValue) {
	e.Data, e.Token = kv.Value, kv.CreateRevision
	if e.Data == nil {
		e.Data = []byte{} // nil would mean that the answer did not contain it
	}
	// The lease in the key is only a name. The entry ends with the lease that it is on.
	e.Unleased = kv.Lease == 0
	if !e.Unleased {
		e.Session = lease.Name(kv.Lease)
	}
	if kv.Version > 1 && !e.Foreign && !e.Valued {
		e.Data, e.Marks = decodeMarks(e.Data)
	}
}
