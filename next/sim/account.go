package sim

import (
	"slices"
	"time"

	"github.com/fairlock/fairlock/fault"
)

// account checks what a new holder is told of those before it.
func (w *world) account(hd *hold) {
	must, may := false, false
	delay, since := time.Duration(0), time.Duration(0)
	for i, ln := range hd.lines {
		if !ln.robust {
			return
		}
		e := hd.entries[i]
		died, perhaps := ln.past(e.Place)
		must, may = must || died, may || died || perhaps
		delay, since = max(delay, ln.delay), max(since, e.since)
	}
	switch died := hd.h.PreviousDied(); {
	case must && !died:
		w.fail("S5", "%s was not told that a holder of %s before it had died", hd.k.name, hd.name)
	case died && !may:
		w.fail("S5", "%s was told that a holder of %s before it had died, and none had", hd.k.name, hd.name)
	case must && w.Now()-since < delay*9/10:
		w.fail("S5", "%s did not wait on %s for %s", hd.k.name, hd.name, delay)
	}
}

// past says whether the holder of a line before a place died, or perhaps. Who
// died while waiting may have looked like a holder.
func (ln *line) past(place int64) (died, perhaps bool) {
	for _, e := range slices.Backward(ln.all) {
		switch left := e.how == fault.Leave || e.how == fault.Settle; {
		case e.Place >= place || e.Foreign || !e.gone:
		case e.hold != nil && !left:
			return true, true
		case e.hold != nil && e.hold.fell():
			return false, true // it was lost in another line
		case e.hold != nil:
			return false, perhaps
		case !left:
			perhaps = true
		}
	}
	return false, perhaps
}

// fell says that an entry of a hold went by no doing of its owner.
func (hd *hold) fell() bool {
	return slices.ContainsFunc(hd.entries, func(e *entry) bool { return e.gone && e.how != fault.Leave })
}

// tidy checks that nothing is left.
func (w *world) tidy() {
	for _, ln := range w.lines {
		for _, e := range ln.alive {
			w.fail("S5", "%s is left in %s, of %s", e.Key, ln.name, w.owner[e.Session].label())
		}
	}
	for _, o := range w.watched {
		o.check()
	}
}

func (c *client) label() string {
	if c == nil {
		return "nobody"
	}
	return c.name
}

// limited checks that a limit is one that somebody asked for, and that no call
// has set it that was over before a later one began which was told that it is
// done.
func (w *world) limited(ln *line, limit int64) {
	newest := time.Duration(-1) // when the newest call began that is done
	for _, r := range ln.resizes {
		if r.done {
			newest = max(newest, r.called)
		}
	}
	for _, r := range ln.resizes {
		if r.limit == limit && (r.returned == 0 || r.returned > newest) {
			return
		}
	}
	w.fail("S5", "%s has limit %d, which an older call had set, or none", ln.name, limit)
}
