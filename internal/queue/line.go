package queue

import (
	"slices"
	"sync"

	"github.com/fairlock/fairlock/session/driver"
)

// line is what this process has in one line. Its mutex is never held while
// waiting for anything; what must be done without it is put into acts.
type line struct {
	e     *engine
	name  string
	users int // under e.mu
	first first

	mu      sync.Mutex
	seats   map[driver.Ref]*seat // waiting or held
	subs    map[driver.Ref]*sub  // the entries that somebody here waits for
	acts    []func()             // to be run when mu is free
	wanted  []*seat              // want a look
	looking bool                 // a goroutine makes looks
	stop    func() bool          // the timer of the next look without an event
}

// do runs f under the line's mutex, and afterwards what f has left to do.
func (ln *line) do(f func()) {
	ln.mu.Lock()
	f()
	acts := ln.acts
	ln.acts = nil
	empty := len(ln.seats) == 0
	ln.mu.Unlock()
	for _, a := range acts {
		a()
	}
	if empty {
		ln.tidy()
	}
}

// add gives a new entry its seat, and the hold at once if nobody is ahead.
func (ln *line) add(j driver.Joined, r Request) *seat {
	s := &seat{
		ln: ln, entry: j.Entry, rule: r.Rule, kind: r.Kind, done: make(chan struct{}),
		born: j.Rev, rev: j.Rev, count: j.Ahead,
	}
	// Some of those ahead say nothing of who is nearest, unless it is said so.
	if all := len(j.Known) == j.Ahead; all || j.Near {
		s.ahead = Ahead{Entries: slim(j.Known), Complete: all}
	}
	if f := ln.e.t.Session().Options().Hooks.Joined; f != nil {
		f(s.event(nil))
	}
	ln.do(func() {
		ln.seats[s.entry.Ref] = s
		ln.judge(s, true)
		ln.adopt(s)
	})
	return s
}

// adopt is for seats that took s for a stranger's, because they saw its entry
// before the answer to its own join was taken in.
func (ln *line) adopt(s *seat) {
	b := ln.subs[s.entry.Ref]
	if b == nil || b.cancel == nil {
		return
	}
	b.cancel()
	b.cancel, b.armed, b.rev = nil, true, 0
	ln.watchOwn(s, s.born)
	for _, o := range slices.Clone(b.seats) {
		ln.judge(o, false)
	}
}

// judge asks the rule. sure says that the own entry is known to have lived at
// the moment that s.ahead speaks of.
func (ln *line) judge(s *seat, sure bool) {
	if s.state != waiting || s.leaving {
		return
	}
	v := s.rule.Decide(s.ahead, s.entry)
	switch {
	case v.Hold && sure:
		ln.grant(s)
		return
	case v.Hold || v.More:
		s.all = s.all || v.More && s.looked
		ln.want(s)
		return
	}
	if e, ok := s.stuckBehind(v); ok {
		ln.refuse(s, s.unleased(e))
		return
	}
	ln.watchOwn(s, 0)
	ln.follow(s, ln.worth(s, v))
	ln.check(s)
	ln.startTimer()
}

// stuckBehind returns an entry that the seat waits for and that has no session:
// it would stay for ever.
func (s *seat) stuckBehind(v Verdict) (driver.Entry, bool) {
	i := slices.IndexFunc(s.ahead.Entries, func(e driver.Entry) bool {
		return e.Unleased && slices.Contains(v.Wait, e.Ref)
	})
	if i < 0 {
		return driver.Entry{}, false
	}
	return s.ahead.Entries[i], true
}

// worth returns what a verdict wants a seat to be told of. It has no need to
// look in time where its waiting ends with the news whether that entry held:
// of entries of our own this is known here, and others may leave word.
func (ln *line) worth(s *seat, v Verdict) []driver.Ref {
	silent := func(r driver.Ref) bool { return ln.seats[r] == nil && !ln.tells(s, r) }
	if len(v.Soon) == 0 || !slices.ContainsFunc(v.Wait, silent) {
		return v.Wait
	}
	return append(slices.Clone(v.Wait), v.Soon...)
}

// grant lets the seat hold.
func (ln *line) grant(s *seat) {
	s.state, s.count = held, 0
	ln.unfollow(s)
	s.ahead = Ahead{Complete: true}
	close(s.done)
}

// refuse lets the caller of a waiting seat go with an error. The entry is still
// there, and its seat with it, until the caller has made it leave.
func (ln *line) refuse(s *seat, err error) {
	s.leaving, s.err = true, err
	ln.unfollow(s)
	close(s.done)
}

// vouch says that the own watch of a seat proves that its entry lived at the
// event that is being taken in.
func (ln *line) vouch(s *seat) bool { return ln.e.ordered && s.mine() }

