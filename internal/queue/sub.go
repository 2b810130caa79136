package queue

import (
	"slices"

	"github.com/fairlock/fairlock/session/driver"
)

// sub is the waiting of some seats for one entry. An entry of our own is not
// watched for it: the seat there tells when it is gone.
type sub struct {
	ref    driver.Ref
	cancel func() // nil for an entry of our own
	armed  bool
	rev    int64
	seats  []*seat
}

// follow makes the seat wait for exactly these entries.
func (ln *line) follow(s *seat, refs []driver.Ref) {
	old := s.subs
	s.subs = nil
	for _, r := range refs {
		s.subs = append(s.subs, ln.subscribe(s, r))
	}
	for _, b := range old {
		if !slices.Contains(s.subs, b) {
			ln.unsubscribe(s, b)
		}
	}
}

// follows says that the seat is told of all these entries.
func (s *seat) follows(refs []driver.Ref) bool {
	for _, r := range refs {
		if !slices.ContainsFunc(s.subs, func(b *sub) bool { return b.ref == r }) {
			return false
		}
	}
	return true
}

// unfollow makes the seat wait for nobody.
func (ln *line) unfollow(s *seat) {
	for _, b := range s.subs {
		ln.unsubscribe(s, b)
	}
	s.subs = nil
}

// subscribe adds the seat to those who wait for an entry.
func (ln *line) subscribe(s *seat, r driver.Ref) *sub {
	b := ln.subs[r]
	if b == nil {
		b = &sub{ref: r}
		ln.subs[r] = b
		if o := ln.seats[r]; o != nil {
			b.armed = true
			ln.watchOwn(o, o.born)
		} else {
			// If another seat should come to need Tell, it looks instead.
			b.cancel = ln.e.t.Driver().Watch(driver.WatchRequest{Ref: r, Tell: ln.tells(s, r)},
				func(ev driver.Event) { ln.do(func() { ln.event(b, ev) }) })
		}
	}
	if !slices.Contains(b.seats, s) {
		b.seats = append(b.seats, s)
	}
	return b
}

// tells says that the end of an entry may come with word of whether it held,
// and that the seat has use for that. It has none for an entry that is not
// right before it, nor for the only one ahead, whose end alone decides; and
// foreign programs leave no word, nor do those that admit others beside them.
func (ln *line) tells(s *seat, r driver.Ref) bool {
	if !ln.e.tells || !s.ahead.nearest(r) || s.ahead.Complete && len(s.ahead.Entries) == 1 {
		return false
	}
	e := s.ahead.Entries[len(s.ahead.Entries)-1]
	return !e.Foreign && e.Mode == driver.Exclusive
}

// unsubscribe takes the seat from those who wait for an entry.
func (ln *line) unsubscribe(s *seat, b *sub) {
	b.seats = slices.DeleteFunc(b.seats, func(o *seat) bool { return o == s })
	if len(b.seats) == 0 && ln.subs[b.ref] == b {
		delete(ln.subs, b.ref)
		if b.cancel != nil {
			b.cancel()
		}
	}
}

// event takes in what the watch on somebody else's entry tells.
func (ln *line) event(b *sub, ev driver.Event) {
	if ln.subs[b.ref] != b || b.cancel == nil {
		return
	}
	switch ev.Kind {
	case driver.Armed:
		b.armed, b.rev = true, ev.Rev
		for _, s := range b.seats {
			ln.check(s)
		}
	case driver.Broken:
		b.armed = false
	case driver.Changed:
		for _, s := range b.seats {
			ln.want(s)
		}
	case driver.Gone:
		ln.gone(b.ref, ev.Held, ln.vouch)
	}
}
