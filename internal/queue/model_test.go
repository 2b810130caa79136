package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// model is a service with one queue, and several sessions whose part in it is the real one,
// without engine, network or time. All that takes time is a step that may come at any
// moment: watches that are armed, events, reads, answers, marks. Which comes next is
// drawn. In half of the schedules no session reads by itself after a while, so a wake-up that
// is missed shows.
type model struct {
	rng   *rand.Rand
	rule  rule.Rule
	modes []driver.Mode
	most  int64 // permits of one request

	next     int64
	readers  int // of another program's writers, so far
	entries  []*modelEntry
	limit    driver.Record
	sessions []*modelSession
	steps    []func()       // under way
	might    map[int64]bool // by place: whether the entry might hold at some moment
	wrong    string         // the first thing that went wrong
	show     func(string, ...any)

	firsts  bool // the service reports Event.First
	rereads bool // sessions may read by themselves, which can hide a wake-up that is missed
	slow    int  // how long answers to reads take
	noMarks bool // holders do not mark themselves
	deaf    func(driver.Target, driver.Event) bool
}

// modelEntry is an entry at the service.
type modelEntry struct {
	driver.Entry
	s     *modelSession // nil: of another program
	first bool          // its Leave reports that it was first

	// passed: its owner has released it, so that the next one of the session need not wait for it.
	passed bool
}

// modelSession is a session, and its part in the queue.
type modelSession struct {
	*Queue
	m       *model
	own     map[int64]*Entry
	watches []*modelWatch
	events  []func() // in order, and not delivered yet
	over    bool
}

// modelWatch is a watch at the service.
type modelWatch struct {
	target driver.Target
	report func(driver.Event)
	armed  bool
}

func (m *model) logf(format string, args ...any) {
	if m.show != nil {
		m.show(format, args...)
	}
}

func (m *model) failf(format string, args ...any) {
	m.logf(format, args...)
	if m.wrong == "" {
		m.wrong = fmt.Sprintf(format, args...)
	}
}

// later has something happen at any moment from now on.
func (m *model) later(f func()) { m.steps = append(m.steps, f) }

// slowly is later for what may take long.
func (m *model) slowly(f func()) {
	m.later(func() {
		if m.rng.IntN(m.slow) == 0 {
			f()
		} else {
			m.slowly(f)
		}
	})
}

func newModel(seed uint64, r rule.Rule, modes []driver.Mode, limit, most int64) *model {
	m := &model{rng: rand.New(rand.NewPCG(seed, uint64(limit))), rule: r, modes: modes, most: most, might: map[int64]bool{}}
	m.firsts, m.rereads, m.slow = m.rng.IntN(2) == 0, m.rng.IntN(2) == 0, 1+7*m.rng.IntN(2)
	m.resize(limit)
	for range 2 + m.rng.IntN(3) {
		m.open()
	}
	return m
}

func (m *model) open() {
	s := &modelSession{m: m, own: map[int64]*Entry{}}
	s.Queue = New("n", &Term{firsts: m.firsts}, s)
	m.sessions = append(m.sessions, s)
}

// String is the queue: places, weights and modes, a star on those that have a mark, h on
// those that hold.
func (m *model) String() string {
	var words []string
	for _, e := range m.entries {
		w := fmt.Sprintf("%d:%s:%d", e.Place, e.Mode, e.Weight)
		if e.Foreign {
			w += "f"
		} else if en := e.s.own[e.Place]; en != nil && en.state == held {
			w += "h"
		}
		if e.Marks != 0 {
			w += "*"
		}
		words = append(words, w)
	}
	return fmt.Sprintf("[%s] of %s", strings.Join(words, " "), m.limit.Value)
}

// admit records which entries may hold now: those that the rule lets hold if it sees all of
// the queue, but for entries of the same session at the front that pass.
func (m *model) admit() {
	a := rule.Ahead{Complete: true, Limit: limitIn(m.limit)}
	var first *modelSession // that of the entries that pass
	passed := 0
	for i, e := range m.entries {
		mine := a
		if e.s == first {
			mine.Entries = a.Entries[passed:]
		}
		if !e.Foreign && m.rule.Decide(mine, &e.Entry).Hold {
			m.might[e.Place] = true
		}
		a.Entries = append(a.Entries, &e.Entry)
		if e.passed && passed == i && (i == 0 || e.s == first) {
			first, passed = e.s, i+1
		}
	}
}

// changed reports a change of a target to all sessions that watch it.
func (m *model) changed(t driver.Target, ev driver.Event) {
	for _, s := range m.sessions {
		for _, w := range slices.Clone(s.watches) {
			if w.armed && w.target == t {
				s.report(w, ev)
			}
		}
	}
}

// report puts an event behind those that the session has not got yet.
func (s *modelSession) report(w *modelWatch, ev driver.Event) {
	if s.m.deaf != nil && s.m.deaf(w.target, ev) {
		return
	}
	s.events = append(s.events, func() {
		if slices.Contains(s.watches, w) { // it is not cancelled
			s.m.logf("session %d: %v of %s", s.number(), ev, targetName(w.target))
			w.report(ev)
			s.check()
		}
	})
}

