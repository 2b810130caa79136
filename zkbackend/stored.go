package zkbackend

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/session/driver"
)

// A node's data may end with a line of this backend. The data of the layers above comes first,
// for other programs and for people. No JSON text on one line ends with such a line.
//
//	node              data
//	entry             what it was joined with
//	entry, a mark     what it was joined with, "\n#shared <token>" or "\n#admitted"
//	record            the value, "\n#<version>"
//	version's node    nothing
//	detail            the detail
//	holder's node     nothing
//
// What is read may have been written by any program. Each decoder accepts exactly what its encoder
// writes (FuzzStored), and else returns the data as they are: a value that is broken never breaks the queue.
const ownLine = "\n#"

// withLine and cutLine add such a line and take it off. data is not changed.
func withLine(data []byte, line string) []byte {
	b := make([]byte, 0, len(data)+len(ownLine)+len(line))
	return append(append(append(b, data...), ownLine...), line...)
}

func cutLine(data []byte) (rest []byte, line string, ok bool) {
	i := bytes.LastIndex(data, []byte(ownLine))
	if i < 0 {
		return data, "", false
	}
	return data[:i:i], string(data[i+len(ownLine):]), true
}

// The last line of an entry that has a mark.
const (
	lineShared   = "shared " // and the token of the entry
	lineAdmitted = "admitted"
)

// encodeShared returns the data of a writer that became a reader. It contains the token, because
// the node is made anew and has another czxid. The token of an entry never changes.
func encodeShared(data []byte, token int64) []byte {
	return withLine(data, lineShared+strconv.FormatInt(token, 10))
}

// encodeAdmitted returns the data of a request for permits that holds.
func encodeAdmitted(data []byte) []byte { return withLine(data, lineAdmitted) }

// decodeEntry is the inverse of both, for an entry of that name. A node that was not written since
// it was made, or that another program has written, has no mark. That is safe: an entry without
// its mark only makes others wait longer. token is 0 unless the line has one.
//
//	entry                              line at the end    mark
//	never written, foreign, or valued  any                none
//	one that downgrades                shared, a token    Shared
//	a semaphore's request              admitted           Admitted
//	another                            any                none
func decodeEntry(n entryName, data []byte, version int32) (rest []byte, m driver.Marks, token int64) {
	if version == 0 || n.guid == "" || n.valued {
		return data, 0, 0
	}
	rest, line, ok := cutLine(data)
	text, shared := strings.CutPrefix(line, lineShared)
	switch {
	case !ok:
	case shared && n.downgrades():
		token, err := strconv.ParseInt(text, 10, 64)
		if err == nil && token > 0 {
			return rest, driver.MarkShared, token
		}
	case line == lineAdmitted && n.mode == driver.Weighted:
		return rest, driver.MarkAdmitted, 0
	}
	return data, 0, 0
}

// newVersion returns the version for the next write of a record. It is random, so it never comes
// again: see record.go.
func newVersion() int64 { return 1 + rand.Int64N(math.MaxInt64) }

func versionText(version int64) string { return strconv.FormatInt(version, 36) }

// encodeRecord returns the data of a record's node.
func encodeRecord(value []byte, version int64) []byte { return withLine(value, versionText(version)) }

// decodeRecord is the inverse of encodeRecord. It returns false for other data, also for a version that
// encodeRecord would write in another way.
func decodeRecord(data []byte) (value []byte, version int64, ok bool) {
	value, line, ok := cutLine(data)
	version, err := strconv.ParseInt(line, 36, 64)
	if !ok || err != nil || version <= 0 || versionText(version) != line {
		return nil, 0, false
	}
	return value, version, true
}
