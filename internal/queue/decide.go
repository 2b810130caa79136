package queue

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// Why an entry is refused. Other reasons are errors of the service, and those of package rule.
var (
	// ErrMustWait: the request was not to wait, and another entry is ahead.
	ErrMustWait = errors.New("another entry is ahead")

	// ErrLimitGone: an operator has deleted the limit of the semaphore while the entry waited. A
	// new join makes it anew.
	ErrLimitGone = errors.New("the limit of the semaphore was deleted at the service")

	// errNoLimit: not even the join has made a limit, because the service does not permit that.
	errNoLimit = fmt.Errorf("%w: the semaphore has no limit at the service", driver.ErrRefused)
)

// decide applies the rule to an own entry. how is what the newest fact proves that the
// decision goes by.
func (q *Queue) decide(en *Entry, how proof) {
	i := q.pic.index(en.Ref)
	if i >= 0 {
		es, complete := q.pic.ahead(i)
		q.judge(en, es, complete, how)
	}
}

// stir has those entries decided that wait for ref.
func (q *Queue) stir(ref driver.Ref, how proof) {
	w := q.watches[ref.Target()]
	if w == nil {
		return
	}
	for _, en := range slices.Clone(w.by) { // a decision takes entries out of w.by
		q.decide(en, how)
	}
}

// judge is decide with what is known ahead of the entry. An entry that does not wait, or is asked
// to leave, keeps what it has. Else the first line that applies decides:
//
//	the verdict    that the entry lives is  then
//	never          -                        the entry is refused
//	hold           proved (proves)          the entry holds
//	hold           not, but a watch can     its own entry is watched: Armed grants it, Gone ends it
//	hold           not, and only a read can the entry reads
//	more           -                        the entry reads as much as the rule asks for
//	wait           -                        the entry waits for what the rule names, and nothing else
func (q *Queue) judge(en *Entry, es []*driver.Entry, complete bool, how proof) {
	if en.state != waiting || en.leaving {
		return
	}
	moved := q.count(en, es, complete, how)
	limit := int64(0)
	if en.Limited {
		var err error
		limit, err = rule.LimitOf(q.Name, q.limit)
		if err != nil {
			q.refuse(en, err)
			return
		}
	}
	ahead := rule.Ahead{Entries: q.unpassed(en, es, how), Complete: complete, Count: en.count, Limit: limit}
	v := en.rule.Decide(ahead, en.Entry)
	if moved && !v.Hold { // a grant is reported by itself
		en.group.owner.Moved(en.n, en.count)
	}
	en.turn, en.need = false, q.needs(en, v)
	switch {
	case v.Never:
		q.refuse(en, rule.WeightError(en.Weight, limit))
	case v.Hold && q.proves(en, how):
		q.grant(en)
	case v.Hold && q.watchWouldProve(en, how):
		en.turn = true
		q.protect(en)
	case v.Hold, v.More > 0:
		q.want(en)
	default:
		q.wait(en, v, es, complete, how)
	}
}

// maxPassed is how many of our entries, whose releases the service has not acknowledged, an entry does not
// wait for, and how far ahead of its turn an entry behind our own is watched. It bounds what is sent
// again when a connection breaks, and how many holds follow each other before the service has
// confirmed one. With it, and a round trip of 4 ms, a process passes a lock on up to 4000 times a second.
const maxPassed = 16

// unpassed returns the entries ahead of an own entry that it has to wait for: not the first ones of those
// that are known, where they are ours and pass. The service has them until it has carried out their
// Leaves, and they keep all others out so long; the entry itself does from then on, if it lives. So how
// must prove that.
func (q *Queue) unpassed(en *Entry, es []*driver.Entry, how proof) []*driver.Entry {
	if !en.follows() || !q.proves(en, how) {
		return es
	}
	n := 0
	for n < min(len(es), maxPassed) && q.hasPassed(es[n]) {
		n++
	}
	return es[n:]
}

func (q *Queue) hasPassed(e *driver.Entry) bool {
	own := q.own[e.Ref]
	return own != nil && own.passed
}

