package queue

import (
	"fmt"
	"slices"

	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/session/driver"
)

// decide applies the rule to an own entry. how is what the newest fact proves that the
// decision goes by.
func (q *queue) decide(en *entry, how proof) {
	if i := q.pic.index(en.Ref); i >= 0 {
		es, complete := q.pic.ahead(i)
		q.judge(en, es, complete, how)
	}
}

// stir has those entries decided that wait for ref.
func (q *queue) stir(ref driver.Ref, how proof) {
	if w := q.watches.get(ref.Target()); w != nil {
		for _, en := range slices.Clone(w.by) {
			q.decide(en, how)
		}
	}
}

// judge is decide with what is known ahead of the entry.
func (q *queue) judge(en *entry, es []*driver.Entry, complete bool, how proof) {
	if en.state != waiting || en.leaving {
		return
	}
	n, moved := len(es), false
	en.foreign = en.foreign || n > 0 && es[n-1].Foreign
	if complete && (q.replaced == 0 || how == byView) { // else an unknown entry may be ahead
		en.first = en.first || n == 0
		moved = en.count != n
		en.count = n
	}
	if failpoint.On(failpoint.ReaderPasses) && en.Mode == driver.Shared && complete && n > 0 && es[0].Shares() {
		es = nil
	}
	limit, err := q.limitFor(en)
	if err != nil {
		q.refuse(en, err)
		return
	}
	v := en.rule.Decide(rule.Ahead{Entries: es, Complete: complete, Count: en.count, Limit: limit}, en.Entry)
	if moved && !v.Hold { // a grant is reported by itself
		en.g.hooks.Position(en.g.turn, en.n, n)
	}
	en.turn, en.need = false, max(v.More, rule.Nearest)
	if v.Hold && n > 0 && q.replaced != 0 || en.rule.Limited && (v.Hold || v.Front && v.More == 0) {
		en.need = 0 // only a view of all that are ahead grants it: see proves
	}
	switch {
	case v.Never:
		q.refuse(en, errWeight(en.Weight, limit))
	case v.Hold && q.proves(en, how):
		q.grant(en)
	case v.Hold && (en.rule.Limited || q.replaced != 0 || how == noProof || en.shown < q.out.doubts().open()), v.More > 0:
		// No watch on the entry would prove it, see proves; or the rule has to see more entries.
		q.want(en)
	case v.Hold:
		en.turn = true
		q.protect(en) // Armed grants it, and Gone ends it; nothing is read
	default:
		q.wait(en, v, es, complete, how)
	}
}

// limitFor returns the limit by which an entry is judged, 0 if it is not one of a
// semaphore's, or if no limit is known yet.
func (q *queue) limitFor(en *entry) (int64, error) {
	if !en.rule.Limited {
		return 0, nil
	}
	return rule.LimitOf(q.name, q.limit)
}

// errWeight is the error of a request for more permits than there are.
func errWeight(weight, limit int64) error {
	return fmt.Errorf("%w: %d, the limit is %d", session.ErrWeight, max(weight, 1), limit)
}

// proves reports whether an entry that may hold by what is known ahead of it is known to
// have lived at that moment. Nothing else has to be guarded against before a grant.
//
// While the session is in doubt, only a read that began after that has shown the entry
// proves it. Where a limit decides, which can fall, only a view of queue and limit does,
// and never what an event adds to an older one. Where an unknown entry may have replaced a
// known one, only a view of all that are ahead does.
func (q *queue) proves(en *entry, how proof) bool {
	if failpoint.On(failpoint.NoRecheck) {
		return true
	}
	doubted := en.shown < q.out.doubts().open()
	if failpoint.On(failpoint.GrantInDoubt) {
		doubted = false
	}
	if doubted {
		return false
	}
	if failpoint.On(failpoint.PermitByEvent) && how == byEvent {
		return true
	}
	armed := en.guard != nil && en.guard.armed
	return how == byView || !en.rule.Limited && q.replaced == 0 && (how == byLeave || how == byEvent && armed)
}

// grant lets an entry hold.
func (q *queue) grant(en *entry) {
	en.state = held
	en.g.holds(en)
	if en.rule.Limited { // it will mark itself; the one behind it may be the front now
		en.Marks |= driver.MarkAdmitted
		q.stir(en.Ref, byEvent)
	}
	q.follow(en, nil) // last: the one behind it takes over the watches of the front
}

// refuse lets the caller of an entry go with an error. The entry is there until the
// caller has had it leave.
func (q *queue) refuse(en *entry, err error) {
	if !en.leaving {
		en.leaving = true
		q.follow(en, nil)
		en.g.refuse(err)
	}
}

