// Package schema is version 1 of the JSON that fairlock prints; docs/json.md
// describes it. Tables are made from the same values, so tables and JSON agree.
//
// Within a version fields are only added, and readers ignore fields that they do
// not know. To rename or remove a field, or to change its meaning, takes a new
// version.
package schema

import (
	"encoding/json"
	"time"
)

// Version is the "v" of every top-level object.
const Version = 1

// Header is the beginning of every top-level object.
type Header struct {
	V    int    `json:"v"`
	Type string `json:"type"` // "queue", "event", "leader", "grant", "status", "finding", "bench", "version" or "error"
}

func head(kind string) Header { return Header{V: Version, Type: kind} }

// Seconds is a duration, written as a number of seconds with at most three decimals.
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

// Entry is one place in a queue.
type Entry struct {
	// State is "holder" or "waiter".
	State string `json:"state"`
	// Place counts from 1, over the whole queue.
	Place int `json:"place"`
	// Token is the fencing token: of the hold, or of the hold that a waiter will get.
	Token int64 `json:"token,omitempty"`
	// Mode is "exclusive", "shared" or "weighted".
	Mode string `json:"mode"`
	// Weight is how many permits a weighted entry holds or waits for.
	Weight int64 `json:"weight,omitempty"`
	// Kind is the recipe: "mutex", "rwlock", "semaphore" or "election".
	Kind string `json:"kind,omitempty"`
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	// Label is what the owner calls itself.
	Label string `json:"label,omitempty"`
	// Since is when the owner asked, by its own clock, and Queued how long ago that
	// is by ours. The entry has been in the queue for that time, as a waiter first
	// and then as a holder.
	Since  Time    `json:"since,omitzero"`
	Queued Seconds `json:"queued,omitempty"`
	// Granted is when the hold began, by the holder's clock, and Held how long ago
	// that is by ours. Both are missing where the entry does not record it: holds
	// shorter than a second, entries of other programs and of older versions.
	Granted Time    `json:"granted,omitzero"`
	Held    Seconds `json:"held,omitempty"`
	// TTL is how long the service keeps the entry after its owner has died. Trace is
	// the trace of the request, as its owner claims.
	TTL   Seconds `json:"ttl,omitempty"`
	Trace string  `json:"trace,omitempty"`
	// Value is what a candidate of an election proposes.
	Value string `json:"value,omitempty"`
	// Generation is the number of the roll-out that a candidate belongs to.
	Generation int64 `json:"generation,omitempty"`
	// Holds are the names that the owner held already when it asked.
	Holds []string `json:"holds,omitempty"`
	// Session and Key are the service's names of the session and of the entry.
	Session string `json:"session,omitempty"`
	Key     string `json:"key"`
	// Foreign marks an entry of another program. Unleased marks an entry without a
	// session: it stays until an operator deletes it.
	Foreign  bool `json:"foreign,omitempty"`
	Unleased bool `json:"unleased,omitempty"`
}

// The states of an Entry.
const (
	Holder = "holder"
	Waiter = "waiter"
)

// Queue is the queue of a lock.
type Queue struct {
	Header

	Name string `json:"name"`
	// Kind is the recipe, if an entry names it.
	Kind string `json:"kind,omitempty"`
	// Limit is how many permits a semaphore has.
	Limit   int64 `json:"limit,omitempty"`
	Holders int   `json:"holders"`
	Waiters int   `json:"waiters"`
	// OldestWait is how long the oldest waiter has waited.
	OldestWait Seconds `json:"oldest_wait,omitempty"`
	// Entries are in order of place.
	Entries []Entry `json:"entries"`
	// Asks are the yield requests, the oldest first, if they were read.
	Asks []Ask `json:"asks,omitempty"`
}

// The events of a queue.
const (
	Queued   = "queued"   // an entry has joined and waits
	Granted  = "granted"  // an entry holds
	Released = "released" // the entry of a holder is deleted
	Gone     = "gone"     // the entry of a waiter is deleted, and it was not seen to hold
	Moved    = "moved"    // a waiter has come closer
	Evicted  = "evicted"  // an operator has deleted the entry
)

// Event is one change of a queue.
type Event struct {
	Header

	// Event is "queued", "granted", "released", "gone", "moved" or "evicted".
	Event string `json:"event"`
	Name  string `json:"name"`
	// Time is when the change was seen, by our clock.
	Time Time `json:"time"`
	// From is the place before a move.
	From int `json:"from,omitempty"`
	// Entry is the entry as it is now, or as it was last seen.
	Entry Entry `json:"entry"`
}

