package queue

import (
	"slices"

	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// spot is what seats wait for: the end of an entry, or something of the line.
type spot struct {
	ref driver.Ref
	of  driver.Aspect
}

// sub is the waiting of some seats for one spot. An entry of our own is not
// watched for it: the seat there tells when it is gone.
type sub struct {
	spot
	cancel  func() // nil for an entry of our own
	changes bool   // the watch tells of changes too
	armed   bool
	rev     int64 // who shares it must know of all that was until then
	told    int   // what the line's told was then, where that has no rev
	seats   []*seat
}

// follow makes the seat wait for exactly these spots.
func (ln *line) follow(s *seat, spots []spot, changes bool) {
	old := s.subs
	s.subs = nil
	for _, x := range spots {
		s.subs = append(s.subs, ln.subscribe(s, x, changes))
	}
	for _, b := range old {
		if !slices.Contains(s.subs, b) {
			ln.unsubscribe(s, b)
		}
	}
}

// follows says that the seat is told of all these spots.
func (s *seat) follows(spots []spot) bool {
	for _, x := range spots {
		if !slices.ContainsFunc(s.subs, func(b *sub) bool { return b.spot == x }) {
			return false
		}
	}
	return true
}

// unfollow makes the seat wait for nothing.
func (ln *line) unfollow(s *seat) {
	for _, b := range s.subs {
		ln.unsubscribe(s, b)
	}
	s.subs = nil
}

// subscribe adds the seat to those who wait for a spot.
func (ln *line) subscribe(s *seat, x spot, changes bool) *sub {
	b := ln.subs[x]
	if b == nil {
		b = &sub{spot: x}
		ln.subs[x] = b
		if o := ln.seats[x.ref]; o != nil && x.of == driver.OfEntry {
			b.armed = true
			ln.watchOwn(o, o.born)
		} else {
			b.changes = changes
			ln.watch(s, b)
		}
	} else if changes && !b.changes && b.cancel != nil {
		b.cancel()
		b.changes, b.armed = true, false
		ln.watch(s, b)
	}
	if !slices.Contains(b.seats, s) {
		b.seats = append(b.seats, s)
	}
	return b
}

// watch has the service tell of a spot.
func (ln *line) watch(s *seat, b *sub) {
	req := driver.WatchRequest{Ref: b.ref, Of: b.of, Changes: b.changes}
	if b.of == driver.OfEntry {
		// If another seat should come to need Tell, it looks instead.
		req.Tell = ln.tells(s, b.ref)
	}
	if failpoint.On(failpoint.ProclaimEnds) {
		req.Changes = true
	}
	b.cancel = ln.e.t.Driver().Watch(req, func(ev driver.Event) { ln.do(func() { ln.event(b, ev) }) })
}

// tells says that the end of an entry may come with word of whether it held,
// and that the seat has use for that. It has none for an entry that is not
// right before it, nor for the only one ahead, whose end alone decides unless it
// may be a move; and foreign programs leave no word, nor do those that admit
// others beside them.
func (ln *line) tells(s *seat, r driver.Ref) bool {
	i := s.ahead.index(r)
	if !ln.e.tells || i < 0 || s.rule.Limited {
		return false
	}
	e := s.ahead.Entries[i]
	if e.Foreign || e.Mode != driver.Exclusive {
		return false
	}
	if e.Movable {
		return true
	}
	return s.ahead.nearest(r) && (!s.ahead.Complete || len(s.ahead.Entries) > 1)
}

// unsubscribe takes the seat from those who wait for a spot.
func (ln *line) unsubscribe(s *seat, b *sub) {
	b.seats = slices.DeleteFunc(b.seats, func(o *seat) bool { return o == s })
	if len(b.seats) == 0 && ln.subs[b.spot] == b {
		delete(ln.subs, b.spot)
		if b.cancel != nil {
			b.cancel()
		}
	}
}

// event takes in what the watch on a spot tells.
func (ln *line) event(b *sub, ev driver.Event) {
	ln.hear(ev)
	if ln.subs[b.spot] != b || b.cancel == nil {
		return
	}
	switch ev.Kind {
	case driver.Armed:
		b.armed, b.rev = true, ev.Rev
		dateless := b.of != driver.OfEntry && ev.Rev == 0
		if dateless {
			ln.mark(b, 0)
		}
		for _, s := range slices.Clone(b.seats) {
			if dateless {
				ln.wantAgain(s, 0) // what was there before is not known
			}
			ln.check(s)
		}
	case driver.Broken:
		b.armed = false
	case driver.Changed:
		if failpoint.On(failpoint.ProclaimEnds) && !b.changes && b.of == driver.OfEntry {
			ln.gone(b.ref, end{held: true, told: true}, ln.vouch)
			return
		}
		ln.mark(b, ev.Rev)
		for _, s := range b.seats {
			ln.wantAgain(s, ev.Rev)
		}
	case driver.Gone:
		ln.gone(b.ref, end{rev: ev.Rev, held: ev.Held, told: true}, ln.vouch)
	}
}

// mark notes that something was told of a spot, for those who come to share the
// watch later, and asked earlier what is in their way.
func (ln *line) mark(b *sub, rev int64) {
	if rev == 0 {
		ln.told++
		b.told = ln.told
		return
	}
	if failpoint.On(failpoint.OldLook) {
		return
	}
	b.rev = max(b.rev, rev) // no look may be older
}

// wantAgain wants a look that begins later than now, and that is not older than
// what has happened: a server that lags behind would show the line as it was
// before, and no more news would come. Looks that are under way may be taken in
// all the same, since what a look shows was so at some moment, and by that alone
// somebody can be admitted.
func (ln *line) wantAgain(s *seat, rev int64) {
	s.least = max(s.least, rev)
	if s.state == waiting && !s.leaving {
		s.all = s.all || s.rule.Limited
		ln.want(s)
	}
}