// foresee has an entry of ours watched that may be passed on to when a few more are done. An armed watch
// proves that it lives, and to arm it takes a round trip.
func (q *Queue) foresee(en *Entry) {
	i := q.pic.index(en.Ref) + maxPassed
	if i >= maxPassed && i < len(q.pic.es) {
		next := q.own[q.pic.es[i].Ref]
		if next != nil && next.follows() {
			next.WaitsLong()
		}
	}
}

// count takes in how many entries are ahead, if that is known, and reports whether that is news.
func (q *Queue) count(en *Entry, es []*driver.Entry, complete bool, how proof) (moved bool) {
	n := len(es)
	en.Foreign = en.Foreign || n > 0 && es[n-1].Foreign
	if !complete || q.writers.ahead(en) && how != byView { // an unknown entry may be ahead
		return false
	}
	en.first = en.first || n == 0
	moved = en.count != n
	en.count = n
	return moved
}

// needs returns how many of the nearest entries the next read of an entry has to show: all, if
// only a view of all that are ahead can grant it, see proves.
func (q *Queue) needs(en *Entry, v rule.Verdict) int {
	switch {
	case v.Hold && (q.writers.ahead(en) || en.Limited), en.Limited && v.Front && v.More == 0:
		return 0
	}
	return max(v.More, rule.Nearest)
}

// proves reports whether an entry that may hold by what is known ahead of it is known to
// have lived at that moment. Nothing else has to be guarded against before a grant.
//
// While the session is in doubt, only a read that began after that has shown the entry
// proves it. Where a limit decides, which can fall, only a view of queue and limit does,
// and never what an event adds to an older one. Where an unknown entry may have replaced a
// known one, only a view of all that are ahead does.
//
//	the session is in doubt                               no
//	a view has shown the entry                            yes
//	permits, or another program's writer is ahead         no
//	the answer to a change by this session                yes
//	an event, and the watch on the entry itself is armed  yes
//	else                                                  no
func (q *Queue) proves(en *Entry, how proof) bool {
	switch {
	case q.inDoubt(en):
		return false
	case how == byView:
		return true
	case en.Limited, q.writers.ahead(en):
		return false
	}
	return how == byLeave || how == byEvent && en.guard.isArmed()
}

// watchWouldProve reports whether an armed watch on the entry would prove what proves asks for.
func (q *Queue) watchWouldProve(en *Entry, how proof) bool {
	return !q.inDoubt(en) && !en.Limited && !q.writers.ahead(en) && how != noProof
}

// inDoubt reports whether nothing has shown the entry since the session was in doubt.
func (q *Queue) inDoubt(en *Entry) bool { return en.shown < q.term.doubts.open() }

// grant lets an entry hold.
func (q *Queue) grant(en *Entry) {
	en.state = held
	en.group.holds(en)
	if en.Limited { // it will mark itself; the one behind it may be the front now
		en.Marks |= driver.MarkAdmitted
		q.stir(en.Ref, byEvent)
	}
	if len(en.on) > 0 {
		q.foresee(en)
		q.follow(en, nil) // last: the one behind it takes over the watches of the front
	}
}

// refuse lets the caller of an entry go with an error. The entry is there until the
// caller has had it leave.
func (q *Queue) refuse(en *Entry, err error) {
	if !en.leaving {
		en.leaving = true
		q.follow(en, nil)
		en.group.refuse(err)
	}
}

// refuseUnlimited refuses an entry whose queue has no limit.
func (q *Queue) refuseUnlimited(en *Entry) {
	if en.limited {
		q.refuse(en, ErrLimitGone)
	} else {
		q.refuse(en, errNoLimit)
	}
}

