package script

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// Prefix returns what the names of all keys and channels of a root begin with.
func Prefix(root string) string { return "{" + root + "}:" }

// Channels returns what the names of all channels of a root begin with. The databases of a server share the
// channels, and two of them can have queues of one name.
func Channels(prefix string, database int) string {
	if database == 0 {
		return prefix + "c"
	}
	return prefix + "c" + strconv.Itoa(database)
}

// QueueChannel returns the channel of all notices about a queue.
func QueueChannel(channels, queue string) string { return channels + "::" + queue }

// QueueOf returns the queue of a channel, or false for that of a session.
func QueueOf(channels, channel string) (queue string, ok bool) {
	return strings.CutPrefix(channel, channels+"::")
}

// SessionChannel returns the channel of the notices about the entries of a session, and about those that it
// watches.
func SessionChannel(channels, session string) string { return channels + ":" + session }

// NewSession returns an ID that no other session has. It contains the TTL, so that nothing can change
// that, and nothing has to be read to know it.
func NewSession(ttl time.Duration) string {
	return random() + "-" + strconv.FormatInt(ttl.Milliseconds(), 10)
}

// NewObserver returns the ID of an observer, under which its calls are kept.
func NewObserver() string { return "o" + random() }

func random() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never returns an error
	return hex.EncodeToString(b[:])
}

// TTL returns the TTL of a session, 0 for an ID that NewSession has not returned.
func TTL(session string) time.Duration {
	_, ttl, _ := strings.Cut(session, "-")
	ms, err := strconv.ParseInt(ttl, 10, 64)
	if err != nil || ms < 0 {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// Key returns the key of an entry.
func Key(session string, place int64) string { return session + "." + strconv.FormatInt(place, 10) }

// SessionOf returns the session of an entry, "" for a Ref that no entry here has.
func SessionOf(ref driver.Ref) string {
	session, place, ok := strings.Cut(ref.Key, ".")
	if !ok || place != strconv.FormatInt(ref.Place, 10) {
		return ""
	}
	return session
}

// A Notice is what a message on a channel reports.
type Notice struct {
	Kind NoticeKind

	// Queue and Place are the entry, of Went and Wrote, and Marks are those that it has or had.
	Queue string
	Place int64
	Marks driver.Marks

	First   bool   // of Went: no entry was ahead at some time
	Changes int64  // of Wrote: how many changes the entry has had
	Record  string // of Recorded
}

// NoticeKind is the kind of a Notice.
type NoticeKind uint8

// The kinds. Entered and Recorded are on the channel of the queue only.
const (
	Unknown  NoticeKind = iota
	Went                // the entry is gone
	Wrote               // the entry has other marks or other data
	Entered             // an entry came
	Recorded            // a record was written or deleted
)

// ParseNotice returns what a message reports.
//
//	e                                     Entered
//	r<record>                             Recorded
//	g<1 if First>:<marks>:<place>:<queue> Went
//	c<changes>:<marks>:<place>:<queue>    Wrote
func ParseNotice(s string) Notice {
	switch {
	case s == "e":
		return Notice{Kind: Entered}
	case strings.HasPrefix(s, "r"):
		return Notice{Kind: Recorded, Record: s[1:]}
	case !strings.HasPrefix(s, "g") && !strings.HasPrefix(s, "c"):
		return Notice{}
	}
	fields := strings.SplitN(s[1:], ":", 4)
	if len(fields) < 4 {
		return Notice{}
	}
	number, err := strconv.ParseInt(fields[0], 10, 64)
	marks, err2 := strconv.ParseUint(fields[1], 10, 8)
	place, err3 := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || err2 != nil || err3 != nil {
		return Notice{}
	}
	n := Notice{Kind: Wrote, Queue: fields[3], Place: place, Marks: driver.Marks(marks), Changes: number}
	if s[0] == 'g' {
		n.Kind, n.First, n.Changes = Went, number == 1, 0
	}
	return n
}
