package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// tail keeps those holds that ended last, by one account of when they ended, as
// many as can stand in the way of another one.
type tail struct {
	room   int64
	weigh  bool // else each hold fills the room
	latest []closing
}

type closing struct {
	at Instant
	of *span
}

func (t *tail) weight(sp *span) int64 {
	if t.weigh {
		return sp.weight
	}
	return t.room
}

func (t *tail) add(at Instant, sp *span) {
	i, _ := slices.BinarySearchFunc(t.latest, at, func(c closing, at Instant) int { return cmp.Compare(at, c.at) })
	t.latest = slices.Insert(t.latest, i, closing{at, sp})
	if int64(len(t.latest)) > max(1, t.room) {
		t.latest = t.latest[:len(t.latest)-1]
	}
}

func (t *tail) forget(sp *span) {
	t.latest = slices.DeleteFunc(t.latest, func(c closing) bool { return c.of == sp })
}

// before is the hold that had to end before there was room for one more, and when
// it did; none if there was room for all.
func (t *tail) before(sp *span) closing {
	free := t.room - t.weight(sp)
	for _, c := range t.latest {
		if free -= t.weight(c.of); free < 0 {
			return c
		}
	}
	return closing{}
}

// room judges S1, S4 and L2 of holds in the order of their grants.
func (s *sweep) room(spans []*span) {
	believed, knew := s.account(), s.account()
	for _, sp := range spans {
		if s.line.Recipe == Semaphore && sp.weight > s.line.Limit {
			s.report("S1", "client %d got %d permits of %d%s", sp.Client, sp.weight, s.line.Limit, under(sp.Attempt))
			continue
		}
		if c := believed.before(sp); c.of != nil && c.at > sp.from {
			s.exclusion(c.of, sp)
			believed.forget(c.of) // one hold is one violation, however many came after it
		}
		if c := knew.before(sp); c.of != nil && c.at != 0 && s.late(c, sp) {
			knew.forget(c.of)
		}
		believed.add(sp.to, sp)
		knew.add(sp.knew, sp)
	}
}

// exclusion reports that older was believed in when newer was there.
func (s *sweep) exclusion(older, newer *span) {
	late := time.Duration(older.to - newer.from)
	if older.Got > newer.from {
		s.report("S4", "client %d (token %d) was granted %s before client %d, whose entry is older (token %d)%s",
			newer.Client, newer.Token, time.Duration(older.Got-newer.from), older.Client, older.Token, under(older.Attempt))
		return
	}
	s.report("S1", "client %d believed in its hold (token %d) for %s after client %d had been granted (token %d)%s",
		older.Client, older.Token, late, newer.Client, newer.Token, under(older.Attempt))
}

// late judges L2: whoever lost what another one was granted knew before.
func (s *sweep) late(c closing, newer *span) bool {
	margin := time.Duration(newer.Got - c.at)
	if c.of.lost {
		s.fig.Margins++
		s.fig.Margin = min(s.fig.Margin, margin)
	}
	if margin >= 0 {
		return false
	}
	how := "was never told"
	if c.at != never {
		how = fmt.Sprintf("was told %s after it", -margin)
	}
	s.report("L2", "client %d lost its hold (token %d) to client %d (token %d), and %s%s",
		c.of.Client, c.of.Token, newer.Client, newer.Token, how, under(c.of.Attempt))
	return true
}

// account keeps the ends of holds as a line's rule needs them.
func (s *sweep) account() *account {
	switch s.line.Recipe {
	case Semaphore:
		return &account{all: tail{room: s.line.Limit, weigh: true}}
	case ReadWrite:
		return &account{all: tail{room: 1}, writers: &tail{room: 1}}
	}
	return &account{all: tail{room: 1}}
}

type account struct {
	all     tail
	writers *tail // for readers
}

func (a *account) add(at Instant, sp *span) {
	a.all.add(at, sp)
	if a.writers != nil && !sp.Shared {
		a.writers.add(at, sp)
	}
}

func (a *account) forget(sp *span) {
	a.all.forget(sp)
	if a.writers != nil {
		a.writers.forget(sp)
	}
}

func (a *account) before(sp *span) closing {
	if a.writers != nil && sp.Shared {
		return a.writers.before(sp)
	}
	return a.all.before(sp)
}

// firstOf is the first of two moments that may not have come.
func firstOf(a, b Instant) Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// under names what was done to a client.
func under(a *Attempt) string {
	if a.Fault == "" {
		return ""
	}
	return ", under " + a.Fault
}
