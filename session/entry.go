package session

import (
	"time"
	"unicode/utf8"

	"github.com/fairlock/fairlock/internal/owner"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// State is the state of an entry by the rule of its queue.
type State string

// The states.
const (
	Holder State = "holder"
	Waiter State = "waiter"
)

// Mode is what a hold shares the lock with.
type Mode string

// The modes. Entries of other programs count as Exclusive, unless their names mark
// them as readers.
const (
	Exclusive Mode = "exclusive" // no other hold: a mutex, a writer, a leader
	Shared    Mode = "shared"    // other readers
	Weighted  Mode = "weighted"  // holds whose permits fit within the limit together; see Entry.Weight
)

// modeOf returns a mode as users see it.
func modeOf(m driver.Mode) Mode { return Mode(m.String()) }

// Entry is one place in the queue of a lock. Host, PID, Label, Trace, Asked, Granted, Value and
// Generation are what the owner of the entry claims, by its own clock: quote them before you print
// them on a terminal. They are zero where the owner claims nothing, as most other
// programs do.
type Entry struct {
	State  State  `json:"state"`
	Place  int    `json:"place"`            // from 1 on
	Token  Token  `json:"token,omitempty"`  // 0 if the entry was deleted during the read, or the login may not read it
	Kind   string `json:"kind,omitempty"`   // the recipe: "mutex"
	Mode   Mode   `json:"mode"`             //
	Weight int64  `json:"weight,omitempty"` // permits, of a semaphore's request
	Host   string `json:"host,omitempty"`
	PID    int    `json:"pid,omitempty"`
	Label  string `json:"label,omitempty"` // Options.Label
	Trace  string `json:"trace,omitempty"` // of Hooks.Trace

	// Asked is when the owner asked for the lock, and Granted is when its hold began.
	// Granted is zero for waiters, for other programs, and for the first second of a
	// hold.
	Asked   time.Time `json:"asked,omitzero"`
	Granted time.Time `json:"granted,omitzero"`

	// Value is what a candidate of an election has proclaimed, if that is UTF-8, and Generation the
	// number of its roll-out: election.Options.Generation.
	Value      string `json:"value,omitempty"`
	Generation int64  `json:"generation,omitempty"`

	// Session and Key are the service's names for the session and the entry.
	Session string `json:"session,omitempty"`
	Key     string `json:"key"`

	// Foreign marks an entry that another program made.
	Foreign bool `json:"foreign,omitempty"`

	of driver.Entry
}

// entryOf returns an entry as users see it.
func entryOf(place int, holds bool, e driver.Entry) Entry {
	meta := owner.MetaOf(&e)
	out := Entry{
		State: Waiter, Place: place, Token: Token(e.Token), Kind: meta.Kind, Mode: modeOf(e.Mode), Weight: e.Weight,
		Host: meta.Host, PID: meta.PID, Label: meta.Label, Trace: meta.Trace, Asked: meta.Since, Session: e.Session, Key: e.Key,
		Generation: meta.Generation, Foreign: e.Foreign, of: e,
	}
	if e.Shares() {
		out.Mode = Shared
	}
	if holds {
		out.State, out.Granted = Holder, meta.Granted
	}
	if e.Valued && !e.Foreign && utf8.Valid(e.Data) {
		out.Value = string(e.Data)
	}
	return out
}

// entriesOf returns a whole queue as users see it.
func entriesOf(queue []driver.Entry, limit int64) []Entry {
	all := make([]Entry, len(queue))
	for i, holds := range rule.Holders(queue, limit) {
		all[i] = entryOf(i+1, holds, queue[i])
	}
	return all
}
