package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

const (
	// bound is how soon a call returns when its context has ended: 100 ms, by a
	// clock that may be slow, with timers that may be late.
	bound = 130*time.Millisecond + 2*late

	// prompt is how soon a caller learns that it was admitted, from when nothing is
	// wrong with it any more. The last request of a cut is given up after a quarter
	// of TTL - margin, 484 ms by the slowest clock, and repeated after a rest, 86 ms
	// at most: more than four are not lost before the session is. Both timers may be
	// late, and two requests may travel for 80 ms each, there and back: 770 ms.
	prompt = time.Second

	// heard is how soon a holder learns that its entry is gone: by a watch, or by
	// the next renewal but one.
	heard = 5 * time.Second / 2

	// settling is how long a process that goes on needs until timers that were
	// due meanwhile have gone off.
	settling = 10 * time.Millisecond
)

// grant takes in that a caller got a hold.
func (w *world) grant(hd *hold) {
	w.grants++
	w.log(hd.k.c, "got", hd.k.name+" "+hd.name)
	w.inTime(hd.attempt)
	for i, ln := range hd.lines {
		if !w.ofLine(hd, ln, i) {
			return
		}
	}
	ready := hd.ready()
	allowed := prompt + w.cfg.Service.LateArmed*5/4 // no event grants before the own watch is armed
	for _, ln := range hd.lines {
		allowed += ln.delay * 5 / 4
		w.order(hd, ln)
		ln.holds = append(ln.holds, hd)
		ln.granted = append(ln.granted, hd)
	}
	w.account(hd)
	if w.Now()-ready > allowed {
		w.fail("L1", "%s learned of its turn on %s after %s", hd.k.name, hd.name, w.Now()-ready)
	}
	if w.believes(hd) && !hd.taken() && hd.h.Remaining() > 0 {
		w.exclusion(hd)
	}
	if s := hd.h.Slot(); s >= 0 && s >= int(hd.highest())+hd.lines[0].ghosts(w.Now()) {
		w.fail("S1", "%s got slot %d, with %d permits at most", hd.k.name, s, hd.highest())
	}
}

// ofLine holds a hold against what the service had in one of its lines.
func (w *world) ofLine(hd *hold, ln *line, i int) bool {
	refs := core().Inner(hd.h).Refs()
	if len(refs) != len(hd.lines) || ln.byPlace[refs[i].Place] == nil {
		w.fail("S2", "%s has a hold on %s of an entry that never was: %v", hd.k.name, ln.name, refs)
		return false
	}
	e := ln.byPlace[refs[i].Place]
	hd.entries = append(hd.entries, e)
	hd.place = refs[0].Place
	switch token := int64(hd.h.Token()); {
	case e.Token != token && hd.h.Slot() < 0: // a slot has tokens of its own
		w.fail("S2", "%s got token %d for place %d of %s", hd.k.name, token, e.Place, ln.name)
	case e.since < 0 && e.brief:
		w.faults["briefly held"]++
		return false
	case e.since < 0:
		w.fail("S4", "%s holds %s with place %d, which was never admitted", hd.k.name, ln.name, e.Place)
		return false
	case e.hold != nil:
		w.fail("S2", "%s got place %d of %s, which was granted before", hd.k.name, e.Place, ln.name)
	}
	e.hold = hd
	return true
}

// ready is when nothing was in the way any more of a caller learning that it
// holds.
func (hd *hold) ready() time.Duration {
	ready := max(hd.called, hd.k.c.ill())
	if hd.mode == driver.Weighted { // others must note that they hold, if they live
		for _, c := range hd.k.w.clients {
			ready = max(ready, c.ill())
		}
		for _, e := range hd.lines[0].all {
			if e.Place < hd.place && e.gone && e.how != fault.Leave {
				ready = max(ready, e.goneAt)
			}
		}
	}
	for _, e := range hd.entries {
		if e.open < 0 { // the limit was lowered since
			return hd.got
		}
		ready = max(ready, e.open)
	}
	return ready
}

// order checks the token against those of holds that callers had before this one
// was asked for.
func (w *world) order(hd *hold, ln *line) {
	for _, o := range ln.granted {
		if o.h.Slot() == hd.h.Slot() && o.got < hd.called && o.h.Token() >= hd.h.Token() {
			w.fail("S2", "%s got token %d of %s, asked for after token %d was granted", hd.k.name, hd.h.Token(), ln.name, o.h.Token())
		}
	}
}

// believes says that a caller that runs would take its hold for good by its
// context.
func (w *world) believes(hd *hold) bool {
	c := hd.k.c
	return !hd.given && hd.h.Context().Err() == nil && !c.paused && w.Now() >= c.resumed+settling
}

