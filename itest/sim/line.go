package sim

import (
	"slices"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

// line is a line as the service has it.
type line struct {
	name    string
	recipe  *recipe
	alive   []*entry
	all     []*entry // in order of place, those that have gone too
	byPlace map[int64]*entry
	limits  []limitAt
	resizes []*resize // in the order of calls
	dirty   bool
	changed time.Duration // when something of it did last

	holds   []*hold // that were not given back
	granted []*hold // all, in the order in which callers got them
	robust  bool    // it keeps account of how holds end
	delay   time.Duration
}

// resize is a call that gives a line another limit.
type resize struct {
	limit    int64
	called   time.Duration
	returned time.Duration // 0: not yet
	done     bool          // it was told so
}

// limitAt is a limit from some time on.
type limitAt struct {
	at    time.Duration
	limit int64
}

// entry is one of a line's.
type entry struct {
	driver.Entry
	since  time.Duration // when the rule first admitted it; -1: not yet
	open   time.Duration // since when it does; -1: it does not
	gone   bool
	goneAt time.Duration
	how    fault.Op // the request that removed it; "" if it was none of its owner's
	hold   *hold    // if somebody got it

	// brief says that its owner may hold until the next event of the entry, because an
	// operator deleted it, or ended its session, and either the events of different
	// entries come in any order, or the entry before it is of the same session, which does
	// not know of it: the join was not answered. A clock beyond the margin can do the same,
	// where the entry before it is of the same session.
	brief bool
}

// addLine adds a line to the world.
func (w *world) addLine(name string, r *recipe) *line {
	ln := &line{name: name, recipe: r, byPlace: make(map[int64]*entry)}
	w.lines = append(w.lines, ln)
	return ln
}

// observe takes in what the last event has changed at the service.
func (w *world) observe() {
	if w.dirty {
		w.dirty = false
		for _, ln := range w.lines {
			if ln.dirty {
				ln.dirty = false
				w.see(ln)
			}
		}
	}
	w.op = ""
	if len(w.expired) > 0 {
		for _, id := range w.expired {
			w.log(nil, "expires", id)
			w.expiry(id)
		}
		w.expired = nil
	}
}

// see compares a line with what it was.
func (w *world) see(ln *line) {
	now := w.Now()
	limit := w.store.Limit(ln.name)
	if n := len(ln.limits); limit != 0 && (n == 0 || ln.limits[n-1].limit != limit) {
		ln.limits = append(ln.limits, limitAt{now, limit})
		w.limited(ln, limit)
	}
	ln.changed = now
	was := ln.alive
	ln.alive = nil
	for _, e := range membackend.Engine(door.Key{}).Entries(w.store, ln.name) {
		known := ln.byPlace[e.Place]
		if known == nil {
			known = &entry{since: -1, open: -1}
			ln.byPlace[e.Place] = known
			ln.all = append(ln.all, known)
		}
		known.Entry = e
		ln.alive = append(ln.alive, known)
	}
	var before *entry
	for _, e := range was {
		if slices.Contains(ln.alive, e) {
			continue
		}
		e.gone, e.goneAt, e.how = true, now, w.op
		together := before != nil && before.Session == e.Session
		e.brief = w.op == byHand || w.cfg.SlowClock && together ||
			w.op == ended && (w.cfg.Service.Disorder != 0 || together && !w.owner[e.Session].knows(before))
		before = e
	}
	for i, e := range ln.alive {
		switch admitted := admits(ln.alive[:i], e, limit); {
		case !admitted:
			e.open = -1 // a limit was lowered
		case e.open < 0:
			e.open = now
			if e.since < 0 {
				e.since = now
			}
		}
	}
}

// admits is the rule, told in another way than the library's.
func admits(ahead []*entry, e *entry, limit int64) bool {
	if e.excludes() {
		return len(ahead) == 0
	}
	taken := int64(0)
	for _, o := range ahead {
		if o.excludes() {
			return false
		}
		taken += o.Weight
	}
	return e.Mode != driver.Weighted || taken+e.Weight <= limit
}

// excludes reports whether an entry holds only if no other does.
func (e *entry) excludes() bool {
	return e.Foreign || e.Mode == driver.Exclusive && !e.Marks.Has(driver.MarkShared)
}

// ghosts is how many slots holds may still have whose entries were deleted by hand: the
// owner gives them back when it learns of that, or they end with its session.
func (ln *line) ghosts(now time.Duration) (n int) {
	for _, e := range ln.all {
		if e.gone && e.how == byHand && now-e.goneAt < 2*ttl {
			n++
		}
	}
	return n
}