// wait makes an entry wait for what the verdict names, and for nothing else.
//
// The entry holds without a read if its own watch is armed and what it waits for ends, and if
// that was all that was ahead or the service reports that it was first. One that joined behind
// two watches both, so that it knows, and the release of the nearer one need not show it. Behind
// more, the watches would cost more than they save: without that report it reads at the hand-off,
// and that read shows its own entry too.
//
// The first line that applies decides:
//
//	an entry without a session is ahead, and the last view had all  it is refused
//	it is a try, and the last view had all                          it is refused
//	one of these, but the last view did not have all                it reads all that are ahead
//	an event or a Leave has led here, and the verdict names an
//	entry whose end would not be known here                         it reads
//	else                                                            it follows watches
func (q *Queue) wait(en *Entry, v rule.Verdict, es []*driver.Entry, complete bool, how proof) {
	var by []*driver.Entry // each has a watch of its own
	unknown, unleased := false, false
	for _, e := range v.Wait {
		if v.Front && e.Marks.Has(driver.MarkAdmitted) && !q.isOwn(e) { // the watch on the holders shows its end
			continue
		}
		by = append(by, e)
		en.blocker = e
		unknown = unknown || !q.knows(e)
		unleased = unleased || e.Unleased
		if e.Unleased && en.whole {
			q.refuse(en, fmt.Errorf("%w: %q is ahead and stays until an operator deletes it", rule.ErrForeignKey, e.Key))
			return
		}
	}
	moved := how == byEvent || how == byLeave
	switch {
	case en.try && en.whole:
		q.refuse(en, ErrMustWait)
		return
	case en.try, unleased: // what is known to be ahead may have ended long ago, unwatched
		en.need = 0
		q.want(en)
		return
	case moved && unknown:
		// An unknown entry may have ended long ago. Permits that are released fast let in many,
		// which the new front knows from its join only: it reads before it watches any of them.
		q.want(en)
		return
	}
	on := make([]*watch, 0, len(by)+2)
	for _, e := range by {
		on = append(on, q.on(e.Target()))
	}
	if v.Front {
		on = append(on, q.on(driver.Target{Kind: driver.OfHolders, Queue: q.Name}))
		on = append(on, q.on(driver.Target{Kind: driver.OfRecord, Queue: q.Name, Record: rule.RecordLimit}))
	}
	near := v.Next || complete && len(es) <= 2 && !en.Limited
	if near && v.Soon != nil && (en.Waited <= 2 || !q.term.firsts) {
		on = append(on, q.on(v.Soon.Target()))
	}
	q.follow(en, on)
	passed := en.follows() && complete && len(es) <= maxPassed && q.isOwn(es[len(es)-1])
	if near || passed || !en.Limited && q.term.firsts {
		q.protect(en)
	}
}

// knows reports whether the end of an entry would be known here.
func (q *Queue) knows(e *driver.Entry) bool { return q.isOwn(e) || q.watches[e.Target()] != nil }

// on returns the watch on a target, which exists from now on. For one of our own entries nothing is
// sent: the answer to its Leave, or its loss, ends that watch (gone).
func (q *Queue) on(t driver.Target) *watch {
	w := q.watches[t]
	if w == nil {
		w = &watch{target: t, own: q.own[t.Ref]}
		q.watches[t] = w
		if w.own == nil {
			q.begin(w)
		}
	}
	return w
}

// protect has an own entry watched.
func (q *Queue) protect(en *Entry) {
	if en.guard == nil {
		en.guard = q.on(en.Target())
		q.begin(en.guard)
	}
}

// begin has the service report what happens to the target of a watch.
func (q *Queue) begin(w *watch) {
	w.cancel = q.out.Watch(w.target, func(ev driver.Event) { q.event(w, ev) })
}

// follow makes an entry wait for exactly these watches.
func (q *Queue) follow(en *Entry, on []*watch) {
	old := en.on
	en.on = on
	for _, w := range on {
		if slices.Contains(w.by, en) {
			continue
		}
		w.by = append(w.by, en)
		if w.armed && w.target.Kind != driver.OfEntry {
			q.want(en) // others have read what its events showed, and this one has not
		}
	}
	for _, w := range old {
		if slices.Contains(on, w) {
			continue
		}
		w.by = without(w.by, en)
		if len(w.by) == 0 && (w.own == nil || w.cancel == nil) { // one that protects an own entry stays
			delete(q.watches, w.target)
			w.stop()
		}
	}
}
