package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// want has the line looked at for a seat. The goroutine that looks serves all
// seats that want it by then.
func (ln *line) want(s *seat) {
	if !s.wants {
		s.wants = true
		ln.wanted = append(ln.wanted, s)
	}
	if !ln.looking {
		ln.looking = true
		ln.e.t.Go(ln.look)
	}
}

// hurry is how long a line must rest before a seat looks whether its turn has
// come near.
const hurry = time.Millisecond

// wantSoon wants a look if the seat still waits in a moment.
func (ln *line) wantSoon(s *seat) {
	if s.soon || s.wants {
		return
	}
	s.soon = true
	ln.e.t.in.Clock().AfterFunc(hurry, func() {
		ln.do(func() {
			s.soon = false
			if s.state == waiting && !s.leaving {
				ln.want(s)
			}
		})
	})
}

// A read that did not show enough is followed by one of all that are ahead, if they
// are at most wide, else of at least wider times as many.
const (
	wider = 8
	wide  = 1000
)

// look looks for as long as somebody wants it. It ends then, or with the term.
func (ln *line) look(ctx context.Context) {
	rest := minRest
	for {
		req, batch := ln.nextLook()
		if batch == nil {
			return
		}
		view, err := ln.e.t.Driver().Look(ctx, req)
		if err == nil {
			rest = minRest
			ln.do(func() {
				for _, s := range batch {
					ln.learn(s, view)
				}
			})
			continue
		}
		if ctx.Err() != nil {
			return
		}
		ln.do(func() { ln.failed(batch, err) })
		driver.Sleep(ctx, ln.e.t.in.Clock(), rest)
		rest = min(2*rest, maxRest)
	}
}

// nextLook takes the seats that want a look, in the order of their places, and
// says what to look at; nil if there are none.
func (ln *line) nextLook() (driver.LookRequest, []*seat) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	batch := slices.DeleteFunc(ln.wanted, func(s *seat) bool {
		s.wants = false
		return s.state == over || s.state == held && s.rev >= s.own.rev
	})
	ln.wanted = nil
	slices.SortFunc(batch, func(a, b *seat) int { return cmp.Compare(a.entry.Place, b.entry.Place) })
	if len(batch) == 0 {
		ln.looking = false
		return driver.LookRequest{}, nil
	}
	req := driver.LookRequest{Line: ln.name}
	all := false
	ln.asked = ln.told
	for _, s := range batch {
		req.Upto = max(req.Upto, s.entry.Place)
		least := s.least
		if failpoint.On(failpoint.OldLook) {
			least = 0
		}
		req.NotBefore = max(req.NotBefore, s.rev, s.own.rev, least)
		for _, b := range s.subs {
			req.NotBefore = max(req.NotBefore, b.rev)
		}
		req.Nearest = max(req.Nearest, s.need)
		req.Limit = req.Limit || s.rule.Limited
		all = all || s.all || s.need == 0
	}
	// Between the seats of a batch there may be others.
	req.Nearest += 2 * (len(batch) - 1)
	if all {
		req.Nearest = 0
	}
	return req, batch
}

// learn takes in a look for one seat. The own entry is part of what was seen:
// so a seat that is granted by a look lived at that moment.
func (ln *line) learn(s *seat, v driver.View) {
	if s.state == over {
		return
	}
	i, found := slices.BinarySearchFunc(v.Entries, s.entry.Place, func(e driver.Entry, place int64) int {
		return int(min(max(e.Place-place, -1), 1))
	})
	switch {
	case found && v.Entries[i].Ref == s.entry.Ref:
	case !v.Complete && i == 0: // the view does not reach as far as the seat
		s.all = true
		ln.want(s)
		return
	case s.moving:
		return // it stands there under another key, perhaps
	default:
		ln.foundGone(s)
		return
	}
	s.all, s.looked = false, true
	s.rev, s.asked = max(s.rev, v.Rev), ln.asked
	if s.state == held {
		return
	}
	if s.rule.Limited && v.Limit == 0 {
		ln.refuse(s, errNoLimit)
		return
	}
	ahead, late := s.still(v.Entries[:i])
	if v.Complete {
		ln.position(s, len(ahead))
	}
	if failpoint.On(failpoint.ReaderPasses) && s.entry.Mode == driver.Shared && v.Complete && len(ahead) > 0 && ahead[0].Mode == driver.Shared {
		ahead = nil
	}
	if failpoint.On(failpoint.OldLimit) && s.ahead.Limit != 0 {
		v.Limit = s.ahead.Limit
	}
	near, all, turned := ln.near(s, ahead)
	switch {
	case turned > 0:
		late = true
		s.outdated(turned)
	case !late:
		s.ends = 0 // all of them are older than the view, which shows the own entry
	}
	s.ahead = Ahead{Entries: near, Complete: v.Complete && all, Limit: v.Limit}
	s.aliens()
	ln.judge(s, !late || ln.vouch(s))
	s.seen = s.state == held
}

