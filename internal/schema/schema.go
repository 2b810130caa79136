// Package schema is the JSON that fairlock shows: version 1 of it, described in
// docs/json.md. What is shown to people is made from the same values, so tables
// and JSON agree.
//
// Fields are added within a version, and readers ignore those that they do not
// know. A field is renamed, removed or given another meaning only with another
// version.
package schema

import (
	"encoding/json"
	"time"
)

// Version is the "v" of every object that stands by itself.
const Version = 1

// Header is what every object that stands by itself begins with.
type Header struct {
	V    int    `json:"v"`
	Type string `json:"type"` // "line", "event", "leader", "grant", "status", "finding", "bench", "version" or "error"
}

func head(kind string) Header { return Header{V: Version, Type: kind} }

// Seconds is a duration, written as a number of seconds with up to three digits
// behind the point.
type Seconds time.Duration

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(s).Milliseconds()) / 1000)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	var f float64
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*s = Seconds(time.Duration(f*1000+0.5) * time.Millisecond)
	return nil
}

// Time is a moment, written as RFC 3339 does, in UTC, with milliseconds. The
// zero Time is left out with omitzero.
type Time struct{ time.Time }

// At returns t as it is written.
func At(t time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{t.UTC().Truncate(time.Millisecond)}
}

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return json.Marshal(t.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}

// Entry is one place in a line.
type Entry struct {
	// State is "holder" or "waiter".
	State string `json:"state"`
	// Place counts from 1, the whole line over.
	Place int `json:"place"`
	// Token is the fencing token of the entry: that of its hold, if it holds.
	Token int64 `json:"token,omitempty"`
	// Mode is "exclusive", "shared" or "weighted".
	Mode string `json:"mode"`
	// Weight is how many permits a weighted entry has or wants.
	Weight int64 `json:"weight,omitempty"`
	// Kind is the recipe: "mutex", "rwlock", "semaphore" or "election".
	Kind string `json:"kind,omitempty"`
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Label is what the owner calls itself.
	Label string `json:"label,omitempty"`
	// Since is when the owner asked, by its own clock, and Queued how long ago that
	// is by ours: for so long the entry has been in the queue, as a waiter first and
	// then as a holder.
	Since  Time    `json:"since,omitzero"`
	Queued Seconds `json:"queued,omitempty"`
	// Granted is since when a holder holds, by its own clock, and Held how long ago
	// that is by ours. They are missing where that is not known: of holds shorter
	// than a second, of other programs and of older versions.
	Granted Time    `json:"granted,omitzero"`
	Held    Seconds `json:"held,omitempty"`
	// TTL is how long the service keeps the entry after its owner has died, and Trace
	// the trace that the owner's request belongs to, as the owner claims.
	TTL   Seconds `json:"ttl,omitempty"`
	Trace string  `json:"trace,omitempty"`
	// Value is what a candidate of an election proposes.
	Value string `json:"value,omitempty"`
	// Holds are the names that the owner held already when it asked.
	Holds []string `json:"holds,omitempty"`
	// Session and Key are what the service calls them.
	Session string `json:"session,omitempty"`
	Key     string `json:"key"`
	// Foreign: another program's. Unleased: without a session, so it stays
	// until somebody deletes it.
	Foreign  bool `json:"foreign,omitempty"`
	Unleased bool `json:"unleased,omitempty"`
}

// The states of an Entry.
const (
	Holder = "holder"
	Waiter = "waiter"
)

// Line is a lock and who is in its line.
type Line struct {
	Header

	Name string `json:"name"`
	// Kind is the recipe, as far as the entries tell.
	Kind string `json:"kind,omitempty"`
	// Limit is how many permits a semaphore has.
	Limit   int64 `json:"limit,omitempty"`
	Holders int   `json:"holders"`
	Waiters int   `json:"waiters"`
	// OldestWait is for how long the waiter has waited that has waited for longest.
	OldestWait Seconds `json:"oldest_wait,omitempty"`
	// Entries stand in order of place.
	Entries []Entry `json:"entries"`
	// Asks are of those who ask the holders to yield, the oldest first, where that
	// was looked for.
	Asks []Ask `json:"asks,omitempty"`
}

// The events of a line.
const (
	Queued   = "queued"   // somebody stands in the line and waits
	Granted  = "granted"  // somebody holds
	Released = "released" // a holder's entry is gone
	Gone     = "gone"     // a waiter's entry is gone, and it was not seen to hold
	Moved    = "moved"    // a waiter has come closer
	Evicted  = "evicted"  // an operator has deleted the entry
)

// Event is one change of a line.
type Event struct {
	Header

	// Event is "queued", "granted", "released", "gone", "moved" or "evicted".
	Event string `json:"event"`
	Name  string `json:"name"`
	// Time is when it was seen, by our clock.
	Time Time `json:"time"`
	// From is the place before a move.
	From int `json:"from,omitempty"`
	// Entry is as it is now, or as it was last seen.
	Entry Entry `json:"entry"`
}