func (s *modelSession) number() int { return slices.Index(s.m.sessions, s) }

// The session is outside of its queue.

func (s *modelSession) Watch(t driver.Target, f func(driver.Event)) (cancel func()) {
	mw := &modelWatch{target: t, report: f}
	s.watches = append(s.watches, mw)
	s.m.later(func() {
		mw.armed = true
		ev := driver.Event{Kind: driver.Armed}
		if t.Kind == driver.OfEntry {
			i := slices.IndexFunc(s.m.entries, func(e *modelEntry) bool { return e.Ref == t.Ref })
			if i < 0 {
				ev.Kind = driver.Gone
			} else {
				ev.Marks = s.m.entries[i].Marks
			}
		}
		s.report(mw, ev)
	})
	return func() { s.watches = without(s.watches, mw) }
}

func (s *modelSession) Read() { s.m.later(s.send) }

func (s *modelSession) send() {
	if a := s.Next(); a != nil {
		s.m.later(func() { s.serve(a) })
	}
}

// serve reads at the service, and answers later.
func (s *modelSession) serve(a *Read) {
	v := driver.View{Records: map[string]driver.Record{rule.RecordLimit: s.m.limit}, Count: -1}
	for _, e := range s.m.entries {
		if e.Place <= a.Upto {
			v.Entries = append(v.Entries, e.Entry)
		}
	}
	from := len(v.Entries)
	for from > 0 && v.Entries[from-1].Place >= a.From {
		from--
	}
	v.Entries, v.Complete = nearest(v.Entries, from, a.Nearest)
	s.m.slowly(func() {
		s.m.logf("session %d has read", s.number())
		s.Learned(a, v)
		s.check()
		s.m.later(s.send)
	})
}

// nearest returns of a view the n entries before one of them, or all if n is 0, and what is behind
// those; and whether that is all. It has all entries of one place or none.
func nearest(view []driver.Entry, from, n int) (_ []driver.Entry, complete bool) {
	cut := max(0, from-n)
	if n == 0 {
		cut = 0
	}
	for cut > 0 && cut < len(view) && view[cut-1].Place == view[cut].Place {
		cut--
	}
	return view[cut:], cut == 0
}

func (s *modelSession) Renew() {}

// Nothing is done for a request: check looks at its entry.

func (s *modelSession) Waits(int)      {}
func (s *modelSession) Done()          {}
func (s *modelSession) Lost()          {}
func (s *modelSession) Moved(int, int) {}

// check checks the decisions of a session.
func (s *modelSession) check() {
	for place := range s.m.next + 1 { // in an order that is the same in every run
		en := s.own[place]
		if en == nil || en.blocker == checked || en.state == over {
			continue
		}
		if en.group.refusal != nil {
			en.blocker = checked
			s.m.leave(s, en)
		}
		if en.state != held {
			continue
		}
		en.blocker = checked
		s.m.logf("%d holds", place)
		if !s.m.might[place] && !s.unaware(en) {
			s.m.failf("%d holds before it could: %s", place, s.m)
		}
		if en.Limited && !s.m.noMarks {
			s.m.later(func() { s.mark(en, driver.MarkAdmitted) })
		}
	}
}

// unaware reports whether an entry holds after one of its session that was released, and no event has
// reported yet that the session has ended: as its holder, it learns that later.
func (s *modelSession) unaware(en *Entry) bool {
	ahead := s.pic.es[:max(0, s.pic.index(en.Ref))]
	return s.over && len(ahead) > 0 && !slices.ContainsFunc(ahead, func(e *driver.Entry) bool {
		own := s.Queue.own[e.Ref]
		return own == nil || !own.passed
	})
}

// checked are the entries whose grant was checked.
var checked = &driver.Entry{}

// mark is an Update of an own entry.
func (s *modelSession) mark(en *Entry, mark driver.Marks) {
	before := s.eventCount
	i := slices.IndexFunc(s.m.entries, func(e *modelEntry) bool { return e.Ref == en.Ref })
	if i < 0 || en.state != held || en.leaving {
		return
	}
	e := s.m.entries[i]
	e.Marks |= mark
	s.m.logf("%d is marked", e.Place)
	s.m.admit()
	s.m.changed(e.Target(), driver.Event{Kind: driver.Changed, Marks: e.Marks})
	if mark == driver.MarkAdmitted {
		s.m.changed(driver.Target{Kind: driver.OfHolders, Queue: "n"}, driver.Event{Kind: driver.Changed})
	}
	s.m.later(func() {
		s.Marked(en, mark, before)
		s.check()
	})
}

