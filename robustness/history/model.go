package history

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// everything is what a writer takes of a line that has room for any number of
	// readers.
	everything = 1 << 40

	// piece is how many operations are judged at once where a history can be cut.
	// The checker keeps a set of all operations for each one that it has placed,
	// so that what it needs grows with the square of this.
	piece = 500
)

// Model asks porcupine whether the holds of each line can be put in an order in
// which every one of them is right: S1, S2 and S4 together. It takes as long as
// within for each stretch of a history that cannot be cut; what could not be
// decided by then is a Violation "model".
//
// The model is that of a line with room for so much: 1 for a Mutex, the limit for
// a Semaphore, any number of readers or one writer. Its operations are a grant,
// which takes room; a check, which must find the hold there; and a release or an
// end, which gives the room back. Grants come in the order of their tokens: the
// next one must have the next rank among all tokens of the line. That is S2 and
// S4, and it leaves the checker nothing to search for.
//
// It holds for locks that admit several, too. Under a rule that nobody overtakes,
// all those ahead of an entry that is admitted are admitted as well, so that
// entries are admitted in the order of their places, though their clients may
// learn of it in any order.
//
// Where there are no tokens the order is that of the places. Where these are
// unknown too, grants are taken in the order in which they were told, and S1 is
// all that is judged. That excuses nothing: whoever is told of a grant has got it
// by then at the latest, so if there is any order, there is this one.
func Model(lines []Line, attempts []Attempt, within time.Duration) []Violation {
	var found []Violation
	known := make(map[string]bool)
	for _, line := range lines {
		known[line.Name] = true
		found = append(found, newLineup(line, attempts, within).judge()...)
	}
	for _, a := range attempts {
		if !known[a.Line] {
			known[a.Line] = true
			found = append(found, Violation{"model", "model", a.Line, "nobody said what this line is for"})
		}
	}
	return found
}

// turn is a hold, with those that are nested in it.
type turn struct {
	outer  *Attempt // nil if there is none for what claims to be nested in it
	nested []*Attempt
}

// lineup is the turns of a line, in the order of their ranks.
type lineup struct {
	line   Line
	turns  []turn
	key    func(turn) int64 // nil if nothing tells the order
	within time.Duration
	piece  int
}

func newLineup(line Line, attempts []Attempt, within time.Duration) *lineup {
	l := &lineup{line: line, within: within, piece: piece}
	var inner []*Attempt
	tokens, places := true, true
	byToken := make(map[int64]int)
	for i := range attempts {
		a := &attempts[i]
		switch {
		case a.Line != line.Name || a.Got == 0 || a.Failed != "":
			// An attempt that came to nothing excuses nothing: exclusion is
			// about what is believed in.
		case a.Nested:
			inner = append(inner, a)
		default:
			if _, taken := byToken[a.Token]; !taken {
				byToken[a.Token] = len(l.turns)
			}
			l.turns = append(l.turns, turn{outer: a})
			tokens = tokens && a.Token != 0
			places = places && a.Place != 0
		}
	}
	for _, a := range inner {
		i, ok := byToken[a.Token]
		if !ok {
			i = len(l.turns)
			byToken[a.Token] = i
			l.turns = append(l.turns, turn{})
		}
		l.turns[i].nested = append(l.turns[i].nested, a)
	}
	switch {
	case tokens:
		l.key = func(t turn) int64 { return t.first().Token }
	case places:
		l.key = func(t turn) int64 { return t.first().Place }
	}
	return l
}

func (t turn) first() *Attempt {
	if t.outer != nil {
		return t.outer
	}
	return t.nested[0]
}

// all are the holds of a turn.
func (t turn) all() []*Attempt {
	if t.outer == nil {
		return t.nested
	}
	return append([]*Attempt{t.outer}, t.nested...)
}

// judge finds what is wrong in each stretch of the line's history.
func (l *lineup) judge() []Violation {
	var found []Violation
	for _, stretch := range l.stretches() {
		if l.check(stretch, l.key) == porcupine.Ok {
			continue
		}
		core := l.core(stretch)
		property := l.property(core)
		found = append(found, Violation{property, "model", l.line.Name, l.text(property, core)})
	}
	return found
}

