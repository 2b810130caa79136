package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// endings has the holds that ended last, as many as can exclude another hold.
type endings struct {
	capacity int64
	weigh    bool // else each hold takes the whole capacity
	latest   []ending
}

type ending struct {
	at Instant
	of *span
}

func (e *endings) weight(sp *span) int64 {
	if e.weigh {
		return sp.weight
	}
	return e.capacity
}

func (e *endings) add(at Instant, sp *span) {
	i, _ := slices.BinarySearchFunc(e.latest, at, func(c ending, at Instant) int { return cmp.Compare(at, c.at) })
	e.latest = slices.Insert(e.latest, i, ending{at, sp})
	if int64(len(e.latest)) > max(1, e.capacity) {
		e.latest = e.latest[:len(e.latest)-1]
	}
}

// lostAfter returns the lost hold that ended last, if it ended after a moment; nil if
// there is none. A hold whose release was acknowledged is not lost, unless its client
// knew of a loss before.
func (e *endings) lostAfter(moment Instant) *span {
	for _, c := range e.latest {
		if c.at > moment && (c.of.lost || c.of.Outcome != Released) {
			return c.of
		}
	}
	return nil
}

func (e *endings) forget(sp *span) {
	e.latest = slices.DeleteFunc(e.latest, func(c ending) bool { return c.of == sp })
}

// blocking returns the hold that had to end before there was capacity for another one,
// and when it ended; the zero value if there was capacity for all.
func (e *endings) blocking(sp *span) ending {
	free := e.capacity - e.weight(sp)
	for _, c := range e.latest {
		free -= e.weight(c.of)
		if free < 0 {
			return c
		}
	}
	return ending{}
}

// exclusion judges S1, S4 and L2 of holds in the order of their grants. It reports each
// older hold once, whatever the number of newer ones.
func (s *sweep) exclusion(spans []*span) {
	held, knew := s.endings(), s.endings()
	for _, sp := range spans {
		if s.queue.Recipe == Semaphore && sp.weight > s.queue.Limit {
			s.report("S1", "client %d got %d permits of %d%s", sp.Client, sp.weight, s.queue.Limit, under(sp.Attempt))
			continue
		}
		c := held.excluding(sp).blocking(sp)
		if c.of != nil && c.at > sp.from {
			older := held.excluding(sp).lostAfter(sp.from)
			if older == nil {
				older = c.of
			}
			s.overlap(older, sp)
			held.forget(older)
		}
		c = knew.excluding(sp).blocking(sp)
		if c.of != nil && c.at > sp.Got {
			older := knew.excluding(sp).lostAfter(sp.Got)
			if older != nil {
				s.late(older, sp)
				knew.forget(older)
			}
		} else if c.of != nil && c.of.lost {
			s.fig.margin(sp.Got, c.at)
		}
		held.add(sp.to, sp)
		knew.add(sp.knew, sp)
	}
}

// overlap reports that older was still held when newer was granted.
func (s *sweep) overlap(older, newer *span) {
	if older.Got > newer.from {
		s.report("S4", "client %d (token %d) was granted %s before client %d, whose entry is older (token %d)%s",
			newer.Client, newer.Token, time.Duration(older.Got-newer.from), older.Client, older.Token, under(older.Attempt))
		return
	}
	s.report("S1", "client %d relied on its hold (token %d) for %s after client %d had been granted (token %d)%s",
		older.Client, older.Token, time.Duration(older.to-newer.from), newer.Client, newer.Token, under(older.Attempt))
}

// late reports that the holder of older learned of its loss only after newer was
// granted.
func (s *sweep) late(older, newer *span) {
	how := "was never notified"
	if older.knew != never {
		how = fmt.Sprintf("was notified %s after it", time.Duration(older.knew-newer.Got))
		s.fig.margin(newer.Got, older.knew)
	}
	s.report("L2", "client %d lost its hold (token %d) to client %d (token %d), and %s%s",
		older.Client, older.Token, newer.Client, newer.Token, how, under(older.Attempt))
}

func (f *Figures) margin(granted, knew Instant) {
	f.Margins++
	f.Margin = min(f.Margin, time.Duration(granted-knew))
}

func (s *sweep) endings() *endingsByMode {
	switch s.queue.Recipe {
	case Semaphore:
		return &endingsByMode{all: endings{capacity: s.queue.Limit, weigh: true}}
	case ReadWrite:
		return &endingsByMode{all: endings{capacity: 1}, writers: &endings{capacity: 1}}
	default:
		return &endingsByMode{all: endings{capacity: 1}}
	}
}

// endingsByMode has the endings that the rule of a queue needs.
type endingsByMode struct {
	all     endings
	writers *endings // for readers
}

func (e *endingsByMode) add(at Instant, sp *span) {
	e.all.add(at, sp)
	if e.writers != nil && !sp.Shared {
		e.writers.add(at, sp)
	}
}

func (e *endingsByMode) forget(sp *span) {
	e.all.forget(sp)
	if e.writers != nil {
		e.writers.forget(sp)
	}
}

// excluding returns the endings of the holds that exclude sp.
func (e *endingsByMode) excluding(sp *span) *endings {
	if e.writers != nil && sp.Shared {
		return e.writers
	}
	return &e.all
}

// firstOf returns the earlier of two instants, and ignores one that is 0.
func firstOf(a, b Instant) Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// under returns the fault at a client as the end of a text, or "".
func under(a *Attempt) string {
	if a.Fault == "" {
		return ""
	}
	return ", under " + a.Fault
}