// check wants a look if all watches are armed, and something may have happened
// before they were.
func (ln *line) check(s *seat) {
	if !s.own.armed {
		return
	}
	need := s.own.rev
	for _, b := range s.subs {
		if !b.armed {
			return
		}
		need = max(need, b.rev)
	}
	if s.rev < need {
		ln.want(s)
	}
}

// watchOwn watches the seat's entry, if it is not watched yet.
func (ln *line) watchOwn(s *seat, since int64) {
	if s.own.cancel != nil {
		return
	}
	s.own.cancel = ln.e.t.Driver().Watch(
		driver.WatchRequest{Ref: s.entry.Ref, Own: true, Since: since},
		func(ev driver.Event) { ln.do(func() { ln.ownEvent(s, ev) }) },
	)
}

// ownEvent takes in what the watch on an own entry tells.
func (ln *line) ownEvent(s *seat, ev driver.Event) {
	if s.state == over {
		return
	}
	switch ev.Kind {
	case driver.Armed:
		s.own.armed, s.own.rev = true, ev.Rev
		ln.check(s)
	case driver.Broken:
		s.own.armed = false
	case driver.Gone:
		ln.entryGone(s, ln.vouch)
	case driver.Changed:
	}
}

// entryGone takes in that the entry of a seat is gone. If it was not our own
// doing, the hold ends or the place is lost, and the session may be in doubt.
// sure is as in gone.
func (ln *line) entryGone(s *seat, sure func(*seat) bool) {
	if s.state == over {
		return
	}
	told := s.state == held || s.err != nil
	if !s.leaving {
		ln.acts = append(ln.acts, ln.e.t.Driver().Prove)
		if h := s.hold; h != nil {
			ln.acts = append(ln.acts, func() { h.EntryGone(nil) })
		}
		s.lost = true
	}
	ln.remove(s, sure)
	if !told {
		s.err = errPlaceLost
		close(s.done)
	}
}

// unsure is for an entry that was found gone: when it went is not known.
func unsure(*seat) bool { return false }

// remove takes a seat out whose entry is gone, and tells those in this process
// who wait for it. sure is as in gone.
func (ln *line) remove(s *seat, sure func(*seat) bool) {
	if s.state == over {
		return
	}
	wasHolder := s.state == held
	s.state = over
	delete(ln.seats, s.entry.Ref)
	ln.unfollow(s)
	if s.own.cancel != nil {
		s.own.cancel()
	}
	ln.gone(s.entry.Ref, wasHolder && s.entry.Mode == driver.Exclusive, sure)
}

// behind returns the seat of ours that stands right behind s, if there is one.
func (ln *line) behind(s *seat) *seat {
	if b := ln.subs[s.entry.Ref]; b != nil {
		for _, o := range b.seats {
			if o.state == waiting && o.ahead.nearest(s.entry.Ref) {
				return o
			}
		}
	}
	return nil
}

// gone takes in that an entry that others wait for is gone. alone says that it
// held and admitted nobody beside it, so that nobody was ahead of it; sure says
// of a seat that it is known to have lived when the entry went.
func (ln *line) gone(ref driver.Ref, alone bool, sure func(*seat) bool) {
	b := ln.subs[ref]
	if b == nil {
		return
	}
	delete(ln.subs, ref)
	if b.cancel != nil {
		b.cancel()
	}
	for _, s := range b.seats {
		s.subs = slices.DeleteFunc(s.subs, func(o *sub) bool { return o == b })
		if s.state != waiting {
			continue
		}
		s.departed = append(s.departed, ref)
		next := alone && s.ahead.nearest(ref)
		if s.ahead = s.ahead.without(ref); next {
			s.ahead = Ahead{Complete: true}
		}
		v := s.rule.Decide(s.ahead, s.entry)
		_, stuck := s.stuckBehind(v)
		switch {
		case v.Hold:
			ln.judge(s, sure(s))
		case stuck:
			ln.judge(s, false)
		case s.ahead.Complete && s.follows(ln.worth(s, v)):
			// Still waiting for somebody who is watched, and no further look
			// is needed when that one goes.
		case !v.More && s.follows(v.Wait):
			// Its turn is near. There is time to look, unless the line moves so
			// fast that the next entry goes too before a look could be done:
			// then one look is enough, after that.
			ln.wantSoon(s)
		default:
			ln.want(s)
		}
	}
}

// position tells a waiting seat's new place.
func (ln *line) position(s *seat, count int) {
	if s.count == count {
		return
	}
	s.count = count
	if f := ln.e.t.Session().Options().Hooks.Position; f != nil {
		ev := s.event(nil)
		ln.acts = append(ln.acts, func() { f(ev) })
	}
}
