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

// record is what a run has left.
type record struct {
	line     history.Line
	attempts []history.Attempt
	changes  []history.Change
	until    history.Instant
}

// world is a line with clients that use it as it should be: what it records breaks
// no promise. Holders are cut off, stopped and killed, replies are lost, and
// waiters give up.
type world struct {
	*rand.Rand
	line   history.Line
	shape  shape
	now    history.Instant
	place  int64
	events []event // sorted
	alive  []*seat
	all    []*history.Attempt
	record record
}

// shape is what a run is like.
type shape struct {
	clients   int
	attempts  int
	harm      float64 // the part of the holds that does not end by a release
	anonymous bool    // no tokens
}

type event struct {
	at history.Instant
	do func()
}

type seat struct {
	*history.Attempt
	place    int64
	admitted bool
	gone     bool
}

// lines are one of each recipe.
func lines() []history.Line {
	return []history.Line{
		{Name: "mutex", Recipe: history.Mutex},
		{Name: "reentrant", Recipe: history.Reentrant},
		{Name: "read-write", Recipe: history.ReadWrite},
		{Name: "semaphore", Recipe: history.Semaphore, Limit: 4},
	}
}

// play lets a world run until all its attempts are over and the line is empty.
func play(line history.Line, seed uint64, sh shape) record {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 5)), line: line, shape: sh, now: second}
	for c := range sh.clients {
		w.after(w.upTo(3*millisecond), func() { w.ask(c) })
	}
	for len(w.events) > 0 {
		e := w.events[0]
		w.events = w.events[1:]
		w.now = e.at
		e.do()
	}
	w.record.line, w.record.until = line, w.now+second
	for _, a := range w.all {
		if sh.anonymous {
			a.Token = 0
		}
		w.record.attempts = append(w.record.attempts, *a)
	}
	return w.record
}

func (w *world) after(d history.Instant, do func()) {
	at := w.now + d
	i, _ := slices.BinarySearchFunc(w.events, at, func(e event, at history.Instant) int { return cmp.Compare(e.at, at) })
	for i < len(w.events) && w.events[i].at == at {
		i++
	}
	w.events = slices.Insert(w.events, i, event{at, do})
}

func (w *world) upTo(d history.Instant) history.Instant {
	return 1 + history.Instant(w.Int64N(int64(d)))
}

func (w *world) trip() history.Instant { return 100*microsecond + w.upTo(millisecond) }

// change is what the store does now.
func (w *world) change(c history.Change) {
	c.At, c.Seen = w.place, w.now+w.upTo(50*microsecond)
	if n := len(w.record.changes); n > 0 {
		c.Seen = max(c.Seen, w.record.changes[n-1].Seen)
	}
	w.record.changes = append(w.record.changes, c)
	w.place += 2 // what has odd numbers is of other lines
	w.admit()
}

// ask begins an attempt.
func (w *world) ask(client int) {
	if len(w.all) >= w.shape.attempts {
		return
	}
	a := &history.Attempt{Client: client, Line: w.line.Name, Asked: w.now, Weight: 1}
	switch w.line.Recipe {
	case history.ReadWrite:
		a.Shared = w.Float64() < 0.7
	case history.Semaphore:
		a.Weight = 1 + w.Int64N(w.line.Limit)
	default:
	}
	w.all = append(w.all, a)
	s := &seat{Attempt: a}
	w.after(w.trip(), func() {
		w.place += 2
		s.place = w.place
		w.alive = append(w.alive, s)
		w.change(history.Change{Kind: history.Joined, Place: s.place, Shared: a.Shared, Weight: a.Weight})
	})
	if w.Float64() < 0.1 {
		w.after(2*millisecond+w.upTo(30*millisecond), func() { w.cancel(s) })
	}
}

// cancel ends the context of a call, if that is still waiting.
func (w *world) cancel(s *seat) {
	if s.Got != 0 || s.Failed != "" {
		return
	}
	s.Failed, s.Ends = "context canceled", w.now
	w.after(w.upTo(20*millisecond), func() {
		s.Got = w.now
		if w.Float64() < 0.5 {
			s.Place = s.place
		}
		w.after(w.upTo(5*millisecond), func() { w.ask(s.Client) })
	})
	w.after(w.upTo(50*millisecond), func() { w.leave(s) })
}

// leave takes an entry away.
func (w *world) leave(s *seat) {
	if s.gone {
		return
	}
	s.gone = true
	w.alive = slices.DeleteFunc(w.alive, func(o *seat) bool { return o == s })
	w.change(history.Change{Kind: history.Left, Place: s.place})
}

// admit lets in whom the rule allows.
func (w *world) admit() {
	taken, writer := int64(0), false
	for i, s := range w.alive {
		taken += s.Weight
		ok := i == 0
		switch w.line.Recipe {
		case history.ReadWrite:
			ok = ok || s.Shared && !writer
			writer = writer || !s.Shared
		case history.Semaphore:
			ok = taken <= w.line.Limit
		default:
		}
		if !ok {
			return
		}
		if !s.admitted {
			s.admitted = true
			w.after(w.trip(), func() { w.granted(s) })
		}
	}
}

