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

// culprit is the one that ended last, after a moment, of those that were lost: who
// gave back, and was told that it did, had not lost anything. It is nil if there is
// none.
func (t *tail) culprit(moment Instant) *span {
	for _, c := range t.latest {
		if c.at > moment && (c.of.lost || c.of.Outcome != Given) {
			return c.of
		}
	}
	return nil
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

// room judges S1, S4 and L2 of holds in the order of their grants. A hold is told
// of once, however many came after it.
func (s *sweep) room(spans []*span) {
	believed, knew := s.account(), s.account()
	for _, sp := range spans {
		if s.line.Recipe == Semaphore && sp.weight > s.line.Limit {
			s.report("S1", "client %d got %d permits of %d%s", sp.Client, sp.weight, s.line.Limit, under(sp.Attempt))
			continue
		}
		if c := believed.of(sp).before(sp); c.of != nil && c.at > sp.from {
			older := believed.of(sp).culprit(sp.from)
			if older == nil {
				older = c.of
			}
			s.exclusion(older, sp)
			believed.forget(older)
		}
		if c := knew.of(sp).before(sp); c.of != nil && c.at > sp.Got {
			if older := knew.of(sp).culprit(sp.Got); older != nil {
				s.late(older, sp)
				knew.forget(older)
			}
		} else if c.of != nil && c.of.lost {
			s.fig.margin(sp.Got, c.at)
		}
		believed.add(sp.to, sp)
		knew.add(sp.knew, sp)
	}
}

// exclusion reports that older was believed in when newer was there.
func (s *sweep) exclusion(older, newer *span) {
	if older.Got > newer.from {
		s.report("S4", "client %d (token %d) was granted %s before client %d, whose entry is older (token %d)%s",
			newer.Client, newer.Token, time.Duration(older.Got-newer.from), older.Client, older.Token, under(older.Attempt))
		return
	}
	s.report("S1", "client %d believed in its hold (token %d) for %s after client %d had been granted (token %d)%s",
		older.Client, older.Token, time.Duration(older.to-newer.from), newer.Client, newer.Token, under(older.Attempt))
}

// late reports that who lost what another one was granted did not know before.
func (s *sweep) late(older, newer *span) {
	how := "was never told"
	if older.knew != never {
		how = fmt.Sprintf("was told %s after it", time.Duration(older.knew-newer.Got))
		s.fig.margin(newer.Got, older.knew)
	}
	s.report("L2", "client %d lost its hold (token %d) to client %d (token %d), and %s%s",
		older.Client, older.Token, newer.Client, newer.Token, how, under(older.Attempt))
}

func (f *Figures) margin(granted, knew Instant) {
	f.Margins++
	f.Margin = min(f.Margin, time.Duration(granted-knew))
}

func (s *sweep) account() *account {
	switch s.line.Recipe {
	case Semaphore:
		return &account{all: tail{room: s.line.Limit, weigh: true}}
	case ReadWrite:
		return &account{all: tail{room: 1}, writers: &tail{room: 1}}
	default:
		return &account{all: tail{room: 1}}
	}
}

// account is the tails that the rule of a line needs.
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

// of are the holds that the rule puts before one more.
func (a *account) of(sp *span) *tail {
	if a.writers != nil && sp.Shared {
		return a.writers
	}
	return &a.all
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
