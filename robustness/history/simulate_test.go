package history_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

const (
	microsecond = history.Instant(time.Microsecond)
	millisecond = history.Instant(time.Millisecond)
	second      = history.Instant(time.Second)

	bound = 100 * time.Millisecond // S6
	grace = 2 * time.Second        // S5
)

// record is the record of a run.
type record struct {
	queue    history.Queue
	attempts []history.Attempt
	changes  []history.Change
	until    history.Instant
}

// simulation is a correct queue and its clients: its record breaks no promise. Holders
// are cut off, stopped and killed, replies are lost, and waiters give up.
type simulation struct {
	*rand.Rand
	queue   history.Queue
	options options
	now     history.Instant
	place   int64
	events  []event // sorted
	alive   []*entry
	all     []*history.Attempt
	record  record
}

// options are the options of a run.
type options struct {
	clients   int
	attempts  int
	faultRate float64 // the share of the holds that do not end by a release
	noTokens  bool
}

type event struct {
	at history.Instant
	do func()
}

type entry struct {
	*history.Attempt
	place int64
	holds bool
	gone  bool
}

// queues returns one queue of each recipe.
func queues() []history.Queue {
	return []history.Queue{
		{Name: "mutex", Recipe: history.Mutex},
		{Name: "reentrant", Recipe: history.Reentrant},
		{Name: "read-write", Recipe: history.ReadWrite},
		{Name: "semaphore", Recipe: history.Semaphore, Limit: 4},
	}
}

// always is grace without stalls.
func always(_, _ history.Instant) time.Duration { return grace }

// simulate runs until all attempts are over and the queue is empty.
func simulate(queue history.Queue, seed uint64, opts options) record {
	sim := &simulation{Rand: rand.New(rand.NewPCG(seed, 5)), queue: queue, options: opts, now: second}
	for c := range opts.clients {
		sim.after(sim.upTo(3*millisecond), func() { sim.ask(c) })
	}
	for len(sim.events) > 0 {
		e := sim.events[0]
		sim.events = sim.events[1:]
		sim.now = e.at
		e.do()
	}
	sim.record.queue, sim.record.until = queue, sim.now+second
	for _, a := range sim.all {
		if opts.noTokens {
			a.Token = 0
		}
		sim.record.attempts = append(sim.record.attempts, *a)
	}
	return sim.record
}

func (sim *simulation) after(d history.Instant, do func()) {
	at := sim.now + d
	i, _ := slices.BinarySearchFunc(sim.events, at, func(e event, at history.Instant) int { return cmp.Compare(e.at, at) })
	for i < len(sim.events) && sim.events[i].at == at {
		i++
	}
	sim.events = slices.Insert(sim.events, i, event{at, do})
}

func (sim *simulation) upTo(d history.Instant) history.Instant {
	return 1 + history.Instant(sim.Int64N(int64(d)))
}

func (sim *simulation) trip() history.Instant { return 100*microsecond + sim.upTo(millisecond) }

// change is a change in the store, now.
func (sim *simulation) change(c history.Change) {
	c.At, c.Seen = sim.place, sim.now+sim.upTo(50*microsecond)
	if n := len(sim.record.changes); n > 0 {
		c.Seen = max(c.Seen, sim.record.changes[n-1].Seen)
	}
	sim.record.changes = append(sim.record.changes, c)
	sim.place += 2 // odd numbers belong to other queues
	sim.grant()
}

// ask begins an attempt.
func (sim *simulation) ask(client int) {
	if len(sim.all) >= sim.options.attempts {
		return
	}
	a := &history.Attempt{Client: client, Queue: sim.queue.Name, Asked: sim.now, Weight: 1}
	switch sim.queue.Recipe {
	case history.ReadWrite:
		a.Shared = sim.Float64() < 0.7
	case history.Semaphore:
		a.Weight = 1 + sim.Int64N(sim.queue.Limit)
	default:
	}
	sim.all = append(sim.all, a)
	s := &entry{Attempt: a}
	sim.after(sim.trip(), func() {
		sim.place += 2
		s.place = sim.place
		sim.alive = append(sim.alive, s)
		sim.change(history.Change{Kind: history.Joined, Place: s.place, Shared: a.Shared, Weight: a.Weight})
	})
	if sim.Float64() < 0.1 {
		sim.after(2*millisecond+sim.upTo(30*millisecond), func() { sim.cancel(s) })
	}
}

// cancel ends the context of a call, if the call is still waiting.
func (sim *simulation) cancel(s *entry) {
	if s.Got != 0 || s.Failed != "" {
		return
	}
	s.Failed, s.Ends = "context canceled", sim.now
	sim.after(sim.upTo(20*millisecond), func() {
		s.Got = sim.now
		if sim.Float64() < 0.5 {
			s.Place = s.place
		}
		sim.after(sim.upTo(5*millisecond), func() { sim.ask(s.Client) })
	})
	sim.after(sim.upTo(50*millisecond), func() { sim.leave(s) })
}

// leave deletes an entry.
func (sim *simulation) leave(s *entry) {
	if s.gone {
		return
	}
	s.gone = true
	sim.alive = slices.DeleteFunc(sim.alive, func(o *entry) bool { return o == s })
	sim.change(history.Change{Kind: history.Left, Place: s.place})
}

