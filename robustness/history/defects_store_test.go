package history_test

import (
	"math/rand/v2"
	"slices"

	"github.com/fairlock/fairlock/robustness/history"
)

// These are defects in the store's changes, or in the returns of calls.

func changeOf(r *record, kind string, place int64) int {
	return slices.IndexFunc(r.changes, func(c history.Change) bool { return c.Kind == kind && c.Place == place })
}

// behindOther puts another entry ahead of the entry of a hold, until the hold ends.
func behindOther(rng *rand.Rand, r *record) bool {
	a := one(rng, r.inOrder(true), released)
	left := changeOf(r, history.Left, a.Place)
	gone := r.changes[left]
	gone.Place = a.Place - 1
	r.changes = slices.Insert(r.changes, left+1, gone)
	joined := changeOf(r, history.Joined, a.Place)
	came := r.changes[joined]
	came.Place, came.Shared, came.Weight, came.At = a.Place-1, false, 0, a.Place-1
	r.changes = slices.Insert(r.changes, joined, came)
	return true
}

func noEntry(rng *rand.Rand, r *record) bool {
	a := one(rng, r.inOrder(true), released)
	r.changes = slices.DeleteFunc(r.changes, func(c history.Change) bool { return c.Place == a.Place })
	return true
}

// unclaimed returns the places that no attempt has.
func unclaimed(r *record) []int64 {
	claimed := make(map[int64]bool)
	for i := range r.attempts {
		claimed[r.attempts[i].Place] = true
	}
	var places []int64
	for _, c := range r.changes {
		if c.Kind == history.Joined && !claimed[c.Place] {
			places = append(places, c.Place)
		}
	}
	return places
}

func leftBehind(rng *rand.Rand, r *record) bool {
	left := rng.IntN(len(r.changes))
	for r.changes[left].Kind != history.Left {
		left = (left + 1) % len(r.changes)
	}
	r.changes = slices.Delete(r.changes, left, left+1)
	return true
}

func leftLong(rng *rand.Rand, r *record) bool {
	places := unclaimed(r)
	if len(places) == 0 {
		return false
	}
	left := changeOf(r, history.Left, places[rng.IntN(len(places))])
	r.changes[left].Seen += second + history.Instant(grace)
	return true
}

func ownLeftLong(rng *rand.Rand, r *record) bool {
	a := one(rng, r.inOrder(true), released)
	r.changes[changeOf(r, history.Left, a.Place)].Seen += second + history.Instant(grace)
	return true
}

func withoutRequest(_ *rand.Rand, r *record) bool {
	last := r.changes[len(r.changes)-1]
	at := last.Seen + history.Instant(grace) + second
	r.changes = append(r.changes,
		history.Change{At: last.At + 2, Kind: history.Joined, Place: last.At + 2, Weight: 1, Seen: at},
		history.Change{At: last.At + 4, Kind: history.Left, Place: last.At + 2, Seen: at + 1})
	return true
}

// failed returns an attempt that failed; nil if there is none.
func failed(rng *rand.Rand, r *record) *history.Attempt {
	all := make([]*history.Attempt, 0, len(r.attempts))
	for i := range r.attempts {
		all = append(all, &r.attempts[i])
	}
	return one(rng, all, func(a *history.Attempt) bool { return a.Failed != "" })
}

func lateReturn(rng *rand.Rand, r *record) bool {
	a := failed(rng, r)
	if a == nil {
		return false
	}
	a.Got = a.Ends + history.Instant(bound) + 1
	return true
}

func noReturn(rng *rand.Rand, r *record) bool {
	a := failed(rng, r)
	if a == nil {
		return false
	}
	a.Got, a.Failed = 0, ""
	return true
}
