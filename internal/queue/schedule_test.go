package queue

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// schedule selects one of the schedules; the number of each is its seed.
var schedule = flag.Uint64("schedule", 0, "run only this schedule of the model, and show it")

// step lets something happen that is under way, if there is anything.
func (m *model) step() bool {
	var ready []func()
	for _, s := range m.sessions {
		if len(s.events) > 0 {
			ready = append(ready, func() {
				ev := s.events[0]
				s.events = s.events[1:]
				ev()
			})
		}
	}
	n := len(m.steps) + len(ready)
	if n == 0 {
		return false
	}
	if i := m.rng.IntN(n); i < len(m.steps) {
		f := m.steps[i]
		m.steps = append(m.steps[:i:i], m.steps[i+1:]...)
		f()
	} else {
		ready[i-len(m.steps)]()
	}
	return true
}

// act lets something new happen.
func (m *model) act(limit int64, resizes bool) {
	s := m.sessions[m.rng.IntN(len(m.sessions))]
	var own []*Entry
	for place := range m.next + 1 { // in an order that is the same in every run
		if en := s.own[place]; en != nil && !en.leaving && en.state != over {
			own = append(own, en)
		}
	}
	switch n := m.rng.IntN(24); {
	case s.over:
	case n >= 21:
		m.foreign()
	case n == 20:
		if m.rereads { // as the engine does when no event has come for long
			s.Recheck()
		}
	case len(m.entries) < 2 || n < 8 && len(m.entries) < int(limit)+5:
		m.join(s)
	case n < 16 && len(own) > 0:
		m.leave(s, own[m.rng.IntN(len(own))])
	case n < 17 && len(own) > 0:
		if en := own[0]; en.state == held && en.Mode == driver.Exclusive && en.first {
			s.mark(en, driver.MarkShared)
		}
	case n < 18:
		m.crash(s)
		m.open()
	case resizes:
		m.resize(1 + m.rng.Int64N(limit+2))
	}
}

// settle lets everything happen that is under way, and checks that nothing was missed.
func (m *model) settle() {
	for range 20_000 {
		if !m.step() {
			break
		}
	}
	if len(m.steps) > 0 {
		m.failf("never comes to rest: %s", m)
	}
	a := rule.Ahead{Complete: true, Limit: limitIn(m.limit)}
	for _, e := range m.entries {
		if v := m.rule.Decide(a, &e.Entry); !e.Foreign && v.Hold {
			if en := e.s.own[e.Place]; en.state == waiting && !en.leaving {
				m.failf("missed: %d may hold, and nothing wakes it: %s", e.Place, m)
			}
		}
		a.Entries = append(a.Entries, &e.Entry)
	}
}

// rules are the rules that the schedules are for.
var rules = []struct {
	name  string
	rule  rule.Rule
	modes []driver.Mode
	limit int64
	most  int64
}{
	{"mutex", rule.Mutex(), []driver.Mode{driver.Exclusive}, 1, 1},
	{"readers and writers", rule.ReadWrite(), []driver.Mode{driver.Exclusive, driver.Shared, driver.Shared}, 3, 1},
	{"1 permit", rule.Semaphore(), []driver.Mode{driver.Weighted}, 1, 1},
	{"2 permits", rule.Semaphore(), []driver.Mode{driver.Weighted}, 2, 1},
	{"3 permits", rule.Semaphore(), []driver.Mode{driver.Weighted}, 3, 1},
	{"2 permits, up to 2 each", rule.Semaphore(), []driver.Mode{driver.Weighted}, 2, 2},
	{"5 permits, up to 5 each", rule.Semaphore(), []driver.Mode{driver.Weighted}, 5, 5},
	{"10 permits, up to 4 each", rule.Semaphore(), []driver.Mode{driver.Weighted}, 10, 4},
}

