package queue

import (
	"slices"
	"sync"

	"github.com/fairlock/fairlock/internal/failpoint"
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
	subs    map[spot]*sub        // what somebody here waits for
	acts    []func()             // to be run when mu is free
	wanted  []*seat              // want a look
	looking bool                 // a goroutine makes looks
	stop    func() bool          // the timer of the next look without an event
	heard   int64                // when the newest thing was that an event told
	told    int                  // how many events told of something without saying when
	asked   int                  // what told was when the look under way began
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

// add gives a new entry its seat, and the hold at once if nobody is ahead. fall
// is called when it is lost.
func (in entrance) add(j driver.Joined, r Request, fall func(), hooks place) *seat {
	ln := in.line
	s := &seat{
		ln: ln, entry: j.Entry, rule: r.Rule, try: r.Try, ledger: r.Ledger, done: make(chan struct{}), fall: fall, hooks: hooks,
		born: j.Rev, rev: j.Rev, asked: in.asked, count: j.Ahead, waited: j.Ahead > 0, need: r.Rule.Need,
	}
	s.book = book{past: j.Past, entered: j.Entered}
	// It may be long, and nobody here wants it.
	s.entry.Meta, s.entry.Value = driver.Meta{}, nil
	// Some of those ahead say nothing of who is nearest, unless it is said so.
	all := len(j.Known) == j.Ahead
	s.ahead.Limit = j.Limit
	ln.do(func() {
		ln.seats[s.entry.Ref] = s
		if all || j.Near {
			known, turned := ln.asKnown(s, j.Known)
			s.outdated(turned)
			s.ahead.Entries, s.ahead.Complete = slim(s.relevant(known)), all
			s.looked = true // a read of as many would show no more
		}
		if s.rule.Limited && int64(s.count) <= j.Limit { // it may be free, and one entry does not tell
			s.need = max(s.need, min(s.count, wide))
		}
		s.aliens()
		ln.judge(s, s.ends == 0)
		ln.adopt(s)
	})
	return s
}

// aliens notes whether a foreign entry stands right before the seat.
func (s *seat) aliens() {
	if n := len(s.ahead.Entries); n > 0 && s.ahead.Entries[n-1].Foreign {
		s.alien = true
	}
}

// adopt is for seats that took s for a stranger's, because they saw its entry
// before the answer to its own join was taken in.
func (ln *line) adopt(s *seat) {
	b := ln.subs[spot{ref: s.entry.Ref}]
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
	if failpoint.On(failpoint.NoRecheck) {
		sure = true
	}
	v := s.decide()
	switch {
	case v.Err != nil:
		ln.refuse(s, v.Err)
		return
	case v.Hold && sure:
		ln.grant(s)
		return
	case v.Hold || v.More:
		if v.More && s.looked {
			s.need = max(wider*s.need, min(s.count, wide))
		}
		ln.want(s)
		return
	}
	if e, ok := s.stuckBehind(v); ok {
		ln.refuse(s, s.unleased(e))
		return
	}
	if s.try {
		ln.refuse(s, errMustWait)
		return
	}
	ln.watchOwn(s, 0)
	ln.follow(s, ln.worth(s, v), v.Changes)
	ln.check(s)
	ln.startTimer()
}

// decide asks the rule.
func (s *seat) decide() Verdict {
	s.ahead.Count = s.count
	v := s.rule.Decide(s.ahead, s.entry)
	if n := len(v.Wait); n > 0 {
		if i := s.ahead.index(v.Wait[n-1]); i >= 0 {
			s.blocker = &s.ahead.Entries[i]
		}
	}
	return v
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
func (ln *line) worth(s *seat, v Verdict) []spot {
	if s.rule.Limited {
		return ln.worthLimited(s, v)
	}
	spots := spotsOf(v.Wait)
	silent := func(r driver.Ref) bool { return ln.seats[r] == nil && !ln.tells(s, r) }
	if len(v.Soon) > 0 && slices.ContainsFunc(v.Wait, silent) {
		spots = append(spots, spotsOf(v.Soon)...)
	}
	return spots
}

// worthLimited is worth in a line with a limit. Who is first of those that wait
// is told of the end of all that hold: of those of our own in this process, of
// those that were admitted by one watch, and of the others by that too, or one
// by one.
func (ln *line) worthLimited(s *seat, v Verdict) []spot {
	spots := []spot{{driver.Ref{Line: ln.name}, driver.OfLimit}}
	if v.Changes {
		return append(spots, spotsOf(v.Wait)...)
	}
	for _, e := range s.ahead.Entries {
		if ln.seats[e.Ref] != nil || !e.Admitted && !ln.e.ends {
			spots = append(spots, spot{ref: e.Ref})
		}
	}
	if v.Admitted || ln.e.ends {
		spots = append(spots, spot{driver.Ref{Line: ln.name, Place: s.entry.Place}, driver.OfAdmitted})
	}
	return spots
}

// grant lets the seat hold.
func (ln *line) grant(s *seat) {
	s.state, s.count = held, 0
	s.hooks.waitsFor(s.blocker)
	ln.unfollow(s)
	s.ahead = Ahead{Complete: true, Limit: s.ahead.Limit}
	close(s.done)
	if !s.rule.Limited {
		return
	}
	if s.waited {
		ln.acts = append(ln.acts, s.admit)
	}
	ln.stir(s, 0) // whoever stands behind may be first of those that wait now
}

// stir has those in this process look again who wait for a seat of ours that is
// not what it was before rev.
func (ln *line) stir(s *seat, rev int64) {
	if b := ln.subs[spot{ref: s.entry.Ref}]; b != nil {
		for _, o := range b.seats {
			ln.wantAgain(o, rev)
		}
	}
}

// refuse lets the caller of a waiting seat go with an error. The entry is still
// there, and its seat with it, until the caller has made it leave. A look that is
// under way by then may find one more reason; the first one counts.
func (ln *line) refuse(s *seat, err error) {
	if s.err != nil {
		return
	}
	s.leaving, s.err = true, err
	ln.unfollow(s)
	close(s.done)
	if s.fall != nil {
		s.fall()
	}
}

// vouch says that the own watch of a seat proves that its entry lived when the
// last of those ended that are known to have. By the event that is being taken in
// that is proved only if it is the newest end: the answer to one who leaves in
// this process overtakes events, and what is told late may be older. The end of
// the own entry may have been in between, and not been told yet.
func (ln *line) vouch(s *seat) bool {
	if failpoint.On(failpoint.NoRecheck) {
		return true
	}
	return ln.e.ordered && s.mine() && s.ends <= max(ln.heard, s.rev)
}

// check wants a read if all watches on others are armed, and something may have
// happened before they were, or other seats had its event before this seat shared
// their watch. The read does not wait for the own watch, which may be armed late or
// never: a read shows the own entry.
func (ln *line) check(s *seat) {
	if failpoint.On(failpoint.ReadAfterOwn) && !s.own.armed {
		return
	}
	if failpoint.On(failpoint.LateWatch) {
		return
	}
	need, older := int64(0), false
	if s.own.armed {
		need = s.own.rev
	}
	for _, b := range s.subs {
		if !b.armed {
			return
		}
		need, older = max(need, b.rev), older || s.asked < b.told
	}
	if s.rev < need || older {
		ln.want(s)
	}
}

// watchOwn watches the seat's entry, if it is not watched yet.
func (ln *line) watchOwn(s *seat, since int64) {
	if s.own.cancel != nil {
		return
	}
	ref := s.entry.Ref
	s.own.cancel = ln.e.t.Driver().Watch(
		driver.WatchRequest{Ref: ref, Own: true, Since: since},
		func(ev driver.Event) {
			ln.do(func() {
				if s.entry.Ref == ref { // or it has moved, and this is of its old name
					ln.ownEvent(s, ev)
				}
			})
		},
	)
}

// ownEvent takes in what the watch on an own entry tells.
func (ln *line) ownEvent(s *seat, ev driver.Event) {
	ln.hear(ev)
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
		if failpoint.On(failpoint.NoRecheck) && s.state == waiting {
			return
		}
		if s.moving {
			s.own = ownEye{} // it is of the key that the entry had, perhaps
			return
		}
		s.last = ev.Rev
		ln.entryGone(s, ln.beside(s))
	case driver.Changed:
	}
}

// hear takes in when something happened that is told.
func (ln *line) hear(ev driver.Event) {
	if ev.Kind == driver.Gone || ev.Kind == driver.Changed {
		ln.heard = max(ln.heard, ev.Rev)
	}
}

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
	ln.gone(s.entry.Ref, end{
		rev: s.last, held: wasHolder && s.entry.Mode == driver.Exclusive, doubt: !s.leaving,
	}, sure)
}

// behind returns the seat of ours that stands right behind s, if there is one.
func (ln *line) behind(s *seat) *seat {
	if b := ln.subs[spot{ref: s.entry.Ref}]; b != nil {
		for _, o := range b.seats {
			if o.state == waiting && o.ahead.nearest(s.entry.Ref) {
				return o
			}
		}
	}
	return nil
}

// position tells a waiting seat's new place.
func (ln *line) position(s *seat, count int) {
	if s.count == count {
		return
	}
	s.count = count
	s.hooks.request.Position(s.hooks.turn, s.hooks.queue, count)
}
