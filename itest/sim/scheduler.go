package sim

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/fairlock/fairlock/fault"
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
	queue  queue // a heap
	woke   bool  // some goroutine may be running
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

// together makes one event of those of which it is not settled which comes first: of
// timers that are due together, of watches that goroutines of one process put on one
// target, and of what these are told of it.
func together(posted []*event) []*event {
	type alike struct {
		what  sort
		c     *client
		name  string
		about string
		num   time.Duration
	}
	first := map[alike]*event{}
	return slices.DeleteFunc(posted, func(e *event) bool {
		key := alike{what: e.what, c: e.c, name: e.name}
		switch {
		case e.what == atTimer:
			key.num = e.num
		case e.what == atTell:
			key.about, key.num = e.req.name, time.Duration(e.epoch)
		case e.what == atLaunch && e.req.Op == fault.Watch:
		default:
			return false
		}
		f := first[key]
		if f == nil {
			first[key] = e
			return false
		}
		switch e.what {
		case atTimer:
			f.timers = append(f.timers, e.timers...)
		case atTell:
			run := f.run
			f.run = func() { run(); e.run() }
		default:
			f.req.join(e.req.Request)
		}
		return true
	})
}

// push puts an event into the queue.
func (s *scheduler) push(e *event) {
	e.tie = s.random.Uint64()
	heap.Push(&s.queue, e)
}

// pop takes the next event from the queue; nil if there is none.
func (s *scheduler) pop() *event {
	if len(s.queue) == 0 {
		return nil
	}
	return heap.Pop(&s.queue).(*event) //nolint:forcetypeassert // nothing else is in it
}

// queue implements heap.Interface.
type queue []*event

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(e any)   { *q = append(*q, e.(*event)) } //nolint:forcetypeassert // nothing else is in it

func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].due, q[j].due), cmp.Compare(q[i].tie, q[j].tie)) < 0
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	return e
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

// hash goes on with a hash.
func hash(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * fnvPrime
	}
	return h
}

// log adds a line to the trace.
func (s *scheduler) log(c *client, what, name string) {
	h := hash(hash(s.hash, what), name)
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
