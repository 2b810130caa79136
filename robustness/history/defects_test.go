package history_test

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/fairlock/fairlock/robustness/history"
)

// defect is a defect that is planted in a correct record. Its function do reports
// whether the record has a place for it.
type defect struct {
	name    string
	finds   []string // the oracles that must find it
	as      string   // the properties as which they may report it
	recipes []history.Recipe
	do      func(*rand.Rand, *record) bool
}

var (
	everyRecipe = []history.Recipe{history.Mutex, history.Reentrant, history.ReadWrite, history.Semaphore}
	nesting     = []history.Recipe{history.Reentrant}
)

func defects() []defect {
	all := []string{"model", "sweep", "replay"}
	clients := []string{"model", "sweep"}
	sweep := []string{"sweep"}
	replay := []string{"replay"}
	return []defect{
		{"two holders", all, "S1 S4", []history.Recipe{history.Mutex, history.Reentrant}, grantEarly},
		{"reader beside writer", all, "S1 S4", []history.Recipe{history.ReadWrite}, grantEarly},
		{"permits exceeded", all, "S1 S4", []history.Recipe{history.Semaphore}, grantEarly},
		{"more permits than there are", clients, "S1", []history.Recipe{history.Semaphore}, tooMany},
		{"held after a newer grant", all, "S1", everyRecipe, heldForever},
		{"released after a newer grant", all, "S1", everyRecipe, lateRelease},
		{"notified after a newer grant", sweep, "L2", everyRecipe, notifiedLate},
		{"never notified", sweep, "L2", everyRecipe, neverNotified},
		{"hold revived", sweep, "S1'", everyRecipe, heldAgain},
		{"over, then held", sweep, "S1'", everyRecipe, overThenHeld},
		{"context ended, then held", sweep, "S1'", everyRecipe, notifiedThenHeld},
		{"token used twice", all, "S2", everyRecipe, tokenTwice},
		{"neighbours swapped", all, "S1 S2 S4", everyRecipe, swapNeighbours},
		{"tokens of two swapped", all, "S2", everyRecipe, swapTokens},
		{"token far too low", all, "S2 S4", everyRecipe, swapFar},
		{"a hold without a token", sweep, "S2", everyRecipe, noToken},
		{"token is not the place", replay, "S2", everyRecipe, counted},
		{"entry granted twice", all, "S2", everyRecipe, placeTwice},
		{"nested in another client's", all, "S1 S2", nesting, otherClient},
		{"nested in a released hold", clients, "S1", nesting, nestedLate},
		{"granted behind another entry", replay, "S4", everyRecipe, behindOther},
		{"granted without an entry", replay, "S4", everyRecipe, noEntry},
		{"entry left in the queue", replay, "S5", everyRecipe, leftBehind},
		{"entry left for long", replay, "S5", everyRecipe, leftLong},
		{"own entry left for long", replay, "S5", everyRecipe, ownLeftLong},
		{"entry without a request", replay, "S5", everyRecipe, withoutRequest},
		{"late return", sweep, "S6", everyRecipe, lateReturn},
		{"no return", sweep, "S6", everyRecipe, noReturn},
	}
}

// inOrder returns the holds that are not nested, in the order of the store. If single
// is true, it leaves out holds with others nested in them.
func (r *record) inOrder(single bool) []*history.Attempt {
	var holds []*history.Attempt
	inside := make(map[int64]bool)
	for i := range r.attempts {
		if r.attempts[i].Nested {
			inside[r.attempts[i].Place] = true
		}
	}
	for i := range r.attempts {
		a := &r.attempts[i]
		if a.Got != 0 && a.Failed == "" && !a.Nested && (!single || !inside[a.Place]) {
			holds = append(holds, a)
		}
	}
	slices.SortFunc(holds, func(a, b *history.Attempt) int { return cmp.Compare(a.Place, b.Place) })
	return holds
}

// one returns a random attempt of those that match; nil if none does.
func one(rng *rand.Rand, from []*history.Attempt, match func(*history.Attempt) bool) *history.Attempt {
	var matching []*history.Attempt
	for _, a := range from {
		if match(a) {
			matching = append(matching, a)
		}
	}
	if len(matching) == 0 {
		return nil
	}
	return matching[rng.IntN(len(matching))]
}

func released(a *history.Attempt) bool { return a.Outcome == history.Released && a.Told == 0 }

// lostAlive reports whether a hold was lost while its client was running, and the
// client was notified.
func lostAlive(a *history.Attempt) bool {
	return a.Told != 0 && !a.Stopped && a.Outcome != history.Released
}

// excluded reports whether one hold alone excludes another.
func (r *record) excluded(older, newer *history.Attempt) bool {
	switch r.queue.Recipe {
	case history.ReadWrite:
		return !older.Shared || !newer.Shared
	case history.Semaphore:
		return false // that depends on the weights of all holders
	default:
		return true
	}
}

// grantEarly moves a grant to a time at which other holds exclude it.
func grantEarly(rng *rand.Rand, r *record) bool {
	holds := r.inOrder(true)
	for _, i := range rng.Perm(len(holds)) {
		b := holds[i]
		if i == 0 || !released(b) {
			continue
		}
		for _, a := range holds[max(0, i-5):i] {
			at := max(a.Got, b.Asked) + 1
			if !released(a) || at >= a.Back || at >= b.Got {
				continue
			}
			sum, pair := b.Weight, r.excluded(a, b)
			for _, o := range holds[:i] {
				if released(o) && o.Got < at && o.Back > at {
					sum += o.Weight
				}
			}
			if pair || r.queue.Recipe == history.Semaphore && sum > r.queue.Limit {
				b.Got = at
				return true
			}
		}
	}
	return false
}

