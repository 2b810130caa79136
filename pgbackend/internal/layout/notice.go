package layout

import (
	"strconv"

	"github.com/fairlock/fairlock/session/driver"
)

// Notice is what a transaction reports about an entry or a queue. A notice can be lost: then the
// next look at what is watched shows what it would have reported.
type Notice struct {
	Kind   NoticeKind
	First  bool         // of Went: nobody was ahead of the entry
	Marks  driver.Marks // of Went and Wrote: those of the entry
	Record string       // of Recorded
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
		marks, err := strconv.ParseUint(payload[2:], 10, 8)
		n.First = payload[1] == '1'
		n.Marks = driver.Marks(marks)
		return n, err == nil
	}
	return n, false
}
