package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// verb is the kind of an operation of the model.
type verb int

const (
	grants verb = iota
	checks
	releases
	ends
)

// operation is an operation of the model.
type operation struct {
	verb    verb
	attempt *Attempt
	rank    int   // of its turn among all
	weight  int64 // the capacity that it takes
	ordered bool  // tokens and places must rise with the ranks
}

// activeHold is a hold in a state.
type activeHold struct {
	rank   int
	client int
	token  int64
	weight int64
	count  int // of handles, with the nested ones
}

// state is the state of a queue. It is immutable: the checker returns to old states.
type state struct {
	last         int   // the newest rank that was granted
	token, place int64 // the highest that were granted
	taken        int64
	held         []activeHold // in the order of ranks
}

// model returns the sequential specification of the queue.
func (m *modelCheck) model() porcupine.Model {
	capacity := m.capacity()
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, input, _ any) (bool, any) {
			was, a := s.(state), input.(operation)
			switch {
			case a.verb == grants && a.attempt.Nested:
				return was.nest(a)
			case a.verb == grants:
				return was.grant(a, capacity)
			case a.verb == checks:
				return was.find(a.rank) >= 0, was
			}
			return was.drop(a)
		},
		Equal: func(s, other any) bool {
			a, b := s.(state), other.(state)
			return a.last == b.last && slices.Equal(a.held, b.held)
		},
		Hash:              func(s any) uint64 { return uint64(s.(state).last)<<16 + uint64(len(s.(state).held)) },
		DescribeOperation: func(input, _ any) string { return input.(operation).String() },
		DescribeState:     func(s any) string { return s.(state).String() },
	}
}

// grant adds the next hold, if there is capacity for it.
func (s state) grant(a operation, capacity int64) (bool, state) {
	token, place := a.attempt.Token, a.attempt.Place
	switch {
	case a.rank != s.last+1, s.taken+a.weight > capacity:
		return false, s
	case a.ordered && (token != 0 && token <= s.token || place != 0 && place <= s.place):
		return false, s
	}
	s.last, s.taken = a.rank, s.taken+a.weight
	s.token, s.place = max(s.token, token), max(s.place, place)
	s.held = append(slices.Clip(s.held), activeHold{a.rank, a.attempt.Client, token, a.weight, 1})
	return true, s
}

// nest counts one more handle of a hold, for the client of that hold.
func (s state) nest(a operation) (bool, state) {
	i := s.find(a.rank)
	if i < 0 || s.held[i].client != a.attempt.Client {
		return false, s
	}
	s.held = slices.Clone(s.held)
	s.held[i].count++
	return true, s
}

// drop counts one handle less, and removes the hold with its last handle.
func (s state) drop(a operation) (bool, state) {
	i := s.find(a.rank)
	if i < 0 {
		return false, s
	}
	s.held = slices.Clone(s.held)
	s.held[i].count--
	if s.held[i].count == 0 {
		s.taken -= s.held[i].weight
		s.held = slices.Delete(s.held, i, i+1)
	}
	return true, s
}

func (s state) find(rank int) int {
	return slices.IndexFunc(s.held, func(b activeHold) bool { return b.rank == rank })
}

func (s state) String() string {
	if len(s.held) == 0 {
		return "free"
	}
	var names []string
	for _, b := range s.held {
		name := fmt.Sprintf("client %d", b.client)
		if b.token != 0 {
			name += fmt.Sprintf(" with %d", b.token)
		}
		if b.count > 1 {
			name += fmt.Sprintf(" ×%d", b.count)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func (a operation) String() string {
	switch a.verb {
	case checks:
		return "held"
	case releases:
		return "released"
	case ends:
		return "ended"
	case grants:
	}
	text := "granted"
	if a.attempt.Nested {
		text = "granted inside"
	}
	if a.attempt.Shared {
		text += ", shared"
	}
	if a.attempt.Weight > 1 {
		text += fmt.Sprintf(" %d permits", a.attempt.Weight)
	}
	switch {
	case a.attempt.Token != 0:
		text += fmt.Sprintf(" → %d", a.attempt.Token)
	case a.attempt.Place != 0:
		text += fmt.Sprintf(" at place %d", a.attempt.Place)
	}
	return text
}