// granted is that the client learns of it.
func (w *world) granted(s *seat) {
	if s.Failed != "" {
		return
	}
	s.Got, s.Token, s.Place = w.now, s.place, s.place
	if w.line.Recipe == history.Reentrant && w.Float64() < 0.3 {
		w.inside(s)
		return
	}
	work := w.upTo(4 * millisecond)
	switch kind := w.Float64(); {
	case kind > w.shape.harm:
		w.release(s, work)
	case kind > w.shape.harm*3/4:
		w.cutOff(s, work)
	case kind > w.shape.harm/2:
		w.stopped(s, work)
	case kind > w.shape.harm/4:
		w.killed(s, work)
	default:
		w.unanswered(s, work)
	}
}

// asks says when the hold was last asked, in what is left of its time; or never.
func (w *world) asks(a *history.Attempt, until history.Instant) {
	if w.Float64() < 0.9 {
		a.Held = a.Got + history.Instant(w.Int64N(int64(until-a.Got)+1))
	}
}

func (w *world) release(s *seat, work history.Instant) {
	w.after(work, func() {
		w.asks(s.Attempt, w.now)
		s.Back = w.now
		w.after(w.trip(), func() {
			w.leave(s)
			w.after(w.trip(), func() {
				s.Outcome, s.Done = history.Given, w.now
				w.after(w.upTo(3*millisecond), func() { w.ask(s.Client) })
			})
		})
	})
}

// cutOff ends a hold by its deadline, which is before the store's.
func (w *world) cutOff(s *seat, work history.Instant) {
	w.after(work, func() {
		w.asks(s.Attempt, w.now)
		s.Told, s.Over = w.now+1, w.now+2
		s.Fault = "cut"
		w.after(w.trip(), func() { w.leave(s) })
		w.after(5*millisecond, func() {
			if w.Float64() < 0.5 {
				s.Back, s.Outcome, s.Done = w.now, history.Lost, w.now+microsecond
			}
			w.ask(s.Client)
		})
	})
}

// stopped lets a process sleep beyond the end of its hold. It is told afterwards.
func (w *world) stopped(s *seat, work history.Instant) {
	w.after(work, func() {
		w.asks(s.Attempt, w.now)
		s.Stopped, s.Fault = true, "stopped"
		w.after(w.trip(), func() { w.leave(s) })
		w.after(20*millisecond, func() {
			s.Told, s.Over = w.now, w.now+1
			w.ask(s.Client)
		})
	})
}

func (w *world) killed(s *seat, work history.Instant) {
	w.after(work, func() {
		w.asks(s.Attempt, w.now)
		s.Stopped, s.Fault = true, "killed"
		w.after(w.upTo(20*millisecond), func() { w.leave(s) })
		w.after(30*millisecond, func() { w.ask(s.Client) })
	})
}

// unanswered is a release whose outcome is not known.
func (w *world) unanswered(s *seat, work history.Instant) {
	w.after(work, func() {
		w.asks(s.Attempt, w.now)
		s.Back, s.Fault = w.now, "reply lost"
		w.after(w.upTo(40*millisecond), func() { w.leave(s) })
		w.after(20*millisecond, func() {
			s.Outcome, s.Done = history.Pending, w.now
			w.ask(s.Client)
		})
	})
}

// inside takes the lock once more. Which of the two is given back first is open.
func (w *world) inside(s *seat) {
	n := &history.Attempt{Client: s.Client, Line: s.Line, Nested: true, Token: s.Token, Place: s.Place, Weight: 1}
	back := func(a *history.Attempt, last bool) {
		w.asks(a, w.now)
		a.Back = w.now
		if last {
			w.after(w.trip(), func() { w.leave(s) })
		}
		w.after(3*millisecond, func() {
			a.Outcome, a.Done = history.Given, w.now
			if last {
				w.ask(s.Client)
			}
		})
	}
	w.after(w.upTo(millisecond), func() {
		n.Asked = w.now
		w.after(w.upTo(microsecond), func() {
			n.Got = w.now
			w.all = append(w.all, n)
			first, second := s.Attempt, n
			if w.Float64() < 0.5 {
				first, second = second, first
			}
			if w.Float64() < w.shape.harm {
				w.after(millisecond, func() {
					w.asks(first, w.now)
					w.asks(second, w.now)
					s.Told, n.Told, s.Fault, n.Fault = w.now+1, w.now+1, "cut", "cut"
					w.after(w.trip(), func() { w.leave(s) })
					w.after(5*millisecond, func() { w.ask(s.Client) })
				})
				return
			}
			w.after(w.upTo(millisecond), func() { back(first, false) })
			w.after(2*millisecond+w.upTo(millisecond), func() { back(second, true) })
		})
	})
}