// Leader is a change of leader.
type Leader struct {
	Header

	Name string `json:"name"`
	// Time is when the change was seen, by our clock.
	Time Time `json:"time"`
	// Entry is the leader's. It is missing if there is no leader.
	Entry *Entry `json:"entry,omitempty"`
}

// Grant is what a command prints when it holds.
type Grant struct {
	Header

	Name string `json:"name"`
	// Kind is "mutex", "read", "write", "semaphore" or "leader".
	Kind  string `json:"kind"`
	Token int64  `json:"token"`
	// Slot is the number that this holder has alone, of a semaphore with slots.
	Slot *int `json:"slot,omitempty"`
	// Key is the service's name of the entry; a write can be made to depend on it.
	Key     string  `json:"key"`
	Session string  `json:"session,omitempty"`
	Time    Time    `json:"time"`
	Waited  Seconds `json:"waited"`
	TTL     Seconds `json:"ttl,omitempty"`
}

// The states of a Status.
const (
	StateQueued   = "queued"   // it waits; Place is where
	StateHeld     = "held"     // it holds
	StateSuspect  = "suspect"  // it holds, and no renewal has been acknowledged for a while
	StateAsked    = "asked"    // it holds, and another client asks it to yield
	StateStopping = "stopping" // the command has been asked to end
	StateLost     = "lost"     // the lock is lost
	StateReleased = "released" // the hold is released
)

// Status is the state of a command that runs under a lock.
type Status struct {
	Header

	// State is "queued", "held", "suspect", "asked", "stopping", "lost" or
	// "released".
	State string `json:"state"`
	Name  string `json:"name"`
	Time  Time   `json:"time"`
	Token int64  `json:"token,omitempty"`
	// Place is our place in the queue, and Of the number of entries.
	Place int `json:"place,omitempty"`
	Of    int `json:"of,omitempty"`
	// Holder is the first entry of the queue, while we wait.
	Holder *Entry `json:"holder,omitempty"`
	// Ask is the yield request that the holder has received.
	Ask *Ask `json:"ask,omitempty"`
	// Left is the time until the deadline, while we hold.
	Left   Seconds `json:"left,omitempty"`
	Reason string  `json:"reason,omitempty"`
}

// Ask is a yield request. Its sender wrote all of it, and nothing checks it.
type Ask struct {
	Reason string `json:"reason,omitempty"`
	Host   string `json:"host,omitempty"`
	PID    int    `json:"pid,omitempty"`
	Label  string `json:"label,omitempty"`
	Since  Time   `json:"since,omitzero"`
	// Session is the service's name of the sender's session.
	Session string `json:"session,omitempty"`
}

// The levels of a Finding.
const (
	Good = "ok"
	Warn = "warning"
	Bad  = "problem"
)

// Finding is one result of an examination.
type Finding struct {
	Header

	// Check is what was examined: "connection", "round-trip", "clock", "alarms",
	// "entries", "tokens" or "deadlock". "skipped" lists the checks that were not
	// possible.
	Check string `json:"check"`
	// Level is "ok", "warning" or "problem".
	Level string `json:"level"`
	Text  string `json:"text"`
	// Names are the locks concerned; of a deadlock the cycle, in order.
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

// Error is why a command failed.
type Error struct {
	Header

	// Code is the exit code.
	Code  int    `json:"code"`
	Error string `json:"error"`
}

// NewQueue returns an empty Queue.
func NewQueue(name string) Queue {
	return Queue{Header: head("queue"), Name: name, Entries: []Entry{}}
}

// NewEvent returns an Event.
func NewEvent(event, name string, at time.Time, e Entry) Event {
	return Event{Header: head("event"), Event: event, Name: name, Time: At(at), Entry: e}
}

// NewLeader returns a Leader. A nil e means that there is no leader.
func NewLeader(name string, at time.Time, e *Entry) Leader {
	return Leader{Header: head("leader"), Name: name, Time: At(at), Entry: e}
}

// NewGrant returns a Grant with its header set.
func NewGrant() Grant { return Grant{Header: head("grant")} }

// NewStatus returns a Status.
func NewStatus(state, name string, at time.Time) Status {
	return Status{Header: head("status"), State: state, Name: name, Time: At(at)}
}

// NewFinding returns a Finding.
func NewFinding(check, level, text string) Finding {
	return Finding{Header: head("finding"), Check: check, Level: level, Text: text}
}

// NewRelease returns a Release with its header set.
func NewRelease() Release { return Release{Header: head("version")} }

// NewError returns an Error.
func NewError(code int, text string) Error {
	return Error{Header: head("error"), Code: code, Error: text}
}
