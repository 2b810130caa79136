package history

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// readWriteCapacity is the capacity of a ReadWrite queue, higher than any number of
	// readers. A writer takes all of it.
	readWriteCapacity = 1 << 40

	// piece is the least number of operations that are judged at once. A history is
	// cut into such pieces where possible: the checker keeps a set of all operations
	// for each operation that it has placed, so its cost grows with the square.
	piece = 500
)

// Model checks with porcupine whether the operations of each queue can be put in an
// order in which each of them is correct: S1, S2 and S4 together. A history is cut
// into stretches where possible, and each takes at most within. A stretch that is not
// decided by then is a Violation of "model".
//
// The model is a queue with a capacity: 1 for a Mutex, the limit for a Semaphore, any
// number of readers or one writer. Its operations are a grant, which takes capacity; a
// check, which must find the hold; and a release or an end, which frees the capacity.
// Grants come in the order of their tokens: the next grant must have the next rank
// among all tokens of the queue. That is S2 and S4, and it leaves the checker nothing
// to search for.
//
// This also holds for locks with several holders. As no request overtakes another, an
// entry may hold only if all entries ahead of it may. So entries are granted in the
// order of their places, though their clients may learn of it in any order.
//
// Where there are no tokens, the order is that of the places. Where the places are
// unknown too, grants are taken in the order of their returns, and only S1 is judged.
// That hides nothing: a client that returns with a hold was granted it by then, so if
// there is any order, this order exists too.
func Model(queues []Queue, attempts []Attempt, within time.Duration) []Violation {
	var found []Violation
	known := make(map[string]bool)
	for _, queue := range queues {
		known[queue.Name] = true
		found = append(found, newModelCheck(queue, attempts, within).judge()...)
	}
	for _, a := range attempts {
		if !known[a.Queue] {
			known[a.Queue] = true
			found = append(found, Violation{"model", "model", a.Queue, "the recipe of this queue is unknown"})
		}
	}
	return found
}

// turn is a hold, with the holds that are nested in it.
type turn struct {
	outer  *Attempt // nil if no hold has the token of the nested ones
	nested []*Attempt
}

// modelCheck is the check of one queue.
type modelCheck struct {
	queue  Queue
	turns  []turn
	key    func(turn) int64 // orders the turns; nil if neither all tokens nor all places are known
	within time.Duration
	piece  int
}

func newModelCheck(queue Queue, attempts []Attempt, within time.Duration) *modelCheck {
	m := &modelCheck{queue: queue, within: within, piece: piece}
	var inner []*Attempt
	tokens, places := true, true
	byToken := make(map[int64]int)
	for i := range attempts {
		a := &attempts[i]
		switch {
		case a.Queue != queue.Name || a.Got == 0 || a.Failed != "":
			// An attempt without a hold excuses nothing: exclusion is about
			// what holds report.
		case a.Nested:
			inner = append(inner, a)
		default:
			if _, taken := byToken[a.Token]; !taken {
				byToken[a.Token] = len(m.turns)
			}
			m.turns = append(m.turns, turn{outer: a})
			tokens = tokens && a.Token != 0
			places = places && a.Place != 0
		}
	}
	for _, a := range inner {
		i, ok := byToken[a.Token]
		if !ok {
			i = len(m.turns)
			byToken[a.Token] = i
			m.turns = append(m.turns, turn{})
		}
		m.turns[i].nested = append(m.turns[i].nested, a)
	}
	switch {
	case tokens:
		m.key = func(t turn) int64 { return t.first().Token }
	case places:
		m.key = func(t turn) int64 { return t.first().Place }
	}
	return m
}

func (t turn) first() *Attempt {
	if t.outer != nil {
		return t.outer
	}
	return t.nested[0]
}

// all returns the holds of a turn.
func (t turn) all() []*Attempt {
	if t.outer == nil {
		return t.nested
	}
	return append([]*Attempt{t.outer}, t.nested...)
}

// judge returns at most one violation for each stretch of the history.
func (m *modelCheck) judge() []Violation {
	var found []Violation
	for _, stretch := range m.stretches() {
		if m.check(stretch, m.key) == porcupine.Ok {
			continue
		}
		core := m.core(stretch)
		property := m.property(core)
		found = append(found, Violation{property, "model", m.queue.Name, m.text(property, core)})
	}
	return found
}

