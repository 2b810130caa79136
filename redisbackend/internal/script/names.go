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
// channels, and two of them can have entries with one place.
func Channels(prefix string, database int) string {
	if database == 0 {
		return prefix + "c"
	}
	return prefix + "c" + strconv.Itoa(database)
}

// QueueChannel returns the channel of the notices about a queue as a whole.
func QueueChannel(channels, queue string) string { return channels + "::" + queue }

// EntryChannel returns the channel of the notices about one entry.
func EntryChannel(channels, queue string, place int64) string {
	return channels + ":" + strconv.FormatInt(place, 10) + ":" + queue
}

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
	Kind    NoticeKind
	First   bool         // of Went: no entry was ahead at some time
	Marks   driver.Marks // of Wrote
	Changes int64        // of Wrote: how many changes the entry has had
	Record  string       // of Recorded
}

// NoticeKind is the kind of a Notice.
type NoticeKind uint8

// The kinds. Entered and Held are about a queue as a whole.
const (
	Unknown  NoticeKind = iota
	Went                // the entry is gone
	Wrote               // the entry has other marks or other data
	Entered             // an entry came, changed or went
	Held                // one with the mark Admitted changed or went
	Recorded            // a record was written or deleted
)

// ParseNotice returns what a message reports.
func ParseNotice(s string) Notice {
	switch {
	case s == "e":
		return Notice{Kind: Entered}
	case s == "h":
		return Notice{Kind: Held}
	case s == "g0", s == "g1":
		return Notice{Kind: Went, First: s == "g1"}
	case strings.HasPrefix(s, "r"):
		return Notice{Kind: Recorded, Record: s[1:]}
	case strings.HasPrefix(s, "c"):
		marks, changes, _ := strings.Cut(s[1:], ":")
		m, err := strconv.ParseUint(marks, 10, 8)
		n, err2 := strconv.ParseInt(changes, 10, 64)
		if err == nil && err2 == nil {
			return Notice{Kind: Wrote, Marks: driver.Marks(m), Changes: n}
		}
	}
	return Notice{}
}
