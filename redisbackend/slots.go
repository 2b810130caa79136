package redisbackend

import (
	"sync"

	"github.com/fairlock/fairlock/redisbackend/internal/script"
)

// slots number the calls of one session that write, so that the server carries each out once, see
// once.lua.
//
//	a call begins         has a free slot, or a new one, and the next number of it
//	ends with an answer   the slot is free
//	ends without one      a Join keeps the slot until it is settled; for others the next write tells the
//	                      server that the call was given up, and then the slot is free
type slots struct {
	mu      sync.Mutex
	numbers []int64       // the newest number of each slot
	free    []int         // slots without a call
	given   map[turn]bool // calls that were given up, and that the server does not know of yet
	pending map[turn]bool // Joins that were given up, and are not settled
}

// turn is a call: a slot and the number of the call.
type turn struct {
	slot   int
	number int64
}

func (s *slots) begin() turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		s.numbers = append(s.numbers, 0)
		s.free = append(s.free, len(s.numbers)-1)
	}
	slot := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.numbers[slot]++
	return turn{slot, s.numbers[slot]}
}

// answered ends a call of which no attempt will be carried out any more.
func (s *slots) answered(t turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, t.slot)
}

// gaveUp ends a call of which an attempt may still be carried out.
func (s *slots) gaveUp(t turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given == nil {
		s.given = map[turn]bool{}
	}
	s.given[t] = true
}

// wait ends a Join that has to be settled.
func (s *slots) wait(t turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending == nil {
		s.pending = map[turn]bool{}
	}
	s.pending[t] = true
}

// settled takes in that a Join was settled, perhaps before.
func (s *slots) settled(t turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending[t] {
		delete(s.pending, t)
		s.free = append(s.free, t.slot)
	}
}

// args returns what begins the arguments of a write with this turn, and the calls that were given up
// before it: the write's answer shows that none of them is carried out any more.
func (s *slots) args(session string, t turn) (script.Args, []turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var a script.Args
	var given []turn
	for g := range s.given {
		given = append(given, g)
	}
	a.Text(session)
	a.Int(int64(t.slot), t.number, int64(len(given)))
	for _, g := range given {
		a.Int(int64(g.slot), g.number)
	}
	return a, given
}

// known takes in that the server knows of calls that were given up.
func (s *slots) known(given []turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range given {
		if s.given[g] {
			delete(s.given, g)
			s.free = append(s.free, g.slot)
		}
	}
}
