package queue

import (
	"slices"

	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// event takes in what a watch reports. One that was cancelled may do so once more.
func (q *queue) event(w *watch, ev driver.Event) {
	if q.watches.get(w.target) != w || w.cancel == nil {
		return
	}
	if planted(w, &ev) {
		return
	}
	switch {
	case ev.Kind == driver.Lost:
		w.armed = false
	case ev.Kind == driver.Gone && w.own != nil: // it was not asked to leave: leave stops this watch first
		q.loss(w.own)
	case ev.Kind == driver.Gone:
		how := byEvent
		if q.joins > 0 {
			// It may be our own, of a join that is not answered yet. Then the session may have
			// ended, and the waiter's entry with it, although no event has reported that.
			how = noProof
		}
		if i := q.pic.index(w.target.Ref); i >= 0 && mayBeReplaced(q.pic.es[i]) {
			q.replaced, how = max(q.replaced, w.target.Ref.Place), noProof
		}
		q.gone(w.target.Ref, ev.First, how)
	case w.target.Kind == driver.OfEntry:
		w.armed = true
		q.marked(w.target.Ref, ev.Marks, byEvent)
		switch own := w.own; {
		case own == nil:
		case own.turn:
			q.decide(own, byEvent)
		case own.state == held: // of several locks, this may be the last watch that complete waits for
			own.g.complete(nil)
		}
	default: // what was before Armed is not reported, so it is read when all are armed
		w.armed = true
		for _, en := range w.by {
			if ev.Kind == driver.Changed || !slices.ContainsFunc(en.on, (*watch).gap) {
				q.want(en)
			}
		}
	}
}

// mayBeReplaced reports whether an entry that is gone may have another one in its place, of
// which no event comes: some programs make a reader of a writer by two entries with one number.
func mayBeReplaced(e *driver.Entry) bool {
	if failpoint.On(failpoint.WriterReplaced) {
		return false
	}
	return e.Foreign && !e.Shares()
}

// left takes in the answer to the Leave of an own entry. events is the queue's eventCount
// before the Leave was sent.
func (q *queue) left(en *entry, l driver.Left, events uint64) {
	how := noProof
	q.out.doubts().answered(en, l == driver.Deleted)
	if failpoint.On(failpoint.UnclearGrants) && l == driver.Unclear {
		l = driver.Deleted
	}
	switch {
	case l == driver.Deleted:
		how = q.acknowledged(events)
	case !en.lost: // the session may have ended; for one that was lost, loss has raised the doubt
		q.out.doubt()
	}
	q.end(en, how)
}

// acknowledged returns what the answer to a change by this session proves. events is the
// eventCount before the request was sent. If no event has come since, the change is later
// than every end that is known. The session existed at that moment, and with it the other
// own entries.
func (q *queue) acknowledged(events uint64) proof {
	if q.eventCount == events {
		return byLeave
	}
	return byEvent
}

// vanish takes in that an own entry is gone, by any client. If it was asked to leave,
// the answer to that is still to come.
func (q *queue) vanish(en *entry) {
	if en.leaving {
		q.out.doubts().suspect(en)
		return
	}
	q.loss(en)
}

// loss takes in that an own entry is gone that was not asked to leave: the hold ends, or
// the place is lost.
func (q *queue) loss(en *entry) {
	if failpoint.On(failpoint.NoRecheck) && en.state == waiting {
		return
	}
	en.lost = true
	q.out.lost(en)
	q.end(en, byEvent)
	en.g.lose()
}

// end takes in that an own entry is gone.
func (q *queue) end(en *entry, how proof) {
	if en.state == over {
		return
	}
	en.state = over
	q.follow(en, nil)
	q.own.remove(en.Ref)
	q.gone(en.Ref, en.first, how)
}

// gone takes in that an entry is gone, and whether at some time none was ahead of it.
func (q *queue) gone(ref driver.Ref, first bool, how proof) {
	q.note(ref, change{true, how})
	if first && ref.Place > q.replaced { // then nothing with that number was there
		q.replaced = 0
	}
	if i := q.pic.index(ref); i >= 0 {
		if first {
			// None was ahead of it: what the picture has there is gone, and no event has come yet.
			ahead := slices.Clone(q.pic.es[:i])
			q.pic.cut(i)
			for _, e := range ahead {
				q.note(e.Ref, change{true, how})
				if en := q.own.get(e.Ref); en != nil {
					q.vanish(en)
				}
			}
			i = 0
		}
		q.pic.remove(i)
	}
	w := q.watches.get(ref.Target())
	if w == nil {
		return
	}
	q.watches.remove(w.target)
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

// marked takes in that an entry has these marks. Those that wait for it may not know what
// the picture knows from a view that did not reach them.
func (q *queue) marked(ref driver.Ref, m driver.Marks, how proof) {
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
func (q *queue) note(ref driver.Ref, c change) {
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
