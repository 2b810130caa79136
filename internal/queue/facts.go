package queue

import (
	"math"
	"slices"

	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// proof is what a fact proves of own entries that it concerns: that they existed at the moment
// at which the fact was true. The order counts: of several facts the weakest proof is the least.
type proof uint8

const (
	noProof proof = iota
	byEvent       // nothing by itself; but an armed watch on the entry is silent
	byLeave       // the session lived: the fact is a change by it that was acknowledged
	byView        // the entry lived: the answer shows it
)

// joined takes in an own entry, and decides about it. doubts is Term.Doubts before the join was
// sent.
//
// The view of a join is of a moment at which the entry lived. What it proves is:
//
//	it lacks entries that are ahead, or what is known of the limit is newer  noProof
//	it lacks a mark that is known: more is known, perhaps of a later moment  byEvent
//	else                                                                     byView
func (q *Queue) joined(en *Entry, j driver.Joined, doubts uint64) {
	q.joins--
	en.need, en.count = rule.Nearest, j.View.Count
	if en.count > 0 {
		en.Waited = en.count
		en.group.owner.Waits(en.n)
	}
	en.whole = j.View.Complete || en.count == 0
	how := noProof
	if en.whole {
		how = byView
	}
	if en.Limited {
		hasLimit, newest := q.learnLimit(j.View)
		en.limited = hasLimit || foundLimit(j.Ops)
		if !newest {
			how = noProof
		}
	}
	unknownHolder := false // it may have ended meanwhile
	for _, e := range j.View.Entries {
		i := q.pic.index(e.Ref)
		switch {
		case i < 0:
			unknownHolder = unknownHolder || e.Marks.Has(driver.MarkAdmitted)
		case !e.Marks.Has(q.pic.es[i].Marks):
			how = byEvent
		}
	}
	q.writers.see(j.View.Entries)
	view := append(slices.Clip(j.View.Entries), j.Entry)
	lo, hi, doubts, _ := q.splice(view, en.whole, j.Entry.Place, doubts)
	en.Entry, en.shown = q.pic.es[hi-1], doubts
	en.Token = j.Entry.Token // a read may have shown the entry before, without it
	q.own[en.Ref] = en
	if lo > 2*(j.View.Count+len(q.own)) { // most of those are gone, and no event has reported it
		q.pic.forget(lo, q.knows)
	}
	w := q.watches[en.Target()]
	if w != nil { // the entry was taken for another session's
		w.own, en.guard = en, w
	}
	q.decide(en, how)
	if unknownHolder {
		for _, e := range q.pic.es {
			other := q.own[e.Ref]
			if other != nil && other != en {
				q.want(other) // the watch on the holders reports no end twice
			}
		}
	}
}

// foundLimit reports whether a join has found a limit, or made one. It asked for that first. Its
// view can be of a later moment.
func foundLimit(results []driver.Result) bool {
	return len(results) > 0 && (results[0].Done || results[0].Record.Version != 0)
}

// Learned takes in the answer to a read, and decides about our entries that it shows. It
// proves of each that the entry lived at that moment. The view may be older than what is known:
// it may show an entry that has ended or changed since, or not reach one that has. So what it
// proves of an entry is:
//
//	another program's writer was seen ahead, and the view is not of all           noProof
//	it is behind an entry that has changed since, by an event                     the weakest of those
//	permits: behind any entry that has changed, or a newer limit is known         byEvent
//	else                                                                          byView
//
// Permits are in the third line because the limit can have fallen between the two moments.
func (q *Queue) Learned(r *Read, v driver.View) {
	since := changesSince(q.news, v)
	if v.Complete && since.events == math.MaxInt64 && r.Upto >= q.writers.upto {
		q.writers = foreignWriters{}
	}
	q.writers.see(v.Entries)
	view := slices.DeleteFunc(v.Entries, func(e driver.Entry) bool { return q.news[e.Ref].ended }) // an old view does not bring it back
	lo, hi, doubts, ended := q.splice(view, v.Complete, r.Upto, r.doubts)
	if ended && !slices.ContainsFunc(q.pic.es[lo:hi], q.isOwn) {
		q.term.doubts.raise() // nothing shows that the session existed when these had ended
	}
	hasLimit, newest := q.learnLimit(v)
	from := q.pic.from(lo)
	for i := lo; i < hi; i++ {
		if q.pic.gaps[i] {
			from = i
		}
		en := q.own[q.pic.es[i].Ref]
		if en == nil {
			continue
		}
		en.shown, en.whole = max(en.shown, doubts), v.Complete
		if en.Limited && len(r.Records) > 0 && !hasLimit && en.state == waiting {
			q.refuseUnlimited(en)
		}
		en.limited = en.limited || hasLimit
		how := since.proves(en)
		switch {
		case q.writers.ahead(en) && !v.Complete:
			how = noProof
		case en.Limited && !newest:
			how = min(how, byEvent)
		}
		q.judge(en, q.pic.es[from:i], !q.pic.gaps[from], how)
	}
	if r.check != nil && (ended || r.check.state == held) { // events may be missing, see Recheck
		for _, en := range q.own {
			q.want(en)
		}
	}
}

// splice takes a view into the picture. doubts is how many there were before the view was
// asked for. If the view lacks an own entry, all that it shows lived when that one was gone, so
// the doubt that this raises is resolved for them. ended reports whether something that was
// known is gone.
func (q *Queue) splice(view []driver.Entry, complete bool, upto int64, doubts uint64) (lo, hi int, _ uint64, ended bool) {
	lo, hi, gone := q.pic.splice(view, complete, upto)
	for _, e := range gone {
		en := q.own[e.Ref]
		if en == nil {
			continue
		}
		if doubts == q.term.doubts.n {
			doubts++
		}
		q.vanish(en)
	}
	return lo, hi, doubts, len(gone) > 0
}

// learnLimit takes in the limit, and reports whether a view shows it, and whether no newer
// one is known: answers overtake each other.
func (q *Queue) learnLimit(v driver.View) (ok, newest bool) {
	r, ok := v.Records[rule.RecordLimit]
	newest = r.Token >= q.limit.Token
	if ok && newest {
		q.limit = r
	}
	return ok, newest
}

// event takes in what a watch reports:
//
//	Lost                           nothing is reported until Armed
//	Gone, of an own entry          the entry is lost: it was not asked to leave, which stops the watch
//	Gone, of another entry         it is gone
//	Armed or Changed, of an entry  its marks; an own one lives, and may hold by that
//	Armed or Changed, of others    those that wait for it read, when all that they wait for is armed
//
// A watch that was cancelled may report once more, which is ignored.
func (q *Queue) event(w *watch, ev driver.Event) {
	if q.watches[w.target] != w || w.cancel == nil {
		return
	}
	q.term.firsts = q.term.firsts || ev.First
	switch {
	case ev.Kind == driver.Lost:
		w.armed = false
	case ev.Kind == driver.Gone && w.own != nil:
		q.loss(w.own)
	case ev.Kind == driver.Gone && q.joins > 0:
		// The entry may be our own, of a join that is not answered yet. Then the session may have
		// ended, and the waiter's entry with it, although no event has reported that.
		q.gone(w.target.Ref, ev.First, noProof)
	case ev.Kind == driver.Gone:
		q.gone(w.target.Ref, ev.First, byEvent)
	case w.target.Kind == driver.OfEntry:
		w.armed = true
		q.marked(w.target.Ref, ev.Marks, byEvent)
		if w.own != nil {
			q.alive(w.own)
		}
	default: // what was before Armed is not reported
		w.armed = true
		for _, en := range w.by {
			if ev.Kind == driver.Changed || !slices.ContainsFunc(en.on, (*watch).gap) {
				q.want(en)
			}
		}
	}
}

// alive takes in that the watch on an own entry is armed.
func (q *Queue) alive(en *Entry) {
	switch {
	case en.turn:
		q.decide(en, byEvent)
	case en.state == held: // of several locks, this may be the last watch that complete waits for
		en.group.complete(nil)
	}
}

// Left takes in the answer to the Leave of an own entry. events is EventCount before the Leave was
// sent.
func (q *Queue) Left(en *Entry, l driver.Left, events uint64) {
	how := noProof
	q.term.doubts.answered(en, l == driver.Deleted)
	switch {
	case l == driver.Deleted:
		how = q.acknowledged(events)
	case !en.lost: // the session may have ended; for one that was lost, loss has raised the doubt
		q.doubt()
	}
	q.end(en, how)
}

// Marked takes in the answer to an Update that has added marks to an own entry. events is
// EventCount before the Update was sent.
func (q *Queue) Marked(en *Entry, m driver.Marks, events uint64) {
	q.marked(en.Ref, m, q.acknowledged(events))
}

// Missing takes in that an Update has not found an own entry.
func (q *Queue) Missing(en *Entry) {
	if !en.leaving && en.state != over {
		q.loss(en)
	}
}

// acknowledged returns what the answer to a change by this session proves. events is the
// eventCount before the request was sent. If no event has come since, the change is later
// than every end that is known. The session existed at that moment, and with it the other
// own entries.
func (q *Queue) acknowledged(events uint64) proof {
	if q.eventCount == events {
		return byLeave
	}
	return byEvent
}

// vanish takes in that an own entry is gone, by any client. If it was asked to leave,
// the answer to that is still to come.
func (q *Queue) vanish(en *Entry) {
	if en.leaving {
		q.term.doubts.suspect(en)
		return
	}
	q.loss(en)
}

// loss takes in that an own entry is gone that was not asked to leave: the hold ends, or
// the place is lost.
func (q *Queue) loss(en *Entry) {
	en.lost = true
	en.group.lose()
	q.doubt()
	q.end(en, byEvent)
}

// doubt raises a doubt, which a renewal may resolve.
func (q *Queue) doubt() {
	q.term.doubts.raise()
	q.out.Renew()
}

// end takes in that an own entry is gone.
func (q *Queue) end(en *Entry, how proof) {
	if en.state == over {
		return
	}
	en.state = over
	q.follow(en, nil)
	delete(q.own, en.Ref)
	q.gone(en.Ref, en.first, how)
}

// gone takes in that an entry is gone, and whether at some time none was ahead of it.
func (q *Queue) gone(ref driver.Ref, first bool, how proof) {
	q.note(ref, change{true, how})
	i := q.pic.index(ref)
	if i >= 0 {
		if first {
			q.cut(i, how)
			i = 0
		}
		q.pic.remove(i)
	}
	w := q.watches[ref.Target()]
	if w == nil {
		return
	}
	delete(q.watches, w.target)
	w.stop()
	// All let go of w before one is decided. A grant has others decided, and one that still
	// followed w would take itself out of w.by during the second loop.
	for _, en := range w.by {
		en.on = without(en.on, w)
	}
	for _, en := range w.by {
		q.decide(en, how)
	}
}

// cut takes in that nothing is ahead of an entry of the picture: what the picture has there is
// gone, and no event has come yet.
func (q *Queue) cut(i int, how proof) {
	ahead := slices.Clone(q.pic.es[:i])
	q.pic.cut(i)
	for _, e := range ahead {
		q.note(e.Ref, change{true, how})
		en := q.own[e.Ref]
		if en != nil {
			q.vanish(en)
		}
	}
}

// marked takes in that an entry has these marks. Those that wait for it may not know what
// the picture knows from a view that did not reach them.
func (q *Queue) marked(ref driver.Ref, m driver.Marks, how proof) {
	i := q.pic.index(ref)
	if i < 0 || m == 0 {
		return
	}
	if !q.pic.es[i].Marks.Has(m) {
		q.pic.es[i].Marks |= m
		q.note(ref, change{false, how})
	}
	q.stir(ref, how)
}

// note records a change of an entry.
func (q *Queue) note(ref driver.Ref, c change) {
	if c.how != byLeave {
		q.eventCount++
	}
	if !q.reading {
		return
	}
	if before, ok := q.news[ref]; ok {
		c.how, c.ended = min(c.how, before.how), c.ended || before.ended
	}
	if q.news == nil {
		q.news = make(map[driver.Ref]change)
	}
	q.news[ref] = c
}
