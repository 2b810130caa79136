// Package check looks at what happened, after it happened, and says whether
// the promises were kept. All of it is pure. What it looks at comes from four
// sources that do not know each other: the workers' reports, the store's own
// events, the ledger's book, and what the demonstration did to the workers.
package check

import (
	"slices"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/stamp"
)

// Ending says how a hold ended.
type Ending uint8

// The endings.
const (
	Open     Ending = iota // it has not
	Released               // Unlock was called
	Lost                   // its context ended by itself
	Killed                 // its process was
	Stopped                // its process was, past the deadline
)

// Grant is one hold, from the moment when Lock returned it until nobody could
// act on it in good faith any more:
//
//   - Released: Unlock was called, which ends the context first.
//   - Lost: the context ended, as the worker noticed it.
//   - Killed: the process was reaped.
//   - Stopped: the process was seen to be stopped. Whatever it does after it
//     was woken, its context being over, is not in good faith: that is for the
//     ledger to refuse. A hold that calls itself valid then is a fault of its
//     own; see Stop.
type Grant struct {
	Worker string
	PID    int
	Token  int64
	Joined stamp.Stamp // when the worker learned of its place in the line; 0 if unknown
	At     stamp.Stamp
	End    stamp.Stamp // if How is not Open
	How    Ending
}

// Entry is one place in the line, as the store's events told of it.
type Entry struct {
	Token   int64 // the create revision, or the czxid
	Deleted int64 // the revision, or the zxid, of its deletion; 0 if it is still there
}

// Head is what the store answered when it was asked, with a linearizable read,
// for the first in the line while a holder waited for the ledger's answer to
// its first touch.
type Head struct {
	Token int64 // the holder's
	First int64 // the lowest token in the line, 0 if that was empty
}

// Kill is what was seen of a worker that was killed.
type Kill struct {
	Worker  string
	PID     int
	Token   int64
	At      stamp.Stamp // when the signal was sent
	Reaped  stamp.Stamp // when the kernel said that SIGKILL had ended it; 0 if it did not
	Present bool        // the store still had its entry when the signal was sent
	Gone    stamp.Stamp // when the store told that the entry was gone; 0 if it did not
}

// Stop is what was seen of a worker that was stopped and woken.
type Stop struct {
	Worker  string
	PID     int
	Token   int64
	At      stamp.Stamp // when the signal was sent
	Stopped stamp.Stamp // when the kernel said that it was stopped; 0 if it did not
	Gone    stamp.Stamp // when the store told that the entry was gone; 0 if it did not
	Woken   stamp.Stamp // when SIGCONT was sent; 0 if it was not
	Late    bool        // it reported that it would write although its hold was over ...
	Valid   time.Duration
	Why     string // ... what its hold said of itself then: Valid, and the cause of its end
}

// Leftovers is what was found after everybody had left.
type Leftovers struct {
	Keys              []string
	Leases, Processes int
}

// Terms are what the service calls things, each in the singular.
type Terms struct {
	Service string // itself: "etcd"
	Key     string // what an entry is kept as: "key"
	Lease   string // what keeps an entry alive, and runs out: "lease"
}

// History is all that was seen.
type History struct {
	Terms     Terms
	Grants    []Grant
	Entries   []Entry
	Heads     []Head
	Writes    []ledger.Entry
	Refused   []ledger.Refusal
	Kill      Kill
	Stop      Stop
	Leftovers Leftovers
}

// sorted returns the grants in the order of time.
func sorted(grants []Grant) []Grant {
	grants = slices.Clone(grants)
	slices.SortStableFunc(grants, func(a, b Grant) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	return grants
}

// After returns the first grant after a moment, and false if there is none.
func After(grants []Grant, at stamp.Stamp) (Grant, bool) {
	var first Grant
	for _, g := range grants {
		if g.At > at && (first.At == 0 || g.At < first.At) {
			first = g
		}
	}
	return first, first.At != 0
}