// errNoLimit: somebody has deleted the limit of a semaphore that is in use.
var errNoLimit = fmt.Errorf("%w: the limit of the semaphore was deleted at the service", session.ErrRefused)

// relevant leaves out those who will never be in the way: of readers, other
// readers. A thousand of them need not remember each other.
func (s *seat) relevant(ahead []driver.Entry) []driver.Entry {
	if s.entry.Mode != driver.Shared {
		return ahead
	}
	return slices.DeleteFunc(slices.Clone(ahead), func(e driver.Entry) bool { return e.Mode == driver.Shared })
}

// near copies those of a view that can be in the way of a seat: as many of the
// nearest as it needs, and whether those are all; turned is as of turn. It must
// not take longer where the view does: in a line of thousands who wait in this
// process, all of them learn from one view.
func (ln *line) near(s *seat, view []driver.Entry) (near []driver.Entry, all bool, turned int64) {
	most := s.need
	if most == 0 || s.rule.Limited {
		most = len(view)
	}
	for _, e := range slices.Backward(view) {
		turned = max(turned, ln.turn(s, e))
		e = ln.known(e)
		if s.entry.Mode == driver.Shared && e.Mode == driver.Shared {
			continue // see relevant
		}
		if len(near) == most {
			slices.Reverse(near)
			return near, false, turned
		}
		e.Meta, e.Value = driver.Meta{}, nil // see slim
		near = append(near, e)
	}
	slices.Reverse(near)
	return near, true, turned
}

// turn says by when an entry that a view shows in the way of a seat had turned
// into one that is not, as is known here: the view is older than that. 0 if it has
// not. What comes of it is about a later moment than the view, in which the own
// entry was seen, and the next look must show it.
func (ln *line) turn(s *seat, e driver.Entry) int64 {
	if s.entry.Mode != driver.Shared || e.Mode == driver.Shared {
		return 0
	}
	if o := ln.seats[e.Ref]; o != nil && o.state == held && o.entry.Mode == driver.Shared {
		return o.turned
	}
	return 0
}

// asKnown is near for what an answer to Join shows.
func (ln *line) asKnown(s *seat, es []driver.Entry) (known []driver.Entry, turned int64) {
	if s.entry.Mode != driver.Shared {
		return es, 0 // it makes no difference
	}
	known = slices.Clone(es)
	for i, e := range known {
		turned = max(turned, ln.turn(s, e))
		known[i] = ln.known(e)
	}
	return known, turned
}

// known shows one of our own that holds as it is: what it has become may be on
// its way to the service, or newer there than what was seen.
func (ln *line) known(e driver.Entry) driver.Entry {
	if o := ln.seats[e.Ref]; o != nil && o.state == held {
		e.Mode, e.Admitted = o.entry.Mode, e.Admitted || o.rule.Limited
	}
	return e
}

// still returns those of a view that are not known to have gone since. late
// says that there were some: then the decision is about a later moment than
// the view, in which the own entry was seen.
func (s *seat) still(es []driver.Entry) (left []driver.Entry, late bool) {
	left = es
	for _, r := range s.departed {
		if i := slices.IndexFunc(left, func(e driver.Entry) bool { return e.Ref == r }); i >= 0 {
			left, late = slices.Delete(slices.Clone(left), i, i+1), true
		}
	}
	s.departed = nil
	return left, late
}

// slim copies entries without what their owners say of themselves: a seat keeps
// them for as long as it waits.
func slim(es []driver.Entry) []driver.Entry {
	es = slices.Clone(es)
	for i := range es {
		es[i].Meta, es[i].Value = driver.Meta{}, nil
	}
	return es
}

// failed takes in that a look failed: those for whom waiting is no cure leave,
// the others want it again.
func (ln *line) failed(batch []*seat, err error) {
	for _, s := range batch {
		switch {
		case s.state == over:
		case s.state == waiting && driver.Incurable(err):
			ln.refuse(s, err)
		default:
			ln.want(s)
		}
	}
}

// startTimer sees to it that waiting seats look again even if no event comes.
func (ln *line) startTimer() {
	if failpoint.On(failpoint.LateWatch) || failpoint.On(failpoint.NoNote) {
		return
	}
	if ln.stop == nil {
		ln.stop = ln.e.t.in.Clock().AfterFunc(ln.e.relook(), func() { ln.do(ln.relook) })
	}
}

// stopTimer is for a line that nobody uses any more.
func (ln *line) stopTimer() {
	if ln.stop != nil {
		ln.stop()
		ln.stop = nil
	}
}

// relook wants a look for all who wait.
func (ln *line) relook() {
	ln.stop = nil
	if ln.e.t.Context().Err() != nil {
		return
	}
	for _, s := range ln.seats {
		if s.state == waiting {
			ln.want(s)
			ln.startTimer()
		}
	}
}
