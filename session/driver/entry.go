package driver

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Ref names one entry exactly. Keys may be used again, places never are, so
// the pair is unique over the life of the store. It is comparable.
type Ref struct {
	Line  string // the name that the user gave
	Key   string // what the service calls the entry
	Place int64  // its order in the queue: etcd's create revision, ZooKeeper's sequence
}

// Zero reports whether r names nothing.
func (r Ref) Zero() bool { return r == Ref{} }

// Mode is what an entry shares the lock with.
type Mode uint8

// The modes. Entries of other programs count as Exclusive.
const (
	Exclusive Mode = iota // a mutex, a writer, a candidate
	Shared                // a reader
	Weighted              // a semaphore's request; Entry.Weight counts
)

// String returns the mode's name as it is shown to people.
func (m Mode) String() string {
	switch m {
	case Exclusive:
		return "exclusive"
	case Shared:
		return "shared"
	case Weighted:
		return "weighted"
	}
	return "unknown"
}

// Entry is one place in a queue, as far as the answer that it came with shows.
type Entry struct {
	Ref
	Mode   Mode
	Weight int64

	// Token is the fencing token, 0 if the answer did not contain it.
	Token int64

	// Session is the service session that keeps the entry, as the service's own tools
	// show it; "" if the answer did not contain it.
	Session string

	// Foreign marks an entry that this library did not make. It counts as
	// exclusive.
	Foreign bool

	// Unleased marks an entry that is known to have no session: it stays until an
	// operator deletes it.
	Unleased bool

	// Movable marks an exclusive entry whose end may be that its owner has put
	// another in its place, see Session.Share and Profile.Moves.
	Movable bool

	// Admitted marks an entry whose owner has recorded that it holds, in a queue with a
	// limit.
	Admitted bool

	// Granted is since when the entry holds, by its owner's wall clock, in whole
	// milliseconds; zero if that is not known. Owners record it only for holds that
	// last (Session.Record), and foreign programs never do. A zero Granted therefore
	// does not mean that the entry waits.
	Granted time.Time

	// Value is what the entry was made with, or given by Write, for others to read; nil
	// if the answer did not contain it. Of foreign entries it is all that they have.
	Value []byte

	// Past is how the hold before this one ended, if it is the holder and the queue has
	// a ledger.
	Past Past

	// Meta describes the owner, in its own words; zero if foreign, broken or not read.
	Meta Meta
}

// Meta describes the owner of an entry, for people and for tools. Nothing in it decides
// which entries hold.
type Meta struct {
	Kind  string    // the recipe: "mutex"
	Host  string    //
	PID   int       //
	Label string    // from the session's options
	Since time.Time // when the owner asked to join, by its own wall clock
	Holds []string  // names that the asking caller already holds

	// Granted is since when the entry holds, by its owner's wall clock, in whole
	// milliseconds: only of holds that last.
	Granted time.Time
}

// MaxDone is the most bytes of a record of finished work.
const MaxDone = 256 << 10

// MaxMeta is the longest encoded Meta, in bytes.
const MaxMeta = 1024

// metaV1 is the stored form. Its version is there so that a later form can be
// told from a broken one; readers ignore fields that they do not know.
type metaV1 struct {
	V     int      `json:"v"`
	Kind  string   `json:"kind,omitempty"`
	Host  string   `json:"host,omitempty"`
	PID   int      `json:"pid,omitempty"`
	Label string   `json:"label,omitempty"`
	Since int64    `json:"since,omitempty"` // unix milliseconds
	Holds []string `json:"holds,omitempty"`

	Granted int64 `json:"granted,omitempty"` // unix milliseconds
}

// Encode returns the stored form: JSON of at most MaxMeta bytes. What does not
// fit is left out, the names already held first.
func (m Meta) Encode() []byte {
	v := metaV1{V: 1, Kind: cut(m.Kind), Host: cut(m.Host), PID: m.PID, Label: cut(m.Label), Holds: m.Holds}
	if !m.Since.IsZero() {
		v.Since = m.Since.UnixMilli()
	}
	if !m.Granted.IsZero() {
		v.Granted = m.Granted.UnixMilli()
	}
	for {
		b, err := json.Marshal(v)
		switch {
		case err != nil: // strings and ints cannot fail; be total all the same
			return []byte(`{"v":1}`)
		case len(b) <= MaxMeta:
			return b
		case len(v.Holds) > 0:
			v.Holds = v.Holds[:len(v.Holds)-1]
		default:
			v.Label, v.Host = "", ""
		}
	}
}

// cut shortens s to 128 bytes of valid UTF-8; each may take up to six bytes
// in JSON, so three of them and the rest may still be too long for MaxMeta.
func cut(s string) string {
	const most = 128
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s
}

// DecodeMeta reads a stored form. Whatever is wrong with it, the entry keeps
// its place: a value that is not ours or broken gives the zero Meta and false.
func DecodeMeta(b []byte) (Meta, bool) {
	var v metaV1
	if len(b) == 0 || len(b) > 16*MaxMeta || b[0] != '{' {
		return Meta{}, false
	}
	if err := json.Unmarshal(b, &v); err != nil || v.V < 1 {
		return Meta{}, false
	}
	m := Meta{Kind: v.Kind, Host: v.Host, PID: v.PID, Label: v.Label, Holds: v.Holds}
	if v.Since > 0 {
		m.Since = time.UnixMilli(v.Since)
	}
	if v.Granted > 0 {
		m.Granted = time.UnixMilli(v.Granted)
	}
	return m, true
}
