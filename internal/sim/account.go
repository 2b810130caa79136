package sim

import "time"

// account checks what a new holder is told of the one before it.
func (w *world) account(hd *hold, ln *line) {
	if !ln.robust {
		return
	}
	mine := hd.h.Refs()[0].Place
	died := hd.h.PreviousDied()
	doubt := false // somebody died who may have looked like a holder
	for i := len(ln.all) - 1; i >= 0; i-- {
		e := ln.all[i]
		if e.Place >= mine || e.Foreign || !e.gone {
			continue
		}
		switch left := e.how == "leave" || e.how == "settle"; {
		case e.hold != nil && !left:
			if !died {
				w.fail("S5", "%s was not told that the holder of %s before it, %s, had died", hd.k.name, ln.name, e.hold.k.name)
			}
			if w.Now()-ln.byPlace[mine].since < ln.delay*9/10 {
				w.fail("S5", "%s did not wait on %s for %s", hd.k.name, ln.name, ln.delay)
			}
			return
		case e.hold != nil && e.hold.given:
			if died && !doubt {
				w.fail("S5", "%s was told that the holder of %s before it, %s, had died, who gave back", hd.k.name, ln.name, e.hold.k.name)
			}
			return
		case !left:
			doubt = true
		}
	}
	if died && !doubt {
		w.fail("S5", "%s was told that a holder of %s had died before it", hd.k.name, ln.name)
	}
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
