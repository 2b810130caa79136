// Package check decides from the history of a demonstration whether the promises were kept.
// All of it is pure. The history comes from four independent sources: the workers' reports,
// the service's own events, the ledger's entries, and what the demonstration did to the
// workers.
package check

import (
	"slices"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/stamp"
)

// Ending is how a hold ended.
type Ending uint8

// The endings.
const (
	Open     Ending = iota // it has not ended
	Released               // Unlock was called
	Lost                   // its context ended without Unlock
	Killed                 // its process was killed
	Stopped                // its process was stopped until after the deadline
)

// Grant is one hold. It begins when Lock returned it, and ends when the worker could no
// longer believe that it holds:
//
//   - Released: when Unlock was called, which ends the context first.
//   - Lost: when the worker noticed that the context had ended, less the time after the
//     deadline in which its process stood still.
//   - Killed: when the process was reaped.
//   - Stopped: when the kernel had stopped the process. After it is woken, its context is
//     over, so the ledger has to refuse what it writes. If the hold reports itself valid
//     then, that is a violation of its own; see Stop.
type Grant struct {
	Worker string
	PID    int
	Token  int64
	Joined stamp.Stamp // when the worker learned of its place in the queue; 0 if unknown
	At     stamp.Stamp
	End    stamp.Stamp // if How is not Open
	How    Ending
}

// Entry is one entry of the queue, from the service's events.
type Entry struct {
	Token   int64 // the create revision, the czxid, or the place
	Deleted int64 // the revision, the zxid, or the place in the log, of its deletion; 0 if it was not deleted
}

// Head is the answer of the service to a linearizable read of the first entry. The read
// was made while a holder waited for the ledger's answer to its first request.
type Head struct {
	Token int64 // of the holder
	First int64 // the lowest token in the queue, 0 if the queue was empty
}

// Kill describes the worker that was killed.
type Kill struct {
	Worker  string
	PID     int
	Token   int64
	At      stamp.Stamp // when the signal was sent
	Reaped  stamp.Stamp // when the kernel had reported the death by SIGKILL; 0 if it did not
	Present bool        // the service still had its entry when the signal was sent
	Deleted stamp.Stamp // when the service reported the deletion of its entry; 0 if it did not
}

// Stop describes the worker that was stopped and woken.
type Stop struct {
	Worker  string
	PID     int
	Token   int64
	At      stamp.Stamp // when the signal was sent
	Stopped stamp.Stamp // when the kernel had reported that it is stopped; 0 if it did not
	Deleted stamp.Stamp // when the service reported the deletion of its entry; 0 if it did not
	Woken   stamp.Stamp // when SIGCONT was sent; 0 if it was not

	// After it was woken:
	Late  bool          // it reported that it was about to write although its hold was over
	Valid time.Duration // what Hold.Remaining returned then
	Why   string        // why the context of the hold had ended
}

// Leftovers is what was left after all workers had left.
type Leftovers struct {
	Keys              []string
	Leases, Processes int
}

// Terms are the words that the service uses, each in the singular.
type Terms struct {
	Service string // its name: "etcd"
	Key     string // what an entry is stored as: "key"
	Lease   string // what keeps an entry alive until it runs out: "lease"
}

// History is all that was observed.
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

// sorted returns the grants in the order of their times.
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

// After returns the first grant after at, and false if there is none.
func After(grants []Grant, at stamp.Stamp) (Grant, bool) {
	var first Grant
	for _, g := range grants {
		if g.At > at && (first.At == 0 || g.At < first.At) {
			first = g
		}
	}
	return first, first.At != 0
}
