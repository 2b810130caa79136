package queue

import (
	"math"
	"slices"

	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// undated is when something was that is only known to have been.
const undated = math.MaxInt64

// end is what is known of the end of an entry.
type end struct {
	rev   int64 // when it was; undated, or 0 where nothing has a date
	held  bool  // it held and admitted nobody beside it, so nobody was ahead of it
	told  bool  // by the service, which cannot always tell an end from a move
	moved bool  // it stands under another key, in the same place
	doubt bool  // it was an entry of our own, and not by our doing: its session may have ended
}

// gone takes in that an entry that others wait for is gone. sure says of a seat
// that it is known to have lived when the entry went.
func (ln *line) gone(ref driver.Ref, how end, sure func(*seat) bool) {
	b := ln.subs[spot{ref: ref}]
	if b == nil {
		return
	}
	delete(ln.subs, b.spot)
	if b.cancel != nil {
		b.cancel()
	}
	for _, s := range b.seats {
		s.subs = slices.DeleteFunc(s.subs, func(o *sub) bool { return o == b })
		if s.state == waiting {
			ln.goneFor(s, ref, how, sure)
		}
	}
}

// goneFor is gone for one who waits.
func (ln *line) goneFor(s *seat, ref driver.Ref, how end, sure func(*seat) bool) {
	s.outdated(how.rev)
	if how.doubt {
		// A session that ends takes all its entries at one moment, and the event of
		// the own one comes later. So only a look that begins from now on grants,
		// not one that is under way.
		s.ends = undated
	}
	i := s.ahead.index(ref)
	moved := how.moved || how.told && !how.held && i >= 0 && s.ahead.Entries[i].Movable // or may have moved
	if failpoint.On(failpoint.MovedGone) {
		moved = false
	}
	if s.rule.Limited || moved {
		if failpoint.On(failpoint.MovedComplete) {
			moved = false
		}
		// What older looks have shown must not be added to this. Nor may the next
		// event be: whoever moved stands ahead, and is not among those known.
		s.ahead = s.ahead.without(ref)
		s.ahead.Complete = s.ahead.Complete && !moved
		ln.wantAgain(s, 0)
		return
	}
	s.departed = append(s.departed, ref)
	if failpoint.On(failpoint.PredecessorGone) {
		how.held = true
	}
	if how.held {
		s.ahead = s.ahead.behind(ref)
	} else {
		s.ahead = s.ahead.without(ref)
	}
	v := s.decide()
	_, stuck := s.stuckBehind(v)
	switch {
	case v.Hold:
		ln.judge(s, sure(s))
	case stuck:
		ln.judge(s, false)
	case s.ahead.Complete && s.follows(ln.worth(s, v)):
		// Still waiting for somebody who is watched, and no further look
		// is needed when that one goes.
		s.aliens()
	case !v.More && s.follows(spotsOf(v.Wait)):
		// Its turn is near. There is time to look, unless the line moves so
		// fast that the next entry goes too before a look could be done:
		// then one look is enough, after that.
		s.aliens()
		ln.wantSoon(s)
	default:
		ln.want(s)
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
		if h := s.hold; h != nil { // first of all
			ln.acts = append(ln.acts, func() { Core().Inner(h).EntryGone(nil) })
		}
		ln.acts = append(ln.acts, ln.e.t.Driver().Prove)
		s.lost = true
		if s.fall != nil {
			s.fall()
		}
	}
	ln.remove(s, sure)
	if !told {
		s.err = errPlaceLost
		close(s.done)
	}
}

// beside says who is known to have lived when an entry of our own went. If that
// was not our doing, the session may have ended, and with it all that it had: the
// news of the others is still on its way then.
func (ln *line) beside(s *seat) func(*seat) bool {
	if s.leaving {
		return ln.vouch
	}
	return unsure
}

// foundGone is entryGone for an entry that was found gone: when it went is not
// known.
func (ln *line) foundGone(s *seat) {
	s.last = undated
	ln.entryGone(s, unsure)
}

// unsure says of nobody that it is known to have lived.
func unsure(*seat) bool { return false }

// outdated takes in that something happened ahead: what is seen next must show it,
// and with it the own entry.
func (s *seat) outdated(rev int64) {
	if rev != undated {
		s.least = max(s.least, rev)
	}
	s.ends = max(s.ends, rev)
}

// spotsOf are the spots of entries.
func spotsOf(refs []driver.Ref) []spot {
	spots := make([]spot, len(refs))
	for i, r := range refs {
		spots[i] = spot{ref: r}
	}
	return spots
}
