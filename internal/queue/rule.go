package queue

import (
	"slices"

	"github.com/fairlock/fairlock/session/driver"
)

// Ahead is what is known of the entries before a seat, as of some moment after
// it joined.
type Ahead struct {
	// Entries stand in order of place, the nearest last.
	Entries []driver.Entry

	// Complete says that nobody stands before Entries[0], or before the seat
	// if there are none.
	Complete bool
}

// without returns what is known when the entry r has gone.
func (a Ahead) without(r driver.Ref) Ahead {
	i := slices.IndexFunc(a.Entries, func(e driver.Entry) bool { return e.Ref == r })
	if i < 0 {
		return a
	}
	return Ahead{Entries: slices.Delete(slices.Clone(a.Entries), i, i+1), Complete: a.Complete}
}

// nearest says whether r stands right before the seat.
func (a Ahead) nearest(r driver.Ref) bool {
	n := len(a.Entries)
	return n > 0 && a.Entries[n-1].Ref == r
}

// Verdict is what a rule says of a seat.
type Verdict struct {
	// Hold: the seat holds, now and for as long as its entry lives.
	Hold bool

	// Wait is a blocking set: for as long as none of them leaves, the seat
	// cannot be admitted.
	Wait []driver.Ref

	// Soon are entries whose leaving changes nothing yet, but tells that the
	// seat's turn is near, so that it is worth looking before it comes.
	Soon []driver.Ref

	// More: what is known of the line does not suffice; look at all of it.
	More bool
}

// A Rule decides who may hold.
type Rule struct {
	// Decide is the rule itself. It must be monotone: with fewer entries ahead
	// a seat that holds still holds.
	Decide func(ahead Ahead, mine driver.Entry) Verdict

	// Need is how many of the nearest entries the rule wants to see as a
	// first try; it says More if they do not suffice.
	Need int
}

// Mutex is the rule of everything that excludes everything: one holds when
// nobody is ahead, and waits for the one before it. The second one before it is
// watched too. When that one goes, the look that tells whether the first one
// now holds is made while waiting, and the hand-off itself needs none.
func Mutex() Rule { return Rule{Decide: mutex, Need: 2} }

func mutex(a Ahead, _ driver.Entry) Verdict {
	switch n := len(a.Entries); {
	case n == 0:
		return Verdict{Hold: a.Complete, More: !a.Complete}
	case n == 1:
		return Verdict{Wait: []driver.Ref{a.Entries[0].Ref}}
	default:
		return Verdict{
			Wait: []driver.Ref{a.Entries[n-1].Ref},
			Soon: []driver.Ref{a.Entries[n-2].Ref},
		}
	}
}
