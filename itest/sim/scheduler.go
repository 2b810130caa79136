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

// sort is the kind of an event.
type sort uint8

const (
	atLaunch  sort = iota // a request leaves its process
	atDeliver             // an event comes to a session
	atTimer               // a timer of a process
	atActor               // a worker goes on
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
	num  time.Duration // distinguishes timers
	run  func()
	idle func() bool // reports whether it is not needed any more; may be nil

	timers []*timer // that are due together
	req    *flight
	epoch  int // of the connection that delivers it
}

// scheduler carries out one event at a time.
type scheduler struct {
	now    atomic.Int64
	random *rand.Rand
	events eventHeap // those that are scheduled
	woke   bool      // some goroutine may be running
	steps  int

	mu      sync.Mutex // guards what other goroutines post
	posted  []*event
	reports []report

	hash  uint64
	trace *strings.Builder // nil: it is not written
}

// report is a call that a goroutine wants after a step. Reports are called in the order of names.
type report struct {
	by   string
	call func()
}

// Now is the true time, which is the service's.
func (s *scheduler) Now() time.Duration { return time.Duration(s.now.Load()) }

// post posts an event, from any goroutine.
func (s *scheduler) post(e *event) {
	s.mu.Lock()
	s.posted = append(s.posted, e)
	s.mu.Unlock()
}

// report posts a report, from any goroutine.
func (s *scheduler) report(by string, call func()) {
	s.mu.Lock()
	s.reports = append(s.reports, report{by, call})
	s.mu.Unlock()
}

// rest waits until every goroutine is blocked, and returns the events that they have
// posted, in an order that does not depend on which goroutine came first.
func (s *scheduler) rest() []*event {
	if s.woke {
		s.woke = false
		synctest.Wait()
	}
	s.mu.Lock()
	posted, reports := s.posted, s.reports
	s.posted, s.reports = nil, nil
	s.mu.Unlock()
	slices.SortStableFunc(reports, func(a, b report) int { return strings.Compare(a.by, b.by) })
	for _, r := range reports {
		r.call()
	}
	slices.SortStableFunc(posted, func(a, b *event) int {
		return cmp.Or(
			cmp.Compare(a.what, b.what), cmp.Compare(a.c.number(), b.c.number()),
			strings.Compare(a.name, b.name), cmp.Compare(a.num, b.num),
		)
	})
	return posted
}

// merge makes one event of those whose order is not defined: of timers that are due
// together, of watches that goroutines of one process put on one target, and of the events
// of these.
func merge(posted []*event) []*event {
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
		case e.what == atDeliver:
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
		case atDeliver:
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
	heap.Push(&s.events, e)
}

// pop takes the next event from the queue; nil if there is none.
func (s *scheduler) pop() *event {
	if len(s.events) == 0 {
		return nil
	}
	return heap.Pop(&s.events).(*event) //nolint:forcetypeassert // nothing else is in it
}

// eventHeap implements heap.Interface: the next event is the first.
type eventHeap []*event

func (h eventHeap) Len() int      { return len(h) }
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(e any)   { *h = append(*h, e.(*event)) } //nolint:forcetypeassert // nothing else is in it

func (h eventHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].due, h[j].due), cmp.Compare(h[i].tie, h[j].tie)) < 0
}

func (h *eventHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
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
		process := "service"
		if c != nil {
			process = c.name
		}
		fmt.Fprintf(s.trace, "%12.6fs %5d  %-8s %-15s %s\n", s.Now().Seconds(), s.steps, process, what, name)
	}
}
