package sim

import (
	"slices"
	"time"

	"github.com/fairlock/fairlock/fault"
)

// checkLedger checks what a new hold reports about the holds before it.
func (w *simulation) checkLedger(hd *hold) {
	if hd.plain {
		return
	}
	must, may := false, false
	delay, since := time.Duration(0), time.Duration(0)
	for i, q := range hd.queues {
		if !q.robust {
			return
		}
		e := hd.entries[i]
		died, perhaps := w.past(q, e.Place)
		must, may = must || died, may || died || perhaps
		delay, since = max(delay, q.delay), max(since, e.since)
	}
	switch died := hd.h.PreviousDied(); {
	case must && !died:
		w.fail("S5", "the hold of %s does not report that a holder of %s before it had died", hd.k.name, hd.name)
	case died && !may:
		w.fail("S5", "the hold of %s reports that a holder of %s before it had died, and none had", hd.k.name, hd.name)
	case must && w.Now()-since < delay*9/10:
		w.fail("S5", "%s did not wait on %s for %s", hd.k.name, hd.name, delay)
	}
}

// past reports whether the holder before a place in a queue died, or may have died. Holders
// without a ledger change nothing in it. Before the first one of a new life one may have died that nothing
// shows any more, and that is reported.
func (w *simulation) past(q *queue, place int64) (died, perhaps bool) {
	for _, e := range slices.Backward(q.all) {
		switch left := e.how == fault.Leave || e.how == fault.Settle; {
		case e.Place >= place || e.Foreign || !e.gone || e.hold != nil && e.hold.plain:
		case e.hold != nil && !left:
			return true, true
		case e.hold != nil && e.hold.lostEntry():
			return false, true // it was lost in another queue
		case e.hold != nil:
			return false, perhaps
		case !left, w.torn(e):
			perhaps = perhaps || w.mayHaveHeld(e)
		}
	}
	return q.reborn, perhaps
}

// mayHaveHeld reports whether a request whose caller got no hold may count as a holder: the
// rule let its entries hold, so it may have entered its name before it died. A request for one
// lock counts also until it has learned that it must wait, and has taken its name back. One for
// several locks counts also if it did not know that an operator had deleted the entries that had to
// wait: it enters its name in one queue after the other.
func (w *simulation) mayHaveHeld(e *entry) bool {
	all, held, first := 0, 0, false
	for _, q := range w.queues {
		for _, o := range q.all {
			if o.Token == e.Token && !o.Foreign { // made by the same transaction
				all++
				first = first || o.since >= 0
				if o.since >= 0 || o.how == byHand {
					held++
				}
			}
		}
	}
	return first && held == all || all == 1 && e.sudden
}

// torn reports whether an operator has deleted another entry of a request for several locks. While its
// name is on the way to one ledger, it may learn of that: then it cannot ask any more whether the name is
// there, and leaves it, as if a holder had died.
func (w *simulation) torn(e *entry) bool {
	return slices.ContainsFunc(w.queues, func(q *queue) bool {
		return slices.ContainsFunc(q.all, func(o *entry) bool { return o != e && o.Token == e.Token && !o.Foreign && o.how == byHand })
	})
}

// lostEntry reports whether an entry of the hold ended otherwise than by its owner.
func (hd *hold) lostEntry() bool {
	return slices.ContainsFunc(hd.entries, func(e *entry) bool { return e.gone && e.how != fault.Leave })
}

// tidy checks that no queue has an entry left.
func (w *simulation) tidy() {
	for _, q := range w.queues {
		for _, e := range q.alive {
			w.fail("S5", "%s is left in %s, of %s", e.Key, q.name, w.owner[e.Session].label())
		}
	}
	for _, o := range w.watched {
		o.check()
	}
}

func (c *client) label() string {
	if c == nil {
		return "no client"
	}
	return c.name
}

// limited checks that a call has set the limit, and that this call had not returned before
// a later call began that was done.
func (w *simulation) limited(q *queue, limit int64) {
	newest := time.Duration(-1) // when the newest call began that is done
	for _, r := range q.resizes {
		if r.done {
			newest = max(newest, r.called)
		}
	}
	for _, r := range q.resizes {
		if r.limit == limit && (r.returned == 0 || r.returned > newest) {
			return
		}
	}
	w.fail("S5", "%s has limit %d, which an older call had set, or none", q.name, limit)
}
