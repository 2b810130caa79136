package hub

import (
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

// A Join is one that is under way. The script that carries it out notes the session with the one nearest ahead
// of each entry that it makes, and every entry is known to belong to its session. So the answer is the state of
// both, and all that happens to them afterwards comes as a notice:
//
//	before the answer              the Join keeps it, because it may be about one of these
//	after the answer               the state follows
//	when a watch of one begins     it is armed with the state, or reports Gone
//
// A state is as new as the newest notice. So any later answer about the queue ends it: that may be newer than a
// notice which is on its way, and Armed must not be older than what the session was given before. A caller watches
// right after its Join, so few states end unused; a watch then costs a look.
type Join struct {
	connection int // that which brought all notices when the Join began; 0 if there was none
	early      map[spot]state
	overtaken  map[string]bool // queues that another answer was about meanwhile
}

// state is what is known of an entry without a look.
type state struct {
	marks driver.Marks
	stamp int64
	gone  bool
	first bool
}

// note takes in a notice.
func (s *state) note(n script.Notice) {
	if n.Kind == script.Went {
		s.gone, s.first = true, n.First
		return
	}
	s.marks |= n.Marks
	s.stamp = max(s.stamp, n.Changes)
}

// shown is what the newest Join has shown of its queue.
type shown struct {
	own   int64 // the place of the entry that it has made
	mine  state
	ahead int64 // the place of the one nearest ahead, 0 if there was none
	near  state
}

// joins are what is known from Joins. The hub's mutex guards them.
type joins struct {
	connection int // that which brings all notices now, from 1; 0 while there is none
	newest     int // the number of the newest one
	running    map[*Join]struct{}
	shown      map[string]*shown // by queue
}

func noJoins() joins {
	return joins{running: map[*Join]struct{}{}, shown: map[string]*shown{}}
}

// Joins is called before a Join is sent, and Unjoined when it has ended.
func (h *Hub) Joins() *Join {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := &Join{connection: h.connection, early: map[spot]state{}, overtaken: map[string]bool{}}
	h.running[j] = struct{}{}
	return j
}

// Unjoined ends a Join, with an answer or without.
func (h *Hub) Unjoined(j *Join) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, j)
}

// Joined takes in what an answer shows of one queue: the entry that it has made, and the one nearest ahead, which
// has had some changes. Places rise, so answers that are taken in late are known.
func (h *Hub) Joined(j *Join, own driver.Ref, ahead driver.Entry, changes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.shown[own.Queue]
	if before != nil && before.own > own.Place {
		return
	}
	delete(h.shown, own.Queue)
	s := &shown{own: own.Place, mine: j.early[spotOf(own)]}
	if j.connection == 0 || j.connection != h.connection || j.overtaken[own.Queue] || s.mine.gone {
		return // notices may be missing, another answer may be newer, or there is nothing to know
	}
	if !ahead.Zero() {
		s.ahead, s.near = ahead.Place, j.early[spotOf(ahead.Ref)]
		s.near.marks |= ahead.Marks
		s.near.stamp = max(s.near.stamp, changes)
	}
	h.shown[own.Queue] = s
}

// Answered takes in any other answer about a queue.
func (h *Hub) Answered(queue string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answered(queue)
}

func (h *Hub) answered(queue string) {
	delete(h.shown, queue)
	for j := range h.running {
		j.overtaken[queue] = true
	}
}

// state returns that of an entry, nil if it is not known.
func (h *Hub) state(at spot) *state {
	s := h.shown[at.queue]
	switch {
	case s == nil || at.place == 0:
		return nil
	case at.place == s.own:
		return &s.mine
	case at.place == s.ahead:
		return &s.near
	}
	return nil
}

// noted takes in a notice about an entry.
func (h *Hub) noted(at spot, n script.Notice) {
	s := h.state(at)
	if s != nil {
		s.note(n)
	}
	for j := range h.running {
		early := j.early[at]
		early.note(n)
		j.early[at] = early
	}
}

// connected begins a connection that brings all notices.
func (h *Hub) connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest++
	h.connection = h.newest
}

// lost ends a connection.
func (h *Hub) lost() {
	h.connection = 0
	clear(h.shown)
}
