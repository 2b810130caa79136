package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/fairlock/fairlock/session/driver"
)

// permitModel is a line with a limit and all who stand in it, without engine,
// driver or time: who wants a look, which looks and watches are under way, and
// who has not noted yet that it holds. What happens next is drawn. It is there to
// find wake-ups that the rule's blocking sets miss, so nobody looks without being
// told to.
type permitModel struct {
	rng   *rand.Rand
	rule  Rule
	quiet bool // nobody notes that it holds

	rev   int
	limit int64
	line  []*permit
	naive map[driver.Ref]bool  // who would hold if all looked at all times
	moved bool                 // the limit was changed
	wrong string               // the first thing that went wrong
	show  func(string, ...any) // what happens; nil: nobody wants to know
}

// permit is one entry, and what its owner knows and waits for.
type permit struct {
	driver.Entry
	session int
	held    bool
	refused bool

	count   int
	rev     int // as of when the owner knows the line
	need    int
	looked  bool
	wants   bool // a look, because it was told something
	all     bool // of the whole line
	view    *Ahead
	viewRev int

	watches map[driver.Ref]int // entries, and from when on they are watched; unarmed if not yet
	changes bool               // also for their notes
	holders int                // from when on the end of an admitted one is told; unarmed, or absent
	limits  int                // from when on another limit is told; the same
}

// Of watches that are not at work.
const (
	absent  = -2
	unarmed = -1
)

func (m *permitModel) logf(format string, args ...any) {
	if m.show != nil {
		m.show(format, args...)
	}
}

func (m *permitModel) failf(format string, args ...any) {
	m.logf(format, args...)
	if m.wrong == "" {
		m.wrong = fmt.Sprintf(format, args...)
	}
}

// String is the line as traces show it: weights, h on those who hold, a star on
// those who have noted it.
func (m *permitModel) String() string {
	var words []string
	for _, p := range m.line {
		w := fmt.Sprintf("%d:%d", p.Place, p.Weight)
		if p.held {
			w += "h"
		}
		if p.Admitted {
			w += "*"
		}
		words = append(words, w)
	}
	return fmt.Sprintf("[%s] of %d", strings.Join(words, " "), m.limit)
}

// ahead is what stands before a place.
func (m *permitModel) ahead(place int64) []driver.Entry {
	var es []driver.Entry
	for _, p := range m.line {
		if p.Place < place {
			es = append(es, p.Entry)
		}
	}
	return es
}

// fits says whether a limit is enough for an entry and those ahead of it.
func (m *permitModel) fits(p *permit, limit int64) bool {
	taken := p.Weight
	for _, o := range m.line {
		if o.Place < p.Place {
			taken += o.Weight
		}
	}
	return taken <= limit
}

// join puts an entry at the end, and tells its owner as little as a service may.
func (m *permitModel) join(weight int64, session int) {
	m.rev++
	p := &permit{
		Entry:   driver.Entry{Ref: driver.Ref{Line: "n", Place: int64(m.rev)}, Mode: driver.Weighted, Weight: weight},
		session: session, count: len(m.line), rev: m.rev, need: m.rule.Need,
		watches: map[driver.Ref]int{}, holders: absent, limits: absent,
	}
	m.logf("join %d of %d in session %d", weight, p.Place, session)
	a := Ahead{Limit: m.limit, Complete: len(m.line) < 2}
	if a.Complete {
		a.Entries = m.ahead(p.Place)
	}
	m.line = append(m.line, p)
	m.admit()
	m.judge(p, a)
}

// judge does what the engine does with a verdict.
func (m *permitModel) judge(p *permit, a Ahead) {
	if p.held || p.refused {
		return
	}
	a.Count = p.count
	v := m.rule.Decide(a, p.Entry)
	switch {
	case v.Err != nil:
		p.refused = true
	case v.Hold:
		m.logf("%d holds", p.Place)
		p.held = true
		p.watches, p.holders, p.limits = nil, absent, absent
		if !m.fits(p, a.Limit) {
			m.failf("%d holds, and there is no room: %s", p.Place, m)
		}
		if !m.naive[p.Ref] {
			m.failf("%d holds before it could: %s", p.Place, m)
		}
	case v.More:
		if p.looked {
			p.need *= wider
		}
		p.wants = true
	default:
		m.follow(p, v)
	}
}