// wait makes an entry wait for what the verdict names, and for nothing else.
//
// The entry holds without a read if its own watch is armed and what it waits for ends, and if
// that was all that was ahead or the service reports that it was first. One that joined behind
// two watches both, so that it knows, and the release of the nearer one need not show it. Behind
// more, the watches would cost more than they save: without that report it reads at the hand-off,
// and that read shows its own entry too.
func (q *queue) wait(en *entry, v rule.Verdict, es []*driver.Entry, complete bool, how proof) {
	var by []*driver.Entry // watches each of them
	unknown, unleased := false, false
	for _, e := range v.Wait {
		own := q.own.get(e.Ref) != nil
		if v.Front && e.Marks.Has(driver.MarkAdmitted) && !own { // the watch on the holders shows its end
			continue
		}
		unknown, unleased = unknown || !q.knows(e), unleased || e.Unleased
		if by, en.blocker = append(by, e), e; e.Unleased && en.whole {
			q.refuse(en, fmt.Errorf("%w: %q is ahead and stays until an operator deletes it", session.ErrForeignKey, e.Key))
			return
		}
	}
	switch {
	case en.try && en.whole:
		q.refuse(en, errMustWait)
		return
	case en.try, unleased: // what is known to be ahead may have ended long ago, unwatched
		en.need = 0
		q.want(en)
		return
	}
	// An unknown entry may have ended long ago. Permits that are released fast let in many,
	// which the new front knows from its join only: it reads before it watches any of them.
	moved := how == byEvent || how == byLeave
	if moved && unknown {
		q.want(en)
		return
	}
	on := make([]*watch, 0, len(by)+2)
	for _, e := range by {
		on = append(on, q.on(e.Target()))
	}
	if v.Front {
		on = append(on, q.on(q.holders()))
		on = append(on, q.on(driver.Target{Kind: driver.OfRecord, Queue: q.name, Record: rule.RecordLimit}))
	}
	near := v.Next || complete && len(es) <= 2 && !en.rule.Limited
	if near && v.Soon != nil && (en.waited <= 2 || !q.out.firsts()) {
		on = append(on, q.on(v.Soon.Target()))
	}
	q.follow(en, on)
	if near || !en.rule.Limited && q.out.firsts() {
		q.protect(en)
	}
	if q.pic.described {
		q.describe(en)
	}
}

// knows reports whether the end of an entry would be known here.
func (q *queue) knows(e *driver.Entry) bool { return q.isOwn(e) || q.watches.get(e.Target()) != nil }

// describe has the description read of the entry that another one waits for, unless it is
// known: once, because some entries have none. The front of a semaphore's waiters waits for
// no single entry.
func (q *queue) describe(en *entry) {
	b := en.blocker
	if b == nil {
		return
	}
	if known := b.Data != nil && (!b.Valued || b.Detail != nil); !known && !b.Foreign && en.asked != b.Ref {
		en.asked = b.Ref
		q.want(en)
	}
}

// holders is what shows the end of any holder of a permit.
func (q *queue) holders() driver.Target { return driver.Target{Kind: driver.OfHolders, Queue: q.name} }

// want has the queue read for an entry.
func (q *queue) want(en *entry) {
	if !en.wants && en.state == waiting && !en.leaving {
		en.wants = true
		q.wanted = append(q.wanted, en)
		q.out.read(q)
	}
}

// watch is on something that own entries wait for, or on an own entry, or on both. The
// service is not asked for the end of an own entry as long as that is not protected: the
// answer to its Leave comes here.
type watch struct {
	q      *queue
	target driver.Target
	by     []*entry // those that wait for it
	own    *entry   // whose entry it is, if it is one of ours
	cancel func()   // nil: the service is not asked
	armed  bool
}

// on returns the watch on a target, which exists from now on.
func (q *queue) on(t driver.Target) *watch {
	w := q.watches.get(t)
	if w == nil {
		w = &watch{q: q, target: t, own: q.own.get(t.Ref)}
		q.watches.put(t, w)
		if w.own == nil {
			q.out.watch(w)
		}
	}
	return w
}

// protect has an own entry watched.
func (q *queue) protect(en *entry) {
	if en.guard == nil {
		en.guard = q.on(en.Target())
		q.out.watch(en.guard)
	}
}

// follow makes an entry wait for exactly these watches.
func (q *queue) follow(en *entry, on []*watch) {
	old := en.on
	en.on = on
	for _, w := range on {
		if slices.Contains(w.by, en) {
			continue
		}
		w.by = append(w.by, en)
		if w.armed && w.target.Kind != driver.OfEntry {
			q.want(en) // others had its events, but this one has not read since
		}
	}
	for _, w := range old {
		if slices.Contains(on, w) {
			continue
		}
		w.by = without(w.by, en)
		if len(w.by) == 0 && (w.own == nil || w.cancel == nil) { // one that protects an own entry stays
			q.watches.remove(w.target)
			w.stop()
		}
	}
}

// gap reports whether something may have happened unseen before the watch is armed. Of an
// entry, Armed or Gone will show it.
func (w *watch) gap() bool { return !w.armed && w.target.Kind != driver.OfEntry }

// stop ends what the service was asked for.
func (w *watch) stop() {
	if w.cancel != nil {
		w.cancel()
		w.cancel, w.armed = nil, false
	}
}

// without returns a slice without one element, in its place.
func without[T comparable](all []T, one T) []T {
	return slices.DeleteFunc(all, func(o T) bool { return o == one })
}