func (m *model) join(s *modelSession) {
	m.next++
	e := &modelEntry{s: s, Entry: driver.Entry{
		Ref: ref(m.next), Mode: m.modes[m.rng.IntN(len(m.modes))], Weight: 1 + m.rng.Int64N(m.most), Token: m.next,
	}}
	j := driver.Joined{Entry: e.Entry, View: driver.View{Count: len(m.entries), Records: map[string]driver.Record{rule.RecordLimit: m.limit}}}
	if near := m.rng.IntN(2) == 0; near || len(m.entries) < 2 { // as ZooKeeper answers, or as etcd
		for _, o := range m.entries {
			j.View.Entries = append(j.View.Entries, o.Entry)
		}
		j.View.Entries, j.View.Complete = nearest(j.View.Entries, len(m.entries), rule.Nearest)
	}
	m.entries = append(m.entries, e)
	m.logf("session %d joins: %s", s.number(), m)
	m.admit()
	doubts := s.term.Doubts()
	s.joins++
	m.later(func() {
		g := NewGroup(1, s)
		g.Joined([]*Queue{s.Queue}, []Spec{{Rule: m.rule}}, []driver.Joined{j}, doubts)
		s.own[e.Place] = g.Entries[0]
		s.check()
	})
}

// foreign lets another program do something: it appends an entry, or its writer that holds
// acquires the read lock too, as Curator does it, with a reader at the writer's place, whose key
// is before the writer's or behind it. Or one or all of its entries leave.
func (m *model) foreign() {
	var all []*modelEntry
	for _, e := range m.entries {
		if e.Foreign {
			all = append(all, e)
		}
	}
	reads := slices.Contains(m.modes, driver.Shared)
	e := &modelEntry{Entry: driver.Entry{Foreign: true}}
	switch n := m.rng.IntN(6); {
	case len(all) == 0 || n == 0 && len(all) < 3:
		m.next++
		e.Ref = ref(m.next)
		if reads && m.rng.IntN(3) == 0 {
			e.Mode = driver.Shared
		}
		m.entries = append(m.entries, e)
	case n < 4 && reads && m.entries[0] == all[0] && !all[0].Shares() && (len(all) == 1 || all[1].Place != all[0].Place):
		m.readers++
		e.Ref, e.Mode = all[0].Ref, driver.Shared
		e.Key += fmt.Sprint("r", m.readers)
		m.entries = slices.Insert(m.entries, m.rng.IntN(2), e)
	case n == 5:
		m.remove(all...)
	default:
		m.remove(all[m.rng.IntN(min(len(all), 2))])
	}
	m.admit()
	m.logf("another program: %s", m)
}

// leave deletes an own entry, and answers later.
func (m *model) leave(s *modelSession, en *Entry) {
	en.Leaves()
	before, first := s.eventCount, en.wasFirst() && !en.precedesOwn()
	m.pass(s, en)
	m.later(func() {
		left := driver.WasGone
		if i := slices.IndexFunc(m.entries, func(e *modelEntry) bool { return e.Ref == en.Ref }); i >= 0 {
			left = driver.Deleted
			m.entries[i].first = first && m.firsts
			m.remove(m.entries[i])
			m.logf("%d leaves: %s", en.Place, m)
		}
		m.later(func() {
			s.Left(en, left, before)
			if len(s.Queue.own)+s.joins == 0 { // nothing uses its queue
				s.Forget()
			}
			s.check()
		})
	})
}

// pass lets the next entry of the session hold, in half of the cases.
func (m *model) pass(s *modelSession, en *Entry) {
	if m.rng.IntN(2) == 0 {
		return
	}
	for _, e := range m.entries {
		e.passed = e.passed || e.Ref == en.Ref
	}
	m.logf("%d passes: %s", en.Place, m)
	m.admit()
	en.Passes()
	s.check()
}

// remove takes out entries, all at one moment.
func (m *model) remove(all ...*modelEntry) {
	m.entries = slices.DeleteFunc(m.entries, func(e *modelEntry) bool { return slices.Contains(all, e) })
	m.admit()
	for _, e := range all {
		m.gone(e)
	}
}

func (m *model) gone(e *modelEntry) {
	m.changed(e.Target(), driver.Event{Kind: driver.Gone, First: e.first})
	if e.Marks.Has(driver.MarkAdmitted) {
		m.changed(driver.Target{Kind: driver.OfHolders, Queue: "n"}, driver.Event{Kind: driver.Changed})
	}
}

// crash ends a session at the service. It learns that by events only.
func (m *model) crash(s *modelSession) {
	m.logf("session %d ends", s.number())
	s.over = true
	var all []*modelEntry
	for _, e := range m.entries {
		if e.s == s {
			all = append(all, e)
		}
	}
	m.remove(all...)
}

func (m *model) resize(limit int64) {
	m.next++
	m.limit = driver.Record{Value: strconv.AppendInt(nil, limit, 10), Version: m.next, Token: m.next}
	m.logf("limit %d", limit)
	m.admit()
	m.changed(driver.Target{Kind: driver.OfRecord, Queue: "n", Record: rule.RecordLimit}, driver.Event{Kind: driver.Changed})
}