// stretches cuts the history between two turns if every operation before the cut was
// called before any operation after it returned. All operations before the cut can
// then be placed before all after it, so each part may be judged by itself.
func (m *modelCheck) stretches() [][]turn {
	turns := slices.Clone(m.turns)
	m.sort(turns, m.key)
	ops, ranks := m.operations(turns, m.key)
	begun, ended := make([]int64, len(turns)), make([]int64, len(turns)) // the last call, the first return
	size := make([]int, len(turns))
	of := make(map[int]int) // the last turn of a rank
	for i, rank := range ranks {
		of[rank] = i
		ended[i] = math.MaxInt64
	}
	for _, op := range ops {
		i := of[op.Input.(operation).rank]
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
		inOrder := m.key == nil || ranks[i] != ranks[i+1] && places[i][0] < places[i+1][1]
		return inOrder && begun[i] <= ended[i+1]
	}
	var parts [][]turn
	from, operations := 0, 0
	for i := range turns {
		operations += size[i]
		last := i == len(turns)-1
		if last || operations >= m.piece && apart(i) {
			parts = append(parts, turns[from:i+1])
			from, operations = i+1, 0
		}
	}
	return parts
}

// sort puts turns in the order in which they must have been granted.
func (m *modelCheck) sort(turns []turn, key func(turn) int64) {
	slices.SortStableFunc(turns, func(a, b turn) int {
		if key != nil {
			return cmp.Compare(key(a), key(b))
		}
		// Of two holds that returned at the same moment, the one that reported
		// "held" for longer comes second: the other may have been over by then.
		return cmp.Or(cmp.Compare(a.first().Got, b.first().Got), cmp.Compare(heldUntil(a.first()), heldUntil(b.first())))
	})
}

func (m *modelCheck) check(turns []turn, key func(turn) int64) porcupine.CheckResult {
	ops, _ := m.operations(turns, key)
	return porcupine.CheckOperationsTimeout(m.model(), ops, m.within)
}

// operations turns holds into operations, and ranks the turns.
func (m *modelCheck) operations(turns []turn, key func(turn) int64) ([]porcupine.Operation, []int) {
	var ops []porcupine.Operation
	ranks := make([]int, len(turns))
	turns = slices.Clone(turns)
	m.sort(turns, key)
	for i, t := range turns {
		rank := 1
		if i > 0 {
			rank = ranks[i-1] + 1
			if key != nil && key(turns[i-1]) == key(t) {
				rank-- // a second turn with the same token is never next
			}
		}
		ranks[i] = rank
		for _, a := range t.all() {
			ops = append(ops, m.operationsOf(a, rank, key != nil, len(t.nested) > 0)...)
		}
	}
	return ops, ranks
}

// operationsOf returns the operations of one hold. It may be nested, or have others
// nested in it (nests).
func (m *modelCheck) operationsOf(a *Attempt, rank int, ordered, nests bool) []porcupine.Operation {
	in := operation{attempt: a, rank: rank, weight: m.weight(a), ordered: ordered}
	op := func(does verb, call, back Instant) porcupine.Operation {
		in.verb = does
		return porcupine.Operation{ClientId: a.Client, Input: in, Call: int64(call), Return: int64(back)}
	}
	ops := []porcupine.Operation{op(grants, a.Asked, a.Got)}
	held := lastHeld(a)
	if held != 0 {
		ops = append(ops, op(checks, held, held))
	}
	if released(a) {
		return append(ops, op(releases, a.Back, a.Done))
	}
	// A hold that was not released may have ended at any time, or not yet. If nothing
	// is nested in it, its end is placed as early as its last check allows: if any
	// later time is possible, this one is too. Ends that may be anywhere make the
	// checker try out all of them before it rejects a history: with half of all
	// readers lost, 20 s instead of 2 s for 50 000 operations.
	latest := max(a.Got, lastHeld(a))
	if nests {
		latest = math.MaxInt64
	}
	return append(ops, op(ends, max(a.Asked, lastHeld(a)), latest))
}

// weight returns the capacity that a hold takes.
func (m *modelCheck) weight(a *Attempt) int64 {
	switch {
	case m.queue.Recipe == ReadWrite && !a.Shared:
		return readWriteCapacity
	case m.queue.Recipe == Semaphore:
		return max(1, a.Weight)
	}
	return 1
}

// capacity returns the capacity of the queue.
func (m *modelCheck) capacity() int64 {
	switch m.queue.Recipe {
	case ReadWrite:
		return readWriteCapacity
	case Semaphore:
		return m.queue.Limit
	default:
		return 1
	}
}

// lastHeld returns when the client last put a question to which its hold answered
// "held". Answers while its own client releases it do not count.
func lastHeld(a *Attempt) Instant {
	if a.Back != 0 {
		return min(a.Held, a.Back)
	}
	return a.Held
}

// released reports whether a release was acknowledged to a client that did not know of
// a loss. An acknowledgement for a hold that was known to be lost shows nothing.
func released(a *Attempt) bool {
	knew := a.Told != 0 && a.Told <= a.Back || a.Over != 0 && a.Over <= a.Back
	return a.Outcome == Released && a.Back != 0 && a.Done != 0 && !knew
}

// heldUntil returns the last moment at which the client certainly relied on the hold.
func heldUntil(a *Attempt) Instant {
	if released(a) {
		return max(a.Got, a.Back)
	}
	return max(a.Got, lastHeld(a))
}
