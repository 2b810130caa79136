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

// entryKey is what the key of an entry of ours contains behind the queue's prefix.
type entryKey struct {
	lease  int64
	index  int // distinguishes the entries of one session in one queue; used again
	mode   driver.Mode
	weight int64
	valued bool
}

// valuedSuffix ends the key of an entry whose value is for other programs, so that a read
// without values knows it.
const valuedSuffix = ".v"

// append appends the form that parseEntryKey reads.
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
	}
	if k.valued {
		b = append(b, valuedSuffix...)
	}
	return b
}

// parseEntryKey reads the part of a key behind the queue's prefix. It accepts only what
// append writes, to the letter: any other key was made by another program, and is
// foreign.
func parseEntryKey(s string) (k entryKey, ok bool) {
	hex, rest, _ := strings.Cut(s, ".")
	id, ok := parseNumber(hex, 16, 64)
	if !ok || id == 0 {
		return entryKey{}, false
	}
	rest, k.valued = strings.CutSuffix(rest, valuedSuffix)
	digits, mode, marked := strings.Cut(rest, ".")
	index, ok := parseNumber(digits, 10, 31)
	if !ok {
		return entryKey{}, false
	}
	k.lease, k.index = int64(id), int(index) //nolint:gosec // lease ids are opaque bits
	switch {
	case !marked:
	case mode == "r":
		k.mode = driver.Shared
	case strings.HasPrefix(mode, "w"):
		weight, ok := parseNumber(mode[1:], 10, 63)
		if !ok {
			return entryKey{}, false
		}
		k.mode, k.weight = driver.Weighted, int64(weight) //nolint:gosec // it has 63 bits
	default:
		return entryKey{}, false
	}
	return k, true
}

// parseNumber reads a number in its shortest form, in small letters.
func parseNumber(s string, base, bits int) (uint64, bool) {
	if s == "" || s[0] == '0' && len(s) > 1 || strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > 'f' || r > '9' && r < 'a' }) {
		return 0, false
	}
	n, err := strconv.ParseUint(s, base, bits)
	return n, err == nil
}

// marksLine introduces the last line of the value of an entry that has marks. It is read
// only from values that were written again: what an entry was made with may end like
// that.
const marksLine = "\n#"

// markNames returns the text of that line, "" for no marks.
func markNames(m driver.Marks) string {
	switch m {
	case driver.MarkShared:
		return "shared"
	case driver.MarkAdmitted:
		return "admitted"
	case driver.MarkShared | driver.MarkAdmitted:
		return "shared,admitted"
	}
	return ""
}

// encodeMarks returns the value of an entry with marks. Other programs see the data
// first, and etcdctl shows the marks.
func encodeMarks(data []byte, m driver.Marks) []byte {
	if m == 0 {
		return data
	}
	return slices.Concat(data, []byte(marksLine+markNames(m)))
}

// decodeMarks is the inverse of encodeMarks. A value that another program wrote has no
// marks, so the entry stays what its key says: that lets in no entry too many.
func decodeMarks(value []byte) (data []byte, m driver.Marks) {
	i := bytes.LastIndex(value, []byte(marksLine))
	if i < 0 {
		return value, 0
	}
	for m := driver.MarkShared; m <= driver.MarkShared|driver.MarkAdmitted; m++ {
		if string(value[i+len(marksLine):]) == markNames(m) {
			return value[:i], m
		}
	}
	return value, 0
}

// entry reads a key of a queue, as an answer without values shows it. Only its owner
// writes a semaphore's request again, and only to mark it as admitted. So no value needs
// to be read for that. If an operator wrote it, the waiter behind it wakes up more often.
func (q *queue) entry(kv *mvccpb.KeyValue) driver.Entry {
	e := driver.Entry{Ref: driver.Ref{Queue: q.name, Key: string(kv.Key), Place: kv.CreateRevision}}
	k, ok := parseEntryKey(e.Key[len(q.prefix):])
	e.Mode, e.Weight, e.Valued, e.Foreign = k.mode, k.weight, k.valued, !ok
	if k.mode == driver.Weighted && kv.Version > 1 {
		e.Marks = driver.MarkAdmitted
	}
	return e
}

// entries reads the keys of a queue.
func (q *queue) entries(kvs []*mvccpb.KeyValue) []driver.Entry {
	es := make([]driver.Entry, len(kvs))
	for i, kv := range kvs {
		es[i] = q.entry(kv)
	}
	return es
}

// hides reports whether an answer without values leaves open which marks an entry has.
func hides(e *driver.Entry, kv *mvccpb.KeyValue) bool {
	return kv.Version > 1 && !e.Foreign && !e.Valued && e.Mode != driver.Weighted
}

// reveal completes an entry by an answer with its value.
func reveal(e *driver.Entry, kv *mvccpb.KeyValue) {
	e.Data, e.Token = kv.Value, kv.CreateRevision
	if e.Data == nil {
		e.Data = []byte{} // nil would mean that the answer did not contain it
	}
	// What the key says of the lease is only a name; this is the truth.
	if e.Unleased = kv.Lease == 0; !e.Unleased {
		e.Session = lease.Name(kv.Lease)
	}
	if kv.Version > 1 && !e.Foreign && !e.Valued {
		e.Data, e.Marks = decodeMarks(e.Data)
	}
}
