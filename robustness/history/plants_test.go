package history_test

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/fairlock/fairlock/robustness/history"
)

// plant is a defect that is put into a record that is right. It returns whether
// there was a place for it.
type plant struct {
	name    string
	finds   []string // the oracles that must see it
	as      string   // the properties as which they may
	recipes []history.Recipe
	do      func(*rand.Rand, *record) bool
}

var (
	everyRecipe = []history.Recipe{history.Mutex, history.Reentrant, history.ReadWrite, history.Semaphore}
	nesting     = []history.Recipe{history.Reentrant}
)

func plants() []plant {
	all := []string{"model", "sweep", "replay"}
	clients := []string{"model", "sweep"}
	sweep := []string{"sweep"}
	replay := []string{"replay"}
	return []plant{
		{"two holders", all, "S1 S4", []history.Recipe{history.Mutex, history.Reentrant}, squeeze},
		{"reader beside writer", all, "S1 S4", []history.Recipe{history.ReadWrite}, squeeze},
		{"permits exceeded", all, "S1 S4", []history.Recipe{history.Semaphore}, squeeze},
		{"more permits than there are", clients, "S1", []history.Recipe{history.Semaphore}, tooMany},
		{"held after a newer grant", all, "S1", everyRecipe, zombie},
		{"given back after a newer grant", all, "S1", everyRecipe, lateRelease},
		{"told after a newer grant", sweep, "L2", everyRecipe, toldLate},
		{"never told", sweep, "L2", everyRecipe, neverTold},
		{"hold revived", sweep, "S1'", everyRecipe, lied},
		{"over, then held", sweep, "S1'", everyRecipe, overThenHeld},
		{"context ended, then held", sweep, "S1'", everyRecipe, toldThenHeld},
		{"token used twice", all, "S2", everyRecipe, tokenTwice},
		{"neighbours swapped", all, "S1 S2 S4", everyRecipe, swapNeighbours},
		{"tokens of two swapped", all, "S2", everyRecipe, swapTokens},
		{"token far too low", all, "S2 S4", everyRecipe, swapFar},
		{"a hold without a token", sweep, "S2", everyRecipe, noToken},
		{"token is not the place", replay, "S2", everyRecipe, counted},
		{"entry granted twice", all, "S2", everyRecipe, placeTwice},
		{"nested in another client's", all, "S1 S2", nesting, otherClient},
		{"nested in what was given back", clients, "S1", nesting, nestedLate},
		{"granted and not admitted", replay, "S4", everyRecipe, behindForeigner},
		{"granted without an entry", replay, "S4", everyRecipe, noEntry},
		{"entry left in line", replay, "S5", everyRecipe, leftBehind},
		{"entry left for long", replay, "S5", everyRecipe, leftLong},
		{"own entry left for long", replay, "S5", everyRecipe, ownLeftLong},
		{"entry of nobody", replay, "S5", everyRecipe, ofNobody},
		{"late return", sweep, "S6", everyRecipe, lateReturn},
		{"no return", sweep, "S6", everyRecipe, noReturn},
	}
}

// inOrder are the holds that are not nested, in the order of the store. Those with
// others in them are left out if single is true.
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

// one is any of those that a function likes.
func one(rng *rand.Rand, from []*history.Attempt, like func(*history.Attempt) bool) *history.Attempt {
	var liked []*history.Attempt
	for _, a := range from {
		if like(a) {
			liked = append(liked, a)
		}
	}
	if len(liked) == 0 {
		return nil
	}
	return liked[rng.IntN(len(liked))]
}

func given(a *history.Attempt) bool { return a.Outcome == history.Given && a.Told == 0 }

// lostAlive is a hold that was lost by a client that was there to be told, and
// that was asked about it.
func lostAlive(a *history.Attempt) bool {
	return a.Told != 0 && !a.Stopped && a.Outcome != history.Given
}

// needs is how much room there must be beside a hold with this one.
func (r *record) excluded(older, newer *history.Attempt) bool {
	switch r.line.Recipe {
	case history.ReadWrite:
		return !older.Shared || !newer.Shared
	case history.Semaphore:
		return false // it takes more than two to know
	default:
		return true
	}
}