// stretches cuts the history where all that happened before was begun before
// anything that comes after had returned: what is before can then be placed before
// what is after, so each part may be judged for itself.
func (l *lineup) stretches() [][]turn {
	turns := slices.Clone(l.turns)
	l.sort(turns, l.key)
	acts, ranks := l.acts(turns, l.key)
	begun, ended := make([]int64, len(turns)), make([]int64, len(turns)) // the last call, the first return
	size := make([]int, len(turns))
	of := make(map[int]int) // the last turn of a rank
	for i, rank := range ranks {
		of[rank] = i
		ended[i] = math.MaxInt64
	}
	for _, op := range acts {
		i := of[op.Input.(act).rank]
		size[i]++
		begun[i] = max(begun[i], op.Call)
		ended[i] = min(ended[i], op.Return)
	}
	places := make([][2]int64, len(turns)) // the highest until here, the lowest from here on
	for i, t := range turns {
		places[i] = [2]int64{t.first().Place, cmp.Or(t.first().Place, math.MaxInt64)}
	}
	for i := 1; i < len(turns); i++ {
		begun[i] = max(begun[i], begun[i-1])
		places[i][0] = max(places[i][0], places[i-1][0])
		j := len(turns) - 1 - i
		ended[j] = min(ended[j], ended[j+1])
		places[j][1] = min(places[j][1], places[j+1][1])
	}
	apart := func(i int) bool {
		inOrder := l.key == nil || ranks[i] != ranks[i+1] && places[i][0] < places[i+1][1]
		return inOrder && begun[i] <= ended[i+1]
	}
	var parts [][]turn
	from, operations := 0, 0
	for i := range turns {
		operations += size[i]
		last := i == len(turns)-1
		if last || operations >= l.piece && apart(i) {
			parts = append(parts, turns[from:i+1])
			from, operations = i+1, 0
		}
	}
	return parts
}

// sort puts turns in the order in which they must have been granted.
func (l *lineup) sort(turns []turn, key func(turn) int64) {
	slices.SortStableFunc(turns, func(a, b turn) int {
		if key != nil {
			return cmp.Compare(key(a), key(b))
		}
		// A hold that nobody believed in any more may have been over by the time
		// at which another one was told.
		return cmp.Or(cmp.Compare(a.first().Got, b.first().Got), cmp.Compare(claimed(a.first()), claimed(b.first())))
	})
}

func (l *lineup) check(turns []turn, key func(turn) int64) porcupine.CheckResult {
	acts, _ := l.acts(turns, key)
	return porcupine.CheckOperationsTimeout(l.model(), acts, l.within)
}

// acts turns holds into operations, and ranks them.
func (l *lineup) acts(turns []turn, key func(turn) int64) ([]porcupine.Operation, []int) {
	var acts []porcupine.Operation
	ranks := make([]int, len(turns))
	turns = slices.Clone(turns)
	l.sort(turns, key)
	for i, t := range turns {
		rank := 1
		if i > 0 {
			rank = ranks[i-1] + 1
			if key != nil && key(turns[i-1]) == key(t) {
				rank-- // the second with one token is never next
			}
		}
		ranks[i] = rank
		for _, a := range t.all() {
			acts = append(acts, l.actsOf(a, rank, key != nil, len(t.nested) > 0)...)
		}
	}
	return acts, ranks
}

// actsOf are the operations of one hold. It may be nested, or others in it.
func (l *lineup) actsOf(a *Attempt, rank int, ordered, nests bool) []porcupine.Operation {
	in := act{attempt: a, rank: rank, weight: l.weight(a), ordered: ordered}
	op := func(does verb, call, back Instant) porcupine.Operation {
		in.verb = does
		return porcupine.Operation{ClientId: a.Client, Input: in, Call: int64(call), Return: int64(back)}
	}
	acts := []porcupine.Operation{op(grants, a.Asked, a.Got)}
	if held := checked(a); held != 0 {
		acts = append(acts, op(checks, held, held))
	}
	if released(a) {
		return append(acts, op(releases, a.Back, a.Done))
	}
	// A hold that was not given back may have ended at any time, or not yet. It is
	// placed as early as its last check allows, if nothing is nested in it: if it
	// can be later, it can be then. Ends that may be anywhere make the checker try
	// out all of them before it refuses a history: with half of all readers lost,
	// 20 s instead of 2 for 50 000 operations.
	latest := max(a.Got, checked(a))
	if nests {
		latest = math.MaxInt64
	}
	return append(acts, op(ends, max(a.Asked, checked(a)), latest))
}

// weight is how much room a hold takes.
func (l *lineup) weight(a *Attempt) int64 {
	switch {
	case l.line.Recipe == ReadWrite && !a.Shared:
		return everything
	case l.line.Recipe == Semaphore:
		return max(1, a.Weight)
	}
	return 1
}

// room is how much there is.
func (l *lineup) room() int64 {
	switch l.line.Recipe {
	case ReadWrite:
		return everything
	case Semaphore:
		return l.line.Limit
	default:
		return 1
	}
}

// checked is when the client last put the question to which its hold said "held".
// What a hold says while its own client gives it back is nobody's belief.
func checked(a *Attempt) Instant {
	if a.Back != 0 {
		return min(a.Held, a.Back)
	}
	return a.Held
}

// released reports whether giving back was acknowledged to somebody who still
// believed. An acknowledgement for what was known to be lost says nothing.
func released(a *Attempt) bool {
	knew := a.Told != 0 && a.Told <= a.Back || a.Over != 0 && a.Over <= a.Back
	return a.Outcome == Given && a.Back != 0 && a.Done != 0 && !knew
}

// claimed is until when a hold was believed in, for certain.
func claimed(a *Attempt) Instant {
	if released(a) {
		return max(a.Got, a.Back)
	}
	return max(a.Got, checked(a))
}
