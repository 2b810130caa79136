package zkbackend

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/session/driver"
)

// A node's data may end with a line of this backend's. Other programs, and people, see
// what the layers above have stored first. No JSON text on one line can end like that.
const ownLine = "\n#"

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

// The lines of entries with a mark.
const (
	lineShared   = "shared " // and the token that the entry was made with
	lineAdmitted = "admitted"
)

// encodeShared returns the data of a writer that became a reader. Its node is made anew,
// so the czxid is not its token any more.
func encodeShared(data []byte, token int64) []byte {
	return withLine(data, lineShared+strconv.FormatInt(token, 10))
}

// encodeAdmitted returns the data of a request for permits that holds.
func encodeAdmitted(data []byte) []byte { return withLine(data, lineAdmitted) }

// decodeEntry is the inverse of both, for the data of an entry of that name. A node that
// was not written since it was made, or was written by another program, has no mark: then
// it stays what its name shows, which lets in no entry too many. token is 0 unless the
// line has one.
func decodeEntry(n entryName, data []byte, version int32) (rest []byte, m driver.Marks, token int64) {
	if version == 0 || n.guid == "" || n.valued {
		return data, 0, 0
	}
	rest, line, ok := cutLine(data)
	text, shared := strings.CutPrefix(line, lineShared)
	switch {
	case !ok:
	case shared && n.downgrades():
		if token, err := strconv.ParseInt(text, 10, 64); err == nil && token > 0 {
			return rest, driver.MarkShared, token
		}
	case line == lineAdmitted && n.mode == driver.Weighted:
		return rest, driver.MarkAdmitted, 0
	}
	return data, 0, 0
}

// newVersion returns the version of a record that is about to be written. It is random,
// so it never comes again: see records.
func newVersion() int64 { return 1 + rand.Int64N(math.MaxInt64) }

func versionText(version int64) string { return strconv.FormatInt(version, 36) }

// encodeRecord returns the data of a record's node.
func encodeRecord(value []byte, version int64) []byte { return withLine(value, versionText(version)) }

// decodeRecord is the inverse of encodeRecord. It returns false for what it never writes.
func decodeRecord(data []byte) (value []byte, version int64, ok bool) {
	value, line, ok := cutLine(data)
	version, err := strconv.ParseInt(line, 36, 64)
	if !ok || err != nil || version <= 0 || versionText(version) != line {
		return nil, 0, false
	}
	return value, version, true
}