// Leader is who leads from now on.
type Leader struct {
	Header

	Name string `json:"name"`
	// Time is when it was seen, by our clock.
	Time Time `json:"time"`
	// Entry is the leader's; it is missing while nobody leads.
	Entry *Entry `json:"entry,omitempty"`
}

// Grant tells a program that it holds.
type Grant struct {
	Header

	Name string `json:"name"`
	// Kind is "mutex", "read", "write", "semaphore" or "leader".
	Kind  string `json:"kind"`
	Token int64  `json:"token"`
	// Slot is the number that no other holder has, of a semaphore that gives
	// them.
	Slot *int `json:"slot,omitempty"`
	// Key is what the service calls the entry, to make writes depend on it.
	Key     string  `json:"key"`
	Session string  `json:"session,omitempty"`
	Time    Time    `json:"time"`
	Waited  Seconds `json:"waited"`
	TTL     Seconds `json:"ttl,omitempty"`
}

// The states of a Status.
const (
	StateQueued   = "queued"   // in the line; Place says where
	StateHeld     = "held"     // it holds
	StateSuspect  = "suspect"  // it holds, and the service has not answered for long
	StateAsked    = "asked"    // it holds, and somebody asks it to yield
	StateStopping = "stopping" // the command is told to end
	StateLost     = "lost"     // the lock is lost
	StateReleased = "released" // it was given back
)

// Status tells how a command under a lock fares.
type Status struct {
	Header

	// State is "queued", "held", "suspect", "asked", "stopping", "lost" or
	// "released".
	State string `json:"state"`
	Name  string `json:"name"`
	Time  Time   `json:"time"`
	Token int64  `json:"token,omitempty"`
	// Place is ours in the line, and Of how many stand there.
	Place int `json:"place,omitempty"`
	Of    int `json:"of,omitempty"`
	// Holder is who stands first, while we wait.
	Holder *Entry `json:"holder,omitempty"`
	// Ask is who asks us to yield.
	Ask *Ask `json:"ask,omitempty"`
	// Left is the time until the deadline, while we hold.
	Left   Seconds `json:"left,omitempty"`
	Reason string  `json:"reason,omitempty"`
}

// Ask is a request that a holder yields. All of it is what the one who asks says.
type Ask struct {
	Reason string `json:"reason,omitempty"`
	Host   string `json:"host,omitempty"`
	PID    int    `json:"pid,omitempty"`
	Label  string `json:"label,omitempty"`
	Since  Time   `json:"since,omitzero"`
	// Session is what the service calls the session of the one who asks.
	Session string `json:"session,omitempty"`
}

// The levels of a Finding.
const (
	Good = "ok"
	Warn = "warning"
	Bad  = "problem"
)

// Finding is what an examination has found.
type Finding struct {
	Header

	// Check is what was looked at: "connection", "round-trip", "clock",
	// "alarms", "entries", "tokens" or "deadlock"; "skipped" names those that could
	// not be made.
	Check string `json:"check"`
	// Level is "ok", "warning" or "problem".
	Level string `json:"level"`
	Text  string `json:"text"`
	// Names are the locks that it is about; of a deadlock the cycle, in order.
	Names []string `json:"names,omitempty"`
	// Advice is what to do.
	Advice string `json:"advice,omitempty"`
}

// Release is the version of a program.
type Release struct {
	Header

	Version  string `json:"version"`
	Go       string `json:"go"`
	OS       string `json:"os,omitempty"`
	Arch     string `json:"arch,omitempty"`
	Revision string `json:"revision,omitempty"`
}

// Error is why a command did not do what it was asked to.
type Error struct {
	Header

	// Code is the exit code.
	Code  int    `json:"code"`
	Error string `json:"error"`
}

// NewLine returns an empty one.
func NewLine(name string) Line { return Line{Header: head("line"), Name: name, Entries: []Entry{}} }

// NewEvent returns one.
func NewEvent(event, name string, at time.Time, e Entry) Event {
	return Event{Header: head("event"), Event: event, Name: name, Time: At(at), Entry: e}
}

// NewLeader returns one; nobody leads if e is nil.
func NewLeader(name string, at time.Time, e *Entry) Leader {
	return Leader{Header: head("leader"), Name: name, Time: At(at), Entry: e}
}

// NewGrant returns one in which the header is set.
func NewGrant() Grant { return Grant{Header: head("grant")} }

// NewStatus returns one.
func NewStatus(state, name string, at time.Time) Status {
	return Status{Header: head("status"), State: state, Name: name, Time: At(at)}
}

// NewFinding returns one.
func NewFinding(check, level, text string) Finding {
	return Finding{Header: head("finding"), Check: check, Level: level, Text: text}
}

// NewRelease returns one in which the header is set.
func NewRelease() Release { return Release{Header: head("version")} }

// NewError returns one.
func NewError(code int, text string) Error {
	return Error{Header: head("error"), Code: code, Error: text}
}
