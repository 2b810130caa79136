package queue

import (
	"fmt"
	"math"
	"slices"

	"github.com/fairlock/fairlock/session"
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

	// Count is how many stood ahead when that was last known. They can only have
	// become fewer.
	Count int

	// Limit is the line's limit, as of that moment or later; 0 if it has none.
	Limit int64
}

// without returns what is known when the entry r has gone.
func (a Ahead) without(r driver.Ref) Ahead {
	i := a.index(r)
	if i < 0 {
		return a
	}
	a.Entries = slices.Delete(slices.Clone(a.Entries), i, i+1)
	return a
}

// behind returns what is known when it turns out that nobody is ahead of the
// entry r, and that r has gone. Those between it and the seat are known.
func (a Ahead) behind(r driver.Ref) Ahead {
	i := a.index(r)
	if i < 0 {
		return a
	}
	a.Entries, a.Complete = slices.Clone(a.Entries[i+1:]), true
	return a
}

func (a Ahead) index(r driver.Ref) int {
	return slices.IndexFunc(a.Entries, func(e driver.Entry) bool { return e.Ref == r })
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

	// Changes says that they block only for as long as they stay what they are:
	// a writer, or one that was not admitted.
	Changes bool

	// Admitted says that the blocking set has the admitted entries too.
	Admitted bool

	// Soon are entries whose leaving changes nothing yet, but tells that the
	// seat's turn is near, so that it is worth looking before it comes.
	Soon []driver.Ref

	// More: what is known of the line does not suffice; look at more of it.
	More bool

	// Err: the seat will never be admitted.
	Err error
}

// A Rule decides who may hold.
type Rule struct {
	// Decide is the rule itself. It must be monotone: with fewer entries ahead
	// a seat that holds still holds.
	Decide func(ahead Ahead, mine driver.Entry) Verdict

	// Need is how many of the nearest entries the rule wants to see as a
	// first try; it says More if they do not suffice.
	Need int

	// Limited says that the rule goes by the line's limit, which can become
	// less. So a seat that has waited is admitted by a look that shows line and
	// limit, and never by what an event adds to an older look.
	Limited bool
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

// ReadWrite is the rule of readers and writers. A writer is as in Mutex. A
// reader passes other readers but never a writer that came first, so neither
// side can starve; it waits for the nearest writer, not for the first, so that
// it is woken once.
func ReadWrite() Rule { return Rule{Decide: readWrite, Need: 2} }

func readWrite(a Ahead, mine driver.Entry) Verdict {
	if mine.Mode != driver.Shared {
		return mutex(a, mine)
	}
	for _, e := range slices.Backward(a.Entries) {
		if e.Mode != driver.Shared {
			return Verdict{Wait: []driver.Ref{e.Ref}, Changes: true}
		}
	}
	return Verdict{Hold: a.Complete, More: !a.Complete}
}

// Semaphore is the rule of permits: one holds when what those ahead want and
// what it wants itself are not more than the limit. Nobody overtakes, however
// little it wants.
//
// Who is first of those that wait can be admitted by the end of any holder. All
// others are admitted only after the one before them has been, and since that
// one notes it at the service (driver.Session's Admit), they wait for its note
// or its end. So a release wakes one, and its admission wakes one more, whatever
// the limit is and however many wait.
func Semaphore() Rule { return Rule{Decide: semaphore, Need: 1, Limited: true} }

func semaphore(a Ahead, mine driver.Entry) Verdict {
	n, want := len(a.Entries), max(mine.Weight, 1)
	switch {
	case a.Limit > 0 && want > a.Limit:
		return Verdict{Err: fmt.Errorf("%w: %d, the limit is %d", session.ErrWeight, want, a.Limit)}
	case a.Limit <= 0, !a.Complete && (n == 0 || a.Entries[n-1].Admitted):
		return Verdict{More: true}
	case !a.Complete && int64(a.Count) <= a.Limit:
		return Verdict{More: true} // the one before may have been admitted a moment ago
	case !a.Complete:
		return Verdict{Wait: []driver.Ref{a.Entries[n-1].Ref}, Changes: true}
	}
	taken := weight(a)
	if want <= a.Limit-taken {
		return Verdict{Hold: true}
	}
	if last := a.Entries[n-1]; !last.Admitted && taken > a.Limit {
		return Verdict{Wait: []driver.Ref{last.Ref}, Changes: true}
	}
	v := Verdict{}
	for _, e := range a.Entries {
		if e.Admitted {
			v.Admitted = true
		} else {
			v.Wait = append(v.Wait, e.Ref)
		}
	}
	return v
}

// weight is how many permits those ahead have or want, math.MaxInt64 if it is
// more than that. An entry that is not a semaphore's counts as all of them.
func weight(a Ahead) int64 {
	var sum int64
	for _, e := range a.Entries {
		w := max(e.Weight, 1)
		if e.Mode != driver.Weighted || e.Foreign {
			w = a.Limit
		}
		if w > math.MaxInt64-sum {
			return math.MaxInt64
		}
		sum += w
	}
	return sum
}