// runSchedule runs one schedule.
func runSchedule(m *model, limit int64, resizes bool) *model {
	for range 3 {
		for range 6 + m.rng.IntN(40) {
			if m.rng.IntN(3) > 0 || !m.step() {
				m.act(limit, resizes)
			}
			m.step()
		}
		if m.settle(); m.wrong != "" {
			break
		}
	}
	return m
}

// Schedules with joins, releases, cancelled waiters, downgrades, sessions that end, other
// limits, entries of another program, whose writer may become a reader, and watches, events,
// reads, answers and marks that take their time. Nothing is
// granted before it may hold, and when all has come to rest, nothing waits that may.
// Repeat one with -run and -schedule.
func TestSchedulesMissNoWakeUpAndGrantNothingEarly(t *testing.T) {
	for _, c := range rules {
		t.Run(c.name, func(t *testing.T) {
			first, n := rand.Uint64N(1<<32)+1, uint64(4000)
			if testing.Short() {
				n /= 20
			}
			if *schedule != 0 {
				first, n = *schedule, 1
			}
			for seed := first; seed < first+n; seed++ {
				resizes := c.rule.Limited && seed%2 == 0
				if runSchedule(newModel(seed, c.rule, c.modes, c.limit, c.most), c.limit, resizes).wrong == "" && n > 1 {
					continue
				}
				t.Logf("schedule %d", seed)
				m := newModel(seed, c.rule, c.modes, c.limit, c.most)
				m.show = t.Logf
				require.Empty(t, runSchedule(m, c.limit, resizes).wrong)
			}
		})
	}
}

// Rules that wait for less miss wake-ups, and the schedules find them.
func TestModelSeesWhatARuleCouldMiss(t *testing.T) {
	less := func(r rule.Rule, f func(rule.Ahead, rule.Verdict) rule.Verdict) rule.Rule {
		whole := r.Decide
		r.Decide = func(a rule.Ahead, mine *driver.Entry) rule.Verdict {
			v := whole(a, mine)
			if v.Hold || v.More > 0 || v.Never {
				return v
			}
			return f(a, v)
		}
		return r
	}
	for _, c := range []struct {
		name  string
		rule  func(rule.Rule) rule.Rule
		spoil func(*model)
		from  int // of rules
	}{
		{"waits for the end of the one before only", func(r rule.Rule) rule.Rule {
			return less(r, func(a rule.Ahead, _ rule.Verdict) rule.Verdict {
				return rule.Verdict{Wait: a.Entries[len(a.Entries)-1:]}
			})
		}, func(m *model) { m.noMarks = true }, 3},
		{"no entry is marked", nil, func(m *model) { m.noMarks = true }, 3},
		{"does not watch the holders", func(r rule.Rule) rule.Rule {
			return less(r, func(_ rule.Ahead, v rule.Verdict) rule.Verdict {
				if v.Front {
					v.Front = false
					v.Wait = slices.DeleteFunc(slices.Clone(v.Wait), func(e *driver.Entry) bool { return e.Marks.Has(driver.MarkAdmitted) })
				}
				return v
			})
		}, nil, 2},
		{"no event shows a mark", nil, func(m *model) {
			m.deaf = func(_ driver.Target, ev driver.Event) bool { return ev.Kind == driver.Changed && ev.Marks != 0 }
		}, 3},
		{"no event shows an end", nil, func(m *model) {
			m.deaf = func(_ driver.Target, ev driver.Event) bool { return ev.Kind == driver.Gone }
		}, 0},
	} {
		for _, of := range rules[c.from:] {
			missed := 0
			for seed := range uint64(300) {
				r := of.rule
				if c.rule != nil {
					r = c.rule(r)
				}
				m := newModel(seed, r, of.modes, of.limit, of.most)
				if c.spoil != nil {
					c.spoil(m)
				}
				if strings.HasPrefix(runSchedule(m, of.limit, false).wrong, "missed") {
					missed++
				}
			}
			assert.Positive(t, missed, fmt.Sprintf("%s, %s", c.name, of.name))
		}
	}
}