// taken says that an operator took an entry from a hold: that nobody believes in
// it is not promised then, until it is told.
func (hd *hold) taken() bool {
	return slices.ContainsFunc(hd.entries, func(e *entry) bool { return e.gone && outside(e.how) })
}

// exclusion checks a hold that is believed in against all others that are.
func (w *world) exclusion(hd *hold) {
	for _, ln := range hd.lines {
		var taken int64
		last := hd
		for _, o := range ln.holds {
			if o == hd {
				taken += o.weight
				continue
			}
			if o.given || o.taken() || o.k.c.paused { // who is stopped asks nothing
				continue
			}
			excludes := o.mode == driver.Exclusive || hd.mode == driver.Exclusive
			if excludes && w.believes(o) {
				w.fail("S1", "%s and %s both believe in their holds of %s (tokens %d, %d) by their contexts", hd.k.name, o.k.name, ln.name, hd.h.Token(), o.h.Token())
			}
			if o.h.Remaining() == 0 {
				o.over = true
				continue
			}
			if excludes {
				w.fail("S1", "%s and %s both have valid holds of %s (tokens %d, %d)", hd.k.name, o.k.name, ln.name, hd.h.Token(), o.h.Token())
			}
			if s := o.h.Slot(); s >= 0 && s == hd.h.Slot() {
				w.fail("S1", "%s and %s both have slot %d", hd.k.name, o.k.name, s)
			}
			taken += o.weight
			if o.place > last.place {
				last = o
			}
		}
		if hd.mode == driver.Weighted && taken > last.highest() {
			w.fail("S1", "%d permits of %s are believed in, of %d at most", taken, ln.name, last.highest())
		}
	}
}

// highest is the highest limit that there was while the hold was asked for.
func (hd *hold) highest() int64 {
	most := int64(0)
	ls := hd.lines[0].limits
	for i, l := range ls {
		if l.at <= hd.got && (i+1 == len(ls) || ls[i+1].at >= hd.called) {
			most = max(most, l.limit)
		}
	}
	return most
}

// checked takes in what a hold said of itself.
func (w *world) checked(hd *hold, valid, live bool) {
	switch {
	case hd.over && valid:
		w.fail("S1'", "%s has a valid hold of %s that was over", hd.k.name, hd.name)
	case !valid && hd.h.Context().Err() == nil:
		w.fail("S1'", "%s has a hold of %s that is not valid, and its context is live", hd.k.name, hd.name)
	case valid && !live && !hd.over:
		w.fail("S1'", "%s has a valid hold of %s, and its context has ended", hd.k.name, hd.name)
	case valid && w.believes(hd) && !hd.taken():
		w.exclusion(hd)
	}
	if !valid && !hd.over {
		hd.over = true
		w.spurious(hd)
	}
	w.stale(hd)
}

// calm says that nothing can go wrong with a hold.
func (w *world) calm(hd *hold) bool {
	return w.storm == 0 && !w.cfg.SlowClock && hd.k.c.shut < hd.called
}

// spurious is a loss for which there is no reason.
func (w *world) spurious(hd *hold) {
	w.lost++
	w.log(hd.k.c, "lost", hd.k.name+" "+hd.name)
	if w.calm(hd) {
		w.fail("L2", "%s lost %s without any fault", hd.k.name, hd.name)
	}
}

// stale checks that who has lost an entry is told soon, where nothing is wrong
// with the network.
func (w *world) stale(hd *hold) {
	for _, e := range hd.entries {
		if e.gone && !hd.given && w.believes(hd) && w.Now()-max(e.goneAt, hd.got, hd.k.c.ill()) > heard+w.cfg.Service.LateArmed {
			w.fail("L2", "%s does not know after %s that its entry in %s is gone", hd.k.name, w.Now()-e.goneAt, e.Queue)
		}
	}
}

// expiry checks that nobody believes in a hold of a session that has expired.
func (w *world) expiry(id string) {
	for _, ln := range w.lines {
		for _, hd := range ln.holds {
			if hd.given || hd.h.SessionID() != id || hd.k.c.paused {
				continue
			}
			if w.believes(hd) {
				w.fail("L2", "%s believes in %s by its context when its session has expired", hd.k.name, hd.name)
			}
			if hd.h.Remaining() == 0 {
				hd.over = true
				continue
			}
			w.fail("L2", "%s believes in %s when its session has expired", hd.k.name, hd.name)
		}
	}
}