// follow has the owner told of what the verdict names, from later on.
func (m *permitModel) follow(p *permit, v Verdict) {
	old := p.watches
	p.watches = map[driver.Ref]int{}
	for _, r := range v.Wait {
		p.watches[r] = unarmed
		if rev, ok := old[r]; ok && (p.changes || !v.Changes) {
			p.watches[r] = rev
		}
	}
	p.changes = v.Changes
	p.limits = max(p.limits, unarmed)
	if !v.Admitted {
		p.holders = absent
	} else if p.holders == absent {
		p.holders = unarmed
	}
	m.check(p)
}

// check wants a look if all watches stand, and one of them is newer than what is
// known.
func (m *permitModel) check(p *permit) {
	newest := max(p.limits, p.holders)
	if p.limits == unarmed || p.holders == unarmed {
		return
	}
	for _, rev := range p.watches {
		if rev == unarmed {
			return
		}
		newest = max(newest, rev)
	}
	p.wants = p.wants || newest > p.rev
}

// arm has the watches of an entry stand.
func (m *permitModel) arm(p *permit) {
	for r, rev := range p.watches {
		if rev == unarmed {
			p.watches[r] = m.rev
		}
	}
	for _, rev := range []*int{&p.holders, &p.limits} {
		if *rev == unarmed {
			*rev = m.rev
		}
	}
	m.check(p)
}

func (p *permit) armed() bool {
	for _, rev := range p.watches {
		if rev == unarmed {
			return false
		}
	}
	return p.holders != unarmed && p.limits != unarmed
}

// beginLook reads the line, and endLook takes in what was read then.
func (m *permitModel) beginLook(p *permit) {
	p.wants = false
	es := m.ahead(p.Place)
	a := Ahead{Entries: es, Complete: true, Limit: m.limit}
	if n := p.need; !p.all && n > 0 && len(es) > n {
		a.Entries, a.Complete = es[len(es)-n:], false
	}
	p.view, p.viewRev = &a, m.rev
	m.logf("%d looks", p.Place)
}

func (m *permitModel) endLook(p *permit) {
	a := *p.view
	p.view, p.all, p.looked = nil, false, true
	p.rev = max(p.rev, p.viewRev)
	if a.Complete {
		p.count = len(a.Entries)
	}
	m.logf("%d has looked", p.Place)
	m.judge(p, a)
}

// tell wakes those who are told, by whether their watch stands.
func (m *permitModel) tell(told func(*permit) bool) {
	for _, p := range m.line {
		if !p.held && told(p) {
			p.wants, p.all = true, true
		}
	}
}

// note is what an owner does some time after it was admitted.
func (m *permitModel) note(p *permit) {
	m.rev++
	p.Admitted = true
	m.logf("%d notes that it holds", p.Place)
	m.tell(func(o *permit) bool { return o.changes && o.watches[p.Ref] > 0 })
}

// remove is what a service does when an entry goes, whyever.
func (m *permitModel) remove(p *permit) {
	m.line = slices.DeleteFunc(m.line, func(o *permit) bool { return o == p })
	m.admit()
	m.tell(func(o *permit) bool {
		return o.watches[p.Ref] > 0 || p.Admitted && p.Place < o.Place && o.holders > 0
	})
}

func (m *permitModel) leave(p *permit) {
	m.rev++
	m.logf("%d leaves", p.Place)
	m.remove(p)
}

func (m *permitModel) crash(session int) {
	m.rev++
	m.logf("session %d ends", session)
	for _, p := range slices.Clone(m.line) {
		if p.session == session {
			m.remove(p)
		}
	}
}

func (m *permitModel) resize(limit int64) {
	m.rev++
	m.limit, m.moved = limit, true
	m.admit()
	m.logf("limit %d", limit)
	m.tell(func(o *permit) bool { return o.limits > 0 })
}

// admit lets the naive semaphore admit all it can: in order, at once, and no
// further than the first who does not fit.
func (m *permitModel) admit() {
	var taken int64
	for _, p := range m.line {
		taken += p.Weight
		if !m.naive[p.Ref] && taken > m.limit {
			return
		}
		m.naive[p.Ref] = true
	}
}
