package sim

import (
	"errors"
	"fmt"
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

	// prompt is how soon a caller gets its grant, from when its client has no fault any
	// more. The last request of a cut is given up after a quarter of TTL - margin, 484 ms
	// by the slowest clock, and repeated after a pause, 86 ms at most: the session is lost
	// before more than four are. Both timers may be late, and two requests may travel for
	// 80 ms each, there and back: 770 ms.
	prompt = time.Second

	// noticed is how soon a holder learns that its entry is gone: by a watch, or by
	// the next renewal but one.
	noticed = 5 * time.Second / 2

	// settling is how long it takes until the timers of a resumed process have fired that
	// were due meanwhile.
	settling = 10 * time.Millisecond
)

// grant checks a hold that a caller got.
func (w *simulation) grant(hd *hold) {
	w.grants++
	w.log(hd.k.c, "got", hd.k.name+" "+hd.name)
	w.inTime(hd.attempt)
	for i, q := range hd.queues {
		if !w.inQueue(hd, q, i) {
			return
		}
	}
	ready := hd.ready()
	allowed := prompt + w.cfg.Service.LateArmed*5/4 // no event grants before its own watch is armed
	for _, q := range hd.queues {
		allowed += q.delay * 5 / 4
		w.order(hd, q)
		q.holds = append(q.holds, hd)
		q.granted = append(q.granted, hd)
	}
	w.checkLedger(hd)
	if w.Now()-ready > allowed {
		w.fail("L1", "%s was granted %s after %s", hd.k.name, hd.name, w.Now()-ready)
	}
	if w.trusts(hd) && !hd.taken() && hd.h.Remaining() > 0 {
		w.exclusion(hd)
	}
	if s := hd.h.Slot(); s >= 0 && s >= int(hd.highest())+hd.queues[0].orphanSlots(w.Now()) {
		w.fail("S1", "%s got slot %d, with %d permits at most", hd.k.name, s, hd.highest())
	}
}

// inQueue checks a hold against the entries that the service had in one of its queues.
func (w *simulation) inQueue(hd *hold, q *queue, i int) bool {
	refs := core().Hold(hd.h).Refs()
	if len(refs) != len(hd.queues) || q.byRef[refs[i]] == nil {
		w.fail("S2", "%s has a hold on %s of an entry that never was: %v", hd.k.name, q.name, refs)
		return false
	}
	e := q.byRef[refs[i]]
	hd.entries = append(hd.entries, e)
	hd.place = refs[0].Place
	switch token := int64(hd.h.Token()); {
	case e.Token != token && hd.h.Slot() < 0: // a slot has tokens of its own
		w.fail("S2", "%s got token %d for place %d of %s", hd.k.name, token, e.Place, q.name)
	case e.since < 0 && e.brief:
		w.faults["briefly held"]++
		return false
	case e.since < 0 && !w.passed(q, e):
		w.fail("S4", "%s holds %s with place %d, which the rule never let hold", hd.k.name, q.name, e.Place)
		return false
	case e.hold != nil:
		w.fail("S2", "%s got place %d of %s, which was granted before", hd.k.name, e.Place, q.name)
	}
	e.hold = hd
	return true
}

// passed reports whether the rule lets an entry hold without those before it that are of its session, and
// whose callers have begun to release them, or hold nothing. The session may have been ended by an operator
// at the same moment, of which it learns later: by its watch on the entry, or not before it has the
// answer to its join, or after an answer that still shows the entry.
func (w *simulation) passed(q *queue, e *entry) bool {
	reads := w.recipe.name == "once" && w.Now()-e.goneAt < prompt // between the grant and the report of it
	shown := w.owner[e.Session].answered[fmt.Sprintf("read %s %s ", q.name, e.Session)] == w.Now()
	if e.gone && !e.early && !reads && !shown && !w.armed[e.Session+fmt.Sprint(e.Target())] {
		return false
	}
	var ahead []*entry
	for _, o := range q.all {
		if o.Place < e.Place && (!o.gone || e.gone && o.goneAt >= e.goneAt) && (o.Session != e.Session || o.hold != nil && !o.hold.released) {
			ahead = append(ahead, o)
		}
	}
	return e.Mode != driver.Weighted && mayHold(ahead, e, 0)
}

