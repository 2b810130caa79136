package queue

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session/driver"
)

// schedule is for a look at one of the schedules; each has its number for a seed.
var schedule = flag.Uint64("schedule", 0, "play only this schedule of the semaphore's model, and show it")

// pending returns what must happen some time: all of it is somebody's work that
// is under way.
func (m *permitModel) pending() []func() {
	var all []func()
	for _, p := range m.line {
		if p.held && !p.Admitted && !m.quiet {
			all = append(all, func() { m.note(p) })
		}
		if p.refused {
			all = append(all, func() { m.leave(p) })
		}
		if p.view != nil {
			all = append(all, func() { m.endLook(p) })
		}
		if p.wants && p.view == nil && !p.held {
			all = append(all, func() { m.beginLook(p) })
		}
		if !p.held && !p.armed() {
			all = append(all, func() { m.arm(p) })
		}
	}
	return all
}

// step lets something happen: something that is under way, or something new.
func (m *permitModel) step(limit, heaviest int64, resizes bool) {
	if under := m.pending(); len(under) > 0 && m.rng.IntN(3) > 0 {
		under[m.rng.IntN(len(under))]()
		return
	}
	anybody := func() *permit { return m.line[m.rng.IntN(len(m.line))] }
	switch n := m.rng.IntN(20); {
	case len(m.line) < 2 || n < 8 && len(m.line) < int(limit)+4:
		m.join(1+m.rng.Int64N(heaviest), m.rng.IntN(4))
	case n < 17:
		m.leave(anybody())
	case n < 18:
		m.crash(anybody().session)
	case resizes:
		m.resize(1 + m.rng.Int64N(limit+2))
	}
}

// settle lets everything happen that is under way, and says what is wrong when
// nothing is any more.
func (m *permitModel) settle() {
	for range 10000 {
		under := m.pending()
		if len(under) == 0 {
			break
		}
		under[m.rng.IntN(len(under))]()
	}
	if len(m.pending()) > 0 {
		m.failf("never comes to rest: %s", m)
	}
	for _, p := range m.line {
		switch {
		case p.held:
		case m.fits(p, m.limit):
			m.failf("missed: %d could hold, and nobody wakes it: %s", p.Place, m)
		case m.naive[p.Ref] && !m.moved:
			m.failf("%d holds in the naive semaphore: %s", p.Place, m)
		}
	}
}

// playPermits plays one schedule.
func playPermits(rule Rule, quiet bool, seed uint64, limit, heaviest int64, show func(string, ...any)) *permitModel {
	m := &permitModel{
		rng: rand.New(rand.NewPCG(seed, uint64(limit))), rule: rule, quiet: quiet, limit: limit,
		naive: map[driver.Ref]bool{}, show: show,
	}
	resizes := seed%2 == 0
	for range m.rng.IntN(int(limit) + 4) {
		m.join(1+m.rng.Int64N(heaviest), m.rng.IntN(4))
	}
	for range 3 {
		for range 4 + m.rng.IntN(20) {
			m.step(limit, heaviest, resizes)
		}
		if m.settle(); m.wrong != "" {
			return m
		}
	}
	return m
}

// permitLimits are the semaphores of the schedules, and the most that one wants.
var permitLimits = []struct{ limit, heaviest int64 }{{1, 1}, {2, 1}, {3, 1}, {10, 1}, {2, 2}, {5, 5}, {10, 4}}

// TestSemaphoreMissesNoWakeUp plays schedules that are drawn, with joins, ends of
// holders and of those who wait, sessions that end, other limits, and notes, looks
// and watches that take their time. When all has come to rest, nobody waits who
// could hold. Repeat one with -run and -schedule.
func TestSemaphoreMissesNoWakeUp(t *testing.T) {
	for _, c := range permitLimits {
		t.Run(fmt.Sprintf("%d of at most %d", c.limit, c.heaviest), func(t *testing.T) {
			first, n := rand.Uint64N(1<<32)+1, uint64(20000)
			if testing.Short() || raced {
				n /= 20
			}
			if *schedule != 0 {
				first, n = *schedule, 1
			}
			for seed := first; seed < first+n; seed++ {
				if playPermits(Semaphore(), false, seed, c.limit, c.heaviest, nil).wrong == "" && n > 1 {
					continue
				}
				t.Logf("schedule %d", seed)
				require.Empty(t, playPermits(Semaphore(), false, seed, c.limit, c.heaviest, t.Logf).wrong)
			}
		})
	}
}

// TestModelSeesWhatASemaphoreCouldMiss: rules that wait for less miss wake-ups,
// and the schedules find them.
func TestModelSeesWhatASemaphoreCouldMiss(t *testing.T) {
	less := func(f func(Ahead, Verdict) Verdict) Rule {
		r := Semaphore()
		whole := r.Decide
		r.Decide = func(a Ahead, mine driver.Entry) Verdict {
			v := whole(a, mine)
			if v.Hold || v.More || v.Err != nil {
				return v
			}
			return f(a, v)
		}
		return r
	}
	nearest := func(a Ahead, n int) []driver.Ref {
		var refs []driver.Ref
		for _, e := range a.Entries[max(0, len(a.Entries)-n):] {
			refs = append(refs, e.Ref)
		}
		return refs
	}
	for _, c := range []struct {
		name  string
		rule  Rule
		quiet bool
		miss  bool // with one permit too
	}{
		{"waits for the end of the one before, and nobody notes anything", less(func(a Ahead, _ Verdict) Verdict {
			return Verdict{Wait: nearest(a, 1)}
		}), true, false},
		{"waits for the end or the note of the one before", less(func(a Ahead, _ Verdict) Verdict {
			return Verdict{Wait: nearest(a, 1), Changes: true}
		}), false, false},
		{"nobody notes anything", Semaphore(), true, false},
		{"is told of no note", less(func(_ Ahead, v Verdict) Verdict {
			v.Changes = false
			return v
		}), false, false},
		{"is not told of the end of those who noted that they hold", less(func(_ Ahead, v Verdict) Verdict {
			v.Admitted = false
			return v
		}), false, true},
		{"is told only of those who noted that they hold", less(func(_ Ahead, v Verdict) Verdict {
			if !v.Changes {
				v.Wait = nil
			}
			return v
		}), true, true},
	} {
		for _, l := range permitLimits {
			if raced && l.limit != 3 {
				continue
			}
			missed := 0
			for seed := range uint64(500) {
				if m := playPermits(c.rule, c.quiet, seed, l.limit, l.heaviest, nil); strings.HasPrefix(m.wrong, "missed") {
					missed++
				}
			}
			t.Logf("%s, limit %d, at most %d: %d of 500", c.name, l.limit, l.heaviest, missed)
			if c.miss || l.limit > 1 {
				assert.Positive(t, missed, "%s, limit %d, at most %d", c.name, l.limit, l.heaviest)
			}
		}
	}
}