// grant grants all entries that the rule allows to hold now.
func (sim *simulation) grant() {
	taken, writer := int64(0), false
	for i, s := range sim.alive {
		taken += s.Weight
		ok := i == 0
		switch sim.queue.Recipe {
		case history.ReadWrite:
			ok = ok || s.Shared && !writer
			writer = writer || !s.Shared
		case history.Semaphore:
			ok = taken <= sim.queue.Limit
		default:
		}
		if !ok {
			return
		}
		if !s.holds {
			s.holds = true
			sim.after(sim.trip(), func() { sim.granted(s) })
		}
	}
}

// granted is called when the client learns of its grant.
func (sim *simulation) granted(s *entry) {
	if s.Failed != "" {
		return
	}
	s.Got, s.Token, s.Place = sim.now, s.place, s.place
	if sim.queue.Recipe == history.Reentrant && sim.Float64() < 0.3 {
		sim.inside(s)
		return
	}
	work := sim.upTo(4 * millisecond)
	switch kind := sim.Float64(); {
	case kind > sim.options.faultRate:
		sim.release(s, work)
	case kind > sim.options.faultRate*3/4:
		sim.cutOff(s, work)
	case kind > sim.options.faultRate/2:
		sim.stopped(s, work)
	case kind > sim.options.faultRate/4:
		sim.killed(s, work)
	default:
		sim.unanswered(s, work)
	}
}

// asks sets when the client last asked the hold: at a random time between the grant and until, or
// never.
func (sim *simulation) asks(a *history.Attempt, until history.Instant) {
	if sim.Float64() < 0.9 {
		a.Held = a.Got + history.Instant(sim.Int64N(int64(until-a.Got)+1))
	}
}

func (sim *simulation) release(s *entry, work history.Instant) {
	sim.after(work, func() {
		sim.asks(s.Attempt, sim.now)
		s.Back = sim.now
		sim.after(sim.trip(), func() {
			sim.leave(s)
			sim.after(sim.trip(), func() {
				s.Outcome, s.Done = history.Released, sim.now
				sim.after(sim.upTo(3*millisecond), func() { sim.ask(s.Client) })
			})
		})
	})
}

// cutOff ends a hold by its deadline, which is before the store's.
func (sim *simulation) cutOff(s *entry, work history.Instant) {
	sim.after(work, func() {
		sim.asks(s.Attempt, sim.now)
		s.Told, s.Over = sim.now+1, sim.now+2
		s.Fault = "cut"
		sim.after(sim.trip(), func() { sim.leave(s) })
		sim.after(5*millisecond, func() {
			if sim.Float64() < 0.5 {
				s.Back, s.Outcome, s.Done = sim.now, history.Lost, sim.now+microsecond
			}
			sim.ask(s.Client)
		})
	})
}

// stopped stops a process beyond the end of its hold. The client is notified afterwards.
func (sim *simulation) stopped(s *entry, work history.Instant) {
	sim.after(work, func() {
		sim.asks(s.Attempt, sim.now)
		s.Stopped, s.Fault = true, "stopped"
		sim.after(sim.trip(), func() { sim.leave(s) })
		sim.after(20*millisecond, func() {
			s.Told, s.Over = sim.now, sim.now+1
			sim.ask(s.Client)
		})
	})
}

func (sim *simulation) killed(s *entry, work history.Instant) {
	sim.after(work, func() {
		sim.asks(s.Attempt, sim.now)
		s.Stopped, s.Fault = true, "killed"
		sim.after(sim.upTo(20*millisecond), func() { sim.leave(s) })
		sim.after(30*millisecond, func() { sim.ask(s.Client) })
	})
}

// unanswered is a release whose reply is lost.
func (sim *simulation) unanswered(s *entry, work history.Instant) {
	sim.after(work, func() {
		sim.asks(s.Attempt, sim.now)
		s.Back, s.Fault = sim.now, "reply lost"
		sim.after(sim.upTo(40*millisecond), func() { sim.leave(s) })
		sim.after(20*millisecond, func() {
			s.Outcome, s.Done = history.Pending, sim.now
			sim.ask(s.Client)
		})
	})
}

// inside acquires the lock once more. The two handles are released in random order.
func (sim *simulation) inside(s *entry) {
	n := &history.Attempt{Client: s.Client, Queue: s.Queue, Nested: true, Token: s.Token, Place: s.Place, Weight: 1}
	release := func(a *history.Attempt, last bool) {
		sim.asks(a, sim.now)
		a.Back = sim.now
		if last {
			sim.after(sim.trip(), func() { sim.leave(s) })
		}
		sim.after(3*millisecond, func() {
			a.Outcome, a.Done = history.Released, sim.now
			if last {
				sim.ask(s.Client)
			}
		})
	}
	sim.after(sim.upTo(millisecond), func() {
		n.Asked = sim.now
		sim.after(sim.upTo(microsecond), func() {
			n.Got = sim.now
			sim.all = append(sim.all, n)
			first, second := s.Attempt, n
			if sim.Float64() < 0.5 {
				first, second = second, first
			}
			if sim.Float64() < sim.options.faultRate {
				sim.after(millisecond, func() {
					sim.asks(first, sim.now)
					sim.asks(second, sim.now)
					s.Told, n.Told, s.Fault, n.Fault = sim.now+1, sim.now+1, "cut", "cut"
					sim.after(sim.trip(), func() { sim.leave(s) })
					sim.after(5*millisecond, func() { sim.ask(s.Client) })
				})
				return
			}
			sim.after(sim.upTo(millisecond), func() { release(first, false) })
			sim.after(2*millisecond+sim.upTo(millisecond), func() { release(second, true) })
		})
	})
}