// awake checks that a process that was stopped takes no hold for good, at the
// first look, whose entry has gone meanwhile.
func (w *world) awake(c *client) {
	for _, ln := range w.lines {
		for _, hd := range ln.holds {
			if hd.k.c != c || hd.given || hd.taken() {
				continue
			}
			gone := slices.ContainsFunc(hd.entries, func(e *entry) bool { return e.gone })
			if gone && hd.h.Remaining() > 0 {
				w.fail("L2", "%s was stopped, and still believes in %s, which has gone", hd.k.name, hd.name)
			}
		}
	}
}

// inTime checks that a call returned soon after its context had ended.
func (w *world) inTime(a *attempt) {
	w.moved = w.Now()
	if a.ends < 0 {
		return
	}
	if late := w.Now() - max(a.ends, a.k.c.resumed); late > bound {
		w.fail("S6", "%s returned %s after its context had ended", a.k.name, late)
	}
}

// refused takes in that a call returned without a hold.
func (w *world) refused(a *attempt, as asked, err error) {
	w.log(a.k.c, "no hold", a.k.name+" "+err.Error())
	w.inTime(a)
	switch {
	case errors.Is(err, session.ErrNotAcquired) && (as.try || a.ends >= 0):
	case errors.Is(err, session.ErrUnavailable) && (as.try || a.ends >= 0):
	case a.ends >= 0 && a.k.ctx.Err() == nil && isContext(err):
	case errors.Is(err, session.ErrWeight) && as.mode == driver.Weighted:
	case errors.Is(err, session.ErrClosed) && a.k.c.shut > 0:
	case a.k.ctx.Err() != nil: // the run is being ended
	case as.try && isContext(err):
	default:
		w.fail("S6", "%s got an error that it should not: %v", a.k.name, err)
	}
}

// unlocked takes in that a hold was given back.
func (w *world) unlocked(hd *hold, called time.Duration, err, again error) {
	w.log(hd.k.c, "gave back", hd.k.name+" "+hd.name)
	hd.forget()
	w.moved = w.Now()
	if took := w.Now() - max(called, hd.k.c.resumed); took > unlockBound {
		w.fail("S6", "%s needed %s to give %s back", hd.k.name, took, hd.name)
	}
	if again != nil && !errors.Is(again, session.ErrUnlocked) {
		w.fail("S6", "%s unlocked %s twice: %v", hd.k.name, hd.name, again)
	}
	switch {
	case err == nil:
		for _, e := range hd.entries {
			// A terse service cannot tell what ended it, if an attempt was not answered.
			if !e.gone || e.how != fault.Leave && !w.cfg.Service.Terse {
				w.fail("S5", "%s was told that %s is given back, and its entry is not", hd.k.name, hd.name)
			}
		}
		if hd.over {
			w.fail("S1'", "%s gave %s back as if it had not been over", hd.k.name, hd.name)
		}
	case errors.Is(err, session.ErrLost):
		if !hd.over {
			w.spurious(hd)
		}
	case !errors.Is(err, session.ErrReleasePending):
		w.fail("S6", "%s unlocked %s: %v", hd.k.name, hd.name, err)
	case w.calm(hd):
		w.fail("S6", "%s unlocked %s without any fault: %v", hd.k.name, hd.name, err)
	}
}

// forget takes a hold out of those that may be believed in.
func (hd *hold) forget() {
	for _, ln := range hd.lines {
		ln.holds = slices.DeleteFunc(ln.holds, func(o *hold) bool { return o == hd })
	}
}

// ended takes in that a hold is over whose end is nobody's business here.
func (w *world) ended(k *worker, hd *hold) {
	w.tell(k.name, func() {
		w.log(k.c, "ended", k.name+" "+hd.name)
		hd.forget()
	})
}

// downgraded takes in that a writer has become a reader.
func (w *world) downgraded(hd *hold, token session.Token, called time.Duration, err error) {
	if hd.h.Token() != token {
		w.fail("S2", "%s had token %d of %s, and after a downgrade %d", hd.k.name, token, hd.name, hd.h.Token())
	}
	if took := w.Now() - max(called, hd.k.c.resumed); took > unlockBound {
		w.fail("S6", "%s needed %s to downgrade %s", hd.k.name, took, hd.name)
	}
	e := hd.entries[0]
	switch {
	case err == nil && (!e.Shares() || e.gone && e.how == fault.Update):
		w.fail("S5", "%s was told that %s is downgraded, and its entry is not", hd.k.name, hd.name)
	case err != nil && w.calm(hd):
		w.fail("S6", "%s cannot downgrade %s: %v", hd.k.name, hd.name, err)
	}
}