// ready returns the time from which on nothing delayed the grant any more.
func (hd *hold) ready() time.Duration {
	ready := max(hd.called, hd.k.c.lastFault())
	if hd.mode == driver.Weighted { // others must mark their entries as admitted, if they live
		for _, c := range hd.k.w.clients {
			ready = max(ready, c.lastFault())
		}
		for _, e := range hd.queues[0].all {
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

// order checks the token against those of holds that callers had before the call of this
// one.
func (w *simulation) order(hd *hold, q *queue) {
	for _, o := range q.granted {
		if o.h.Slot() == hd.h.Slot() && o.got < hd.called && o.h.Token() >= hd.h.Token() {
			w.fail("S2", "%s got token %d of %s, called after token %d was granted", hd.k.name, hd.h.Token(), q.name, o.h.Token())
		}
	}
}

// trusts reports whether a caller that runs would trust its hold by its context.
func (w *simulation) trusts(hd *hold) bool {
	c := hd.k.c
	return !hd.released && hd.h.Context().Err() == nil && !c.paused && w.Now() >= c.resumed+settling
}

// taken reports whether an operator deleted an entry of the hold: its caller may trust it
// then until the event comes.
func (hd *hold) taken() bool {
	return slices.ContainsFunc(hd.entries, func(e *entry) bool { return e.gone && outside(e.how) })
}

// exclusion checks a hold that its caller trusts against all other such holds.
func (w *simulation) exclusion(hd *hold) {
	for _, q := range hd.queues {
		for _, e := range q.alive { // the owner of another program's entry holds when it may
			if e.Foreign && e.open >= 0 && (e.excludes() || hd.mode == driver.Exclusive) {
				w.fail("S1", "%s has a valid hold of %s next to another program, whose entry is %s", hd.k.name, q.name, e.Key)
			}
		}
		var taken int64
		last := hd
		for _, o := range q.holds {
			if o == hd {
				taken += o.weight
				continue
			}
			if o.released || o.taken() || o.k.c.paused { // a stopped process checks nothing
				continue
			}
			excludes := o.mode == driver.Exclusive || hd.mode == driver.Exclusive
			if excludes && w.trusts(o) {
				w.fail("S1", "%s and %s both trust their holds of %s (tokens %d, %d) by their contexts", hd.k.name, o.k.name, q.name, hd.h.Token(), o.h.Token())
			}
			if o.h.Remaining() == 0 {
				o.over = true
				continue
			}
			if excludes {
				w.fail("S1", "%s and %s both have valid holds of %s (tokens %d, %d)", hd.k.name, o.k.name, q.name, hd.h.Token(), o.h.Token())
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
			w.fail("S1", "%d permits of %s are held, of %d at most", taken, q.name, last.highest())
		}
	}
}

// highest returns the highest limit during the call that returned the hold.
func (hd *hold) highest() int64 {
	most := int64(0)
	ls := hd.queues[0].limits
	for i, l := range ls {
		if l.at <= hd.got && (i+1 == len(ls) || ls[i+1].at >= hd.called) {
			most = max(most, l.limit)
		}
	}
	return most
}

// checked records what a hold reported about itself.
func (w *simulation) checked(hd *hold, valid, live bool) {
	switch {
	case hd.over && valid:
		w.fail("S1'", "%s has a valid hold of %s that was over", hd.k.name, hd.name)
	case !valid && hd.h.Context().Err() == nil:
		w.fail("S1'", "%s has a hold of %s that is not valid, and its context is live", hd.k.name, hd.name)
	case valid && !live && !hd.over:
		w.fail("S1'", "%s has a valid hold of %s, and its context has ended", hd.k.name, hd.name)
	case valid && w.trusts(hd) && !hd.taken():
		w.exclusion(hd)
	}
	if !valid && !hd.over {
		hd.over = true
		w.spurious(hd)
	}
	w.stale(hd)
}

// calm reports whether no fault can concern a hold.
func (w *simulation) calm(hd *hold) bool {
	return w.severity == 0 && !w.cfg.SlowClock && hd.k.c.shut < hd.called
}

// spurious counts a loss, and fails the run if no fault can be its reason.
func (w *simulation) spurious(hd *hold) {
	w.lost++
	w.log(hd.k.c, "lost", hd.k.name+" "+hd.name)
	if w.calm(hd) {
		w.fail("L2", "%s lost %s without any fault", hd.k.name, hd.name)
	}
}

// stale checks that a holder whose entry is gone learns that soon, if its network is
// healthy.
func (w *simulation) stale(hd *hold) {
	for _, e := range hd.entries {
		if e.gone && !hd.released && w.trusts(hd) && w.Now()-max(e.goneAt, hd.got, hd.k.c.lastFault()) > noticed+w.cfg.Service.LateArmed {
			w.fail("L2", "%s does not know after %s that its entry in %s is gone", hd.k.name, w.Now()-e.goneAt, e.Queue)
		}
	}
}

// expiry checks that no caller trusts a hold of a session that has expired.
func (w *simulation) expiry(id string) {
	for _, q := range w.queues {
		for _, hd := range q.holds {
			if hd.released || hd.h.SessionID() != id || hd.k.c.paused {
				continue
			}
			if w.trusts(hd) {
				w.fail("L2", "%s trusts %s by its context when its session has expired", hd.k.name, hd.name)
			}
			if hd.h.Remaining() == 0 {
				hd.over = true
				continue
			}
			w.fail("L2", "%s trusts %s when its session has expired", hd.k.name, hd.name)
		}
	}
}

// awake checks that a process that was stopped does not trust a hold, from its first check
// on, whose entry has ended meanwhile.
func (w *simulation) awake(c *client) {
	for _, q := range w.queues {
		for _, hd := range q.holds {
			if hd.k.c != c || hd.released || hd.taken() {
				continue
			}
			gone := slices.ContainsFunc(hd.entries, func(e *entry) bool { return e.gone })
			if gone && hd.h.Remaining() > 0 {
				w.fail("L2", "%s was stopped, and still trusts %s, whose entry has ended", hd.k.name, hd.name)
			}
		}
	}
}

// inTime checks that a call returned soon after its context had ended.
func (w *simulation) inTime(a *attempt) {
	w.moved = w.Now()
	if a.ends < 0 {
		return
	}
	if late := w.Now() - max(a.ends, a.k.c.resumed); late > bound {
		w.fail("S6", "%s returned %s after its context had ended", a.k.name, late)
	}
}

// refused records that a call returned without a hold.
func (w *simulation) refused(a *attempt, as wanted, err error) {
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

// unlocked checks a release.
func (w *simulation) unlocked(hd *hold, called time.Duration, err, again error) {
	w.log(hd.k.c, "released", hd.k.name+" "+hd.name)
	hd.forget()
	w.moved = w.Now()
	if took := w.Now() - max(called, hd.k.c.resumed); took > unlockBound {
		w.fail("S6", "%s needed %s to release %s", hd.k.name, took, hd.name)
	}
	if again != nil && !errors.Is(again, session.ErrUnlocked) {
		w.fail("S6", "%s unlocked %s twice: %v", hd.k.name, hd.name, again)
	}
	switch {
	case err == nil:
		for _, e := range hd.entries {
			// A terse service does not show what ended the entry, if an attempt was not answered.
			if !e.gone || e.how != fault.Leave && !w.cfg.Service.Terse {
				w.fail("S5", "%s has released %s, and its entry is still there or ended otherwise", hd.k.name, hd.name)
			}
		}
		if hd.over {
			w.fail("S1'", "%s released %s without an error, and it was over", hd.k.name, hd.name)
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

// forget removes a hold from those that its queues count as held.
func (hd *hold) forget() {
	for _, q := range hd.queues {
		q.holds = slices.DeleteFunc(q.holds, func(o *hold) bool { return o == hd })
	}
}

// ended removes a hold whose end is not checked.
func (w *simulation) ended(k *worker, hd *hold) {
	w.report(k.name, func() {
		w.log(k.c, "ended", k.name+" "+hd.name)
		hd.forget()
	})
}

// downgraded checks a downgrade.
func (w *simulation) downgraded(hd *hold, token session.Token, called time.Duration, err error) {
	if hd.h.Token() != token {
		w.fail("S2", "%s had token %d of %s, and after a downgrade %d", hd.k.name, token, hd.name, hd.h.Token())
	}
	if took := w.Now() - max(called, hd.k.c.resumed); took > unlockBound {
		w.fail("S6", "%s needed %s to downgrade %s", hd.k.name, took, hd.name)
	}
	e := hd.entries[0]
	switch {
	case err == nil && (!e.Shares() || e.gone && e.how == fault.Update):
		w.fail("S5", "%s has downgraded %s, and its entry is not marked", hd.k.name, hd.name)
	case err != nil && w.calm(hd):
		w.fail("S6", "%s cannot downgrade %s: %v", hd.k.name, hd.name, err)
	}
}