// squeeze has somebody granted as soon as it has asked, where those who hold do not
// leave room.
func squeeze(rng *rand.Rand, r *record) bool {
	holds := r.inOrder(true)
	for _, i := range rng.Perm(len(holds)) {
		b := holds[i]
		if i == 0 || !given(b) {
			continue
		}
		for _, a := range holds[max(0, i-5):i] {
			at := max(a.Got, b.Asked) + 1
			if !given(a) || at >= a.Back || at >= b.Got {
				continue
			}
			sum, pair := b.Weight, r.excluded(a, b)
			for _, o := range holds[:i] {
				if given(o) && o.Got < at && o.Back > at {
					sum += o.Weight
				}
			}
			if pair || r.line.Recipe == history.Semaphore && sum > r.line.Limit {
				b.Got = at
				return true
			}
		}
	}
	return false
}

func tooMany(rng *rand.Rand, r *record) bool {
	a := one(rng, r.inOrder(true), given)
	a.Weight = r.line.Limit + 1
	return true
}

// zombie believes in its lost hold to the end.
func zombie(rng *rand.Rand, r *record) bool {
	holds := r.inOrder(true)
	a := one(rng, holds[:len(holds)/2], lostAlive)
	if a == nil {
		return false
	}
	a.Held, a.Told, a.Over, a.Back, a.Done, a.Outcome = r.until, r.until+1, r.until+1, 0, 0, history.NotGiven
	return true
}

func lateRelease(rng *rand.Rand, r *record) bool {
	holds := r.inOrder(true)
	a := one(rng, holds[:len(holds)/2], given)
	a.Back, a.Done = r.until, r.until+millisecond
	return true
}

func toldLate(rng *rand.Rand, r *record) bool {
	holds := r.inOrder(true)
	a := one(rng, holds[:len(holds)/2], lostAlive)
	if a == nil {
		return false
	}
	a.Told, a.Over, a.Back, a.Done, a.Outcome = r.until, r.until, 0, 0, history.NotGiven
	return true
}

func neverTold(rng *rand.Rand, r *record) bool {
	holds := r.inOrder(true)
	a := one(rng, holds[:len(holds)/2], lostAlive)
	if a == nil {
		return false
	}
	a.Told, a.Over, a.Back, a.Done, a.Outcome = 0, 0, 0, 0, history.NotGiven
	return true
}

func lied(rng *rand.Rand, r *record) bool {
	a := one(rng, r.inOrder(true), lostAlive)
	if a == nil {
		return false
	}
	a.Lied = a.Over + 1
	return true
}

func overThenHeld(rng *rand.Rand, r *record) bool {
	a := one(rng, r.inOrder(true), func(a *history.Attempt) bool { return given(a) && a.Held > a.Got })
	a.Over = a.Held - 1
	return true
}

func toldThenHeld(rng *rand.Rand, r *record) bool {
	a := one(rng, r.inOrder(true), func(a *history.Attempt) bool { return given(a) && a.Held > a.Got })
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

// neighbours are two that follow each other, of which the first was given back
// before the second was granted.
func (r *record) neighbours(rng *rand.Rand) (a, b *history.Attempt) {
	holds := r.inOrder(true)
	for _, i := range rng.Perm(len(holds) - 1) {
		a, b := holds[i], holds[i+1]
		full := r.excluded(a, b) || r.line.Recipe == history.Semaphore && a.Weight+b.Weight > r.line.Limit
		if full && given(a) && given(b) && a.Back < b.Got {
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

// swapFar swaps two of which the second had not asked when the first was granted.
func swapFar(rng *rand.Rand, r *record) bool {
	holds := r.inOrder(true)
	a := holds[rng.IntN(len(holds)/2)]
	b := one(rng, holds, func(b *history.Attempt) bool { return b.Asked > a.Got })
	a.Token, b.Token = b.Token, a.Token
	a.Place, b.Place = b.Place, a.Place
	return true
}

func noToken(rng *rand.Rand, r *record) bool {
	a := one(rng, r.inOrder(true), given)
	a.Token = 0
	return true
}

// counted is a token that somebody counts, in the right order.
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
			if o.Place == n.Place && given(o) && given(n) {
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
