// Package owner has what an entry contains about its owner, and the stored form of that.
package owner

import (
	"encoding/json"
	"math"
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock/session/driver"
)

// Meta describes the owner of an entry, for people and for tools. Nothing in it decides
// which entries hold.
type Meta struct {
	Kind  string    // the recipe: "mutex"
	Host  string    //
	PID   int       // above 0; 0 if it is not known
	Label string    // from the session's options
	Since time.Time // when the owner asked to join, by its own wall clock
	Holds []string  // names that the asking caller already holds

	// TTL is how long the service keeps the entry, at most, after its owner has died. The
	// stored form has whole milliseconds.
	TTL time.Duration

	// Trace is the trace that the request belongs to: a W3C traceparent.
	Trace string

	// Generation is that of a candidate, above 0; 0 if it has none.
	Generation int64

	// Granted is since when the entry holds, by its owner's wall clock, in whole
	// milliseconds: only of holds that last.
	Granted time.Time
}

// MaxMeta is the longest encoded Meta, in bytes.
const MaxMeta = 1024

// metaV1 is the stored form. Its version distinguishes a later form from a broken one.
// Readers ignore fields that they do not know.
type metaV1 struct {
	V     int      `json:"v"`
	Kind  string   `json:"kind,omitempty"`
	Host  string   `json:"host,omitempty"`
	PID   int      `json:"pid,omitempty"`
	Label string   `json:"label,omitempty"`
	Since int64    `json:"since,omitempty"` // unix milliseconds
	Holds []string `json:"holds,omitempty"`
	TTL   int64    `json:"ttl,omitempty"` // milliseconds
	Trace string   `json:"trace,omitempty"`

	Generation int64 `json:"generation,omitempty"`
	Granted    int64 `json:"granted,omitempty"` // unix milliseconds
}

// MaxTrace is the longest Trace, in bytes: a traceparent of version 00 has 55.
const MaxTrace = 64

// The largest values that are read, in milliseconds. A TTL is at most a hundred years, and
// a time at most the end of the year 9999, behind which RFC 3339 has no form.
const (
	maxTTL  = 100 * 365 * 24 * 3600 * 1000
	maxWall = 253402300799999
)

// TraceOf returns s if it can be a Trace, at most MaxTrace bytes of printable ASCII, and an
// empty string otherwise.
func TraceOf(s string) string {
	if len(s) > MaxTrace {
		return ""
	}
	for _, c := range []byte(s) {
		if c < '!' || c > '~' {
			return ""
		}
	}
	return s
}

// Encode returns the stored form: JSON of at most MaxMeta bytes. Encode leaves out what
// does not fit: first the names already held, then label and host, then kind and trace.
func (m Meta) Encode() []byte {
	v := metaV1{V: 1, Kind: cut(m.Kind), Host: cut(m.Host), PID: m.PID, Label: cut(m.Label), Holds: m.Holds, TTL: m.TTL.Milliseconds(), Trace: TraceOf(m.Trace), Generation: max(m.Generation, 0)}
	if !m.Since.IsZero() {
		v.Since = m.Since.UnixMilli()
	}
	if !m.Granted.IsZero() {
		v.Granted = m.Granted.UnixMilli()
	}
	for {
		b, err := json.Marshal(v)
		switch {
		case err != nil: // strings and integers cannot fail
			return []byte(`{"v":1}`)
		case len(b) <= MaxMeta:
			return b
		case len(v.Holds) > 0:
			v.Holds = v.Holds[:len(v.Holds)-1]
		case v.Label != "" || v.Host != "":
			v.Label, v.Host = "", ""
		default: // only a caller that is no recipe has such a kind
			v.Kind, v.Trace = "", ""
		}
	}
}

// cut shortens s to 128 bytes of valid UTF-8. Each byte takes up to six bytes in JSON, so
// three such texts and the rest can still be too long for MaxMeta.
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

// DecodeMeta reads a stored form. For a value that is broken or of another program it
// returns the zero Meta and false; the entry keeps its place all the same.
func DecodeMeta(b []byte) (Meta, bool) {
	var v metaV1
	if len(b) == 0 || len(b) > 16*MaxMeta || b[0] != '{' {
		return Meta{}, false
	}
	err := json.Unmarshal(b, &v)
	if err != nil || v.V < 1 {
		return Meta{}, false
	}
	m := Meta{Kind: v.Kind, Host: v.Host, Label: v.Label, Holds: v.Holds, Trace: TraceOf(v.Trace), Generation: max(v.Generation, 0)}
	if v.PID > 0 && v.PID <= math.MaxInt32 { // to kill, less than 1 is a group or all processes, and it may cut off more
		m.PID = v.PID
	}
	if v.TTL > 0 && v.TTL <= maxTTL {
		m.TTL = time.Duration(v.TTL) * time.Millisecond
	}
	if v.Since > 0 && v.Since <= maxWall {
		m.Since = time.UnixMilli(v.Since)
	}
	if v.Granted > 0 && v.Granted <= maxWall {
		m.Granted = time.UnixMilli(v.Granted)
	}
	return m, true
}

// MetaOf returns the description that the owner of an entry has stored: in the entry's
// data, or in its detail where the data is for other programs. The time of the grant is
// always in the detail.
func MetaOf(e *driver.Entry) Meta {
	if e.Foreign {
		return Meta{}
	}
	meta, _ := DecodeMeta(e.Detail)
	if !e.Valued {
		granted := meta.Granted
		meta, _ = DecodeMeta(e.Data)
		meta.Granted = granted
	}
	return meta
}
