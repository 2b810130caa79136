package layout

import (
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/session/driver"
)

// Notice is what a transaction reports about an entry or a queue. A notice can be lost: then the
// next look at what is watched shows what it would have reported.
type Notice struct {
	Kind    NoticeKind
	First   bool         // of Went: no entry was ahead of it at some time
	Marks   driver.Marks // of Went and Wrote: those of the entry
	Changed int64        // of Wrote: the number of the newest write of the entry's data
	Record  string       // of Recorded
}

// NoticeKind is the first letter of a notice.
type NoticeKind byte

// The kinds of notices.
const (
	Came     NoticeKind = 'j' // an entry joined the queue
	Went     NoticeKind = 'g' // an entry was deleted
	Wrote    NoticeKind = 'c' // an entry has marks or data that it had not
	Recorded NoticeKind = 'r' // a record was written or deleted
)

// ParseNotice reads the payload of a notification; false if no statement here sends it.
func ParseNotice(payload string) (Notice, bool) {
	if payload == "" {
		return Notice{}, false
	}
	n := Notice{Kind: NoticeKind(payload[0])}
	switch n.Kind {
	case Came:
		return n, len(payload) == 1
	case Recorded:
		n.Record = payload[1:]
		return n, true
	case Went, Wrote:
		if len(payload) < 3 {
			return n, false
		}
		bits, number, numbered := strings.Cut(payload[2:], ",")
		marks, err := strconv.ParseUint(bits, 10, 8)
		n.First = payload[1] == '1'
		n.Marks = driver.Marks(marks)
		if err == nil && numbered {
			n.Changed, err = strconv.ParseInt(number, 10, 64)
		}
		return n, err == nil && numbered == (n.Kind == Wrote)
	}
	return n, false
}
