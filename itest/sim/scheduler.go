package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"
)

// sort says what an event is.
type sort uint8

const (
	atLaunch  sort = iota // a request leaves its process
	atTell                // something comes to a session
	atTimer               // a timer of a process
	atActor               // somebody who uses the library goes on
	atService             // a request arrives, a lease may be over
	atReply               // an answer arrives
	atFault               // a fault begins or ends
)

// event is something that will happen.
type event struct {
	due  time.Duration
	tie  uint64 // orders those due at once
	what sort
	c    *client // in whose process it happens, or whose request it is; may be nil
	name string
	num  time.Duration // tells timers apart
	run  func()
	idle func() bool // says that nothing is to happen any more; may be nil

	timers []*timer // that are due together
	req    *flight
	epoch  int // of the connection that a Tell comes by
}

// scheduler lets one thing happen at a time.
type scheduler struct {
	now    atomic.Int64
	random *rand.Rand
	queue  []*event // a heap
	woke   bool     // some goroutine may be running
	steps  int

	mu     sync.Mutex // guards what other goroutines post
	posted []*event
	notes  []note

	hash  uint64
	trace *strings.Builder // nil: nobody reads it
}

// note is what somebody has to say after a step, in the order of names.
type note struct {
	by  string
	say func()
}

// Now is the true time, which is the service's.
func (s *scheduler) Now() time.Duration { return time.Duration(s.now.Load()) }

// post hands in an event, from any goroutine.
func (s *scheduler) post(e *event) {
	s.mu.Lock()
	s.posted = append(s.posted, e)
	s.mu.Unlock()
}

// tell hands in a note, from any goroutine.
func (s *scheduler) tell(by string, say func()) {
	s.mu.Lock()
	s.notes = append(s.notes, note{by, say})
	s.mu.Unlock()
}

// rest waits until every goroutine waits for something to happen, and returns
// what they have posted, in an order that does not depend on who came first.
func (s *scheduler) rest() []*event {
	if s.woke {
		s.woke = false
		synctest.Wait()
	}
	s.mu.Lock()
	posted, notes := s.posted, s.notes
	s.posted, s.notes = nil, nil
	s.mu.Unlock()
	slices.SortStableFunc(notes, func(a, b note) int { return strings.Compare(a.by, b.by) })
	for _, n := range notes {
		n.say()
	}
	slices.SortStableFunc(posted, func(a, b *event) int {
		return cmp.Or(
			cmp.Compare(a.what, b.what), cmp.Compare(a.c.number(), b.c.number()),
			strings.Compare(a.name, b.name), cmp.Compare(a.num, b.num),
		)
	})
	return posted
}

// push puts an event into the queue.
func (s *scheduler) push(e *event) {
	e.tie = s.random.Uint64()
	q := append(s.queue, e)
	i := len(q) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !before(q[i], q[up]) {
			break
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
	s.queue = q
}

// pop takes the next event from the queue; nil if there is none.
func (s *scheduler) pop() *event {
	q := s.queue
	if len(q) == 0 {
		return nil
	}
	first, n := q[0], len(q)-1
	q[0], q[n] = q[n], nil
	q = q[:n]
	for i := 0; ; {
		least := i
		for _, j := range [...]int{2*i + 1, 2*i + 2} {
			if j < n && before(q[j], q[least]) {
				least = j
			}
		}
		if least == i {
			break
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
	s.queue = q
	return first
}

func before(a, b *event) bool {
	if a.due != b.due {
		return a.due < b.due
	}
	return a.tie < b.tie
}

// in returns a random time from a to b.
func (s *scheduler) in(a, b time.Duration) time.Duration {
	return a + time.Duration(s.random.Int64N(int64(b-a)+1))
}

// chance is true once in n times.
func (s *scheduler) chance(n int) bool { return s.random.IntN(n) == 0 }

// The constants of FNV-1a.
const (
	fnvBasis = 14695981039346656037
	fnvPrime = 1099511628211
)

// log adds a line to the trace.
func (s *scheduler) log(c *client, what, name string) {
	h := s.hash
	for _, part := range [...]string{what, name} {
		for i := range len(part) {
			h = (h ^ uint64(part[i])) * fnvPrime
		}
	}
	h = (h ^ uint64(s.now.Load())) * fnvPrime
	s.hash = (h ^ uint64(c.number()+1)) * fnvPrime
	if s.trace != nil {
		who := "service"
		if c != nil {
			who = c.name
		}
		fmt.Fprintf(s.trace, "%12.6fs %5d  %-8s %-15s %s\n", s.Now().Seconds(), s.steps, who, what, name)
	}
}