func tooMany(rng *rand.Rand, r *record) bool {
	a := one(rng, r.inOrder(true), released)
	a.Weight = r.queue.Limit + 1
	return true
}

// heldForever has a client rely on its lost hold until the end of the record.
func heldForever(rng *rand.Rand, r *record) bool {
	holds := r.inOrder(true)
	a := one(rng, holds[:len(holds)/2], lostAlive)
	if a == nil {
		return false
	}
	a.Held, a.Told, a.Over, a.Back, a.Done, a.Outcome = r.until, r.until+1, r.until+1, 0, 0, history.NotReleased
	return true
}

func lateRelease(rng *rand.Rand, r *record) bool {
	holds := r.inOrder(true)
	a := one(rng, holds[:len(holds)/2], released)
	a.Back, a.Done = r.until, r.until+millisecond
	return true
}

func notifiedLate(rng *rand.Rand, r *record) bool {
	holds := r.inOrder(true)
	a := one(rng, holds[:len(holds)/2], lostAlive)
	if a == nil {
		return false
	}
	a.Told, a.Over, a.Back, a.Done, a.Outcome = r.until, r.until, 0, 0, history.NotReleased
	return true
}

func neverNotified(rng *rand.Rand, r *record) bool {
	holds := r.inOrder(true)
	a := one(rng, holds[:len(holds)/2], lostAlive)
	if a == nil {
		return false
	}
	a.Told, a.Over, a.Back, a.Done, a.Outcome = 0, 0, 0, 0, history.NotReleased
	return true
}

func heldAgain(rng *rand.Rand, r *record) bool {
	a := one(rng, r.inOrder(true), lostAlive)
	if a == nil {
		return false
	}
	a.Lied = a.Over + 1
	return true
}

func overThenHeld(rng *rand.Rand, r *record) bool {
	a := one(rng, r.inOrder(true), func(a *history.Attempt) bool { return released(a) && a.Held > a.Got })
	a.Over = a.Held - 1
	return true
}

func notifiedThenHeld(rng *rand.Rand, r *record) bool {
	a := one(rng, r.inOrder(true), func(a *history.Attempt) bool { return released(a) && a.Held > a.Got })
	a.Told = a.Held - 1
	return true
}

// tokenTwice gives a hold the token of the one before it, but leaves the place.
func tokenTwice(rng *rand.Rand, r *record) bool {
	holds := r.inOrder(true)
	i := 1 + rng.IntN(len(holds)-1)
	holds[i].Token = holds[i-1].Token
	return true
}

// neighbours returns two holds that follow and exclude each other. The first was
// released before the second was granted.
func (r *record) neighbours(rng *rand.Rand) (a, b *history.Attempt) {
	holds := r.inOrder(true)
	for _, i := range rng.Perm(len(holds) - 1) {
		a, b := holds[i], holds[i+1]
		full := r.excluded(a, b) || r.queue.Recipe == history.Semaphore && a.Weight+b.Weight > r.queue.Limit
		if full && released(a) && released(b) && a.Back < b.Got {
			return a, b
		}
	}
	return nil, nil
}

func swapNeighbours(rng *rand.Rand, r *record) bool {
	a, b := r.neighbours(rng)
	if a == nil {
		return false
	}
	a.Token, b.Token = b.Token, a.Token
	a.Place, b.Place = b.Place, a.Place
	return true
}

func swapTokens(rng *rand.Rand, r *record) bool {
	a, b := r.neighbours(rng)
	if a == nil {
		return false
	}
	a.Token, b.Token = b.Token, a.Token
	return true
}

// swapFar swaps two holds, the second of which was requested after the first was granted.
func swapFar(rng *rand.Rand, r *record) bool {
	holds := r.inOrder(true)
	a := holds[rng.IntN(len(holds)/2)]
	b := one(rng, holds, func(b *history.Attempt) bool { return b.Asked > a.Got })
	a.Token, b.Token = b.Token, a.Token
	a.Place, b.Place = b.Place, a.Place
	return true
}

func noToken(rng *rand.Rand, r *record) bool {
	a := one(rng, r.inOrder(true), released)
	a.Token = 0
	return true
}

// counted replaces the tokens by consecutive numbers, in the right order.
func counted(_ *rand.Rand, r *record) bool {
	tokens := make(map[int64]int64)
	for i, a := range r.inOrder(false) {
		tokens[a.Place] = int64(i + 1)
	}
	for i := range r.attempts {
		if r.attempts[i].Token != 0 {
			r.attempts[i].Token = tokens[r.attempts[i].Place]
		}
	}
	return true
}

func placeTwice(rng *rand.Rand, r *record) bool {
	holds := r.inOrder(true)
	i := 1 + rng.IntN(len(holds)-1)
	holds[i].Place, holds[i].Token = holds[i-1].Place, holds[i-1].Token
	return true
}

func otherClient(rng *rand.Rand, r *record) bool {
	nested := nestedOf(r)
	if len(nested) == 0 {
		return false
	}
	nested[rng.IntN(len(nested))].Client += 1000
	return true
}

func nestedLate(rng *rand.Rand, r *record) bool {
	nested := nestedOf(r)
	for _, i := range rng.Perm(len(nested)) {
		n := nested[i]
		for _, o := range r.inOrder(false) {
			if o.Place == n.Place && released(o) && released(n) {
				n.Asked, n.Got, n.Held, n.Back, n.Done = o.Done+1, o.Done+2, 0, o.Done+3, o.Done+4
				return true
			}
		}
	}
	return false
}

func nestedOf(r *record) []*history.Attempt {
	var nested []*history.Attempt
	for i := range r.attempts {
		if r.attempts[i].Nested {
			nested = append(nested, &r.attempts[i])
		}
	}
	return nested
}
