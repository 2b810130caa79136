package sim

import (
	"slices"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

// queue is a queue as the service has it.
type queue struct {
	name    string
	recipe  *recipe
	alive   []*entry
	all     []*entry // as they joined, also those that are gone
	byRef   map[driver.Ref]*entry
	limits  []limitAt
	resizes []*resize // in the order of calls
	dirty   bool
	changed time.Duration // when an entry or a record of it changed last

	holds   []*hold // that were not released
	granted []*hold // all, in the order in which callers got them
	robust  bool    // it has a ledger
	reborn  bool    // the service has lost data before
	delay   time.Duration
}

// resize is a call that gives a queue another limit.
type resize struct {
	limit    int64
	called   time.Duration
	returned time.Duration // 0: not yet
	done     bool          // the call returned nil
}

// limitAt is a limit, and the time from which on the service has it.
type limitAt struct {
	at    time.Duration
	limit int64
}

// entry is an entry of a queue.
type entry struct {
	driver.Entry
	made   time.Duration // when it joined
	since  time.Duration // when the rule first let it hold; -1: not yet
	open   time.Duration // since when it does; -1: it does not
	gone   bool
	goneAt time.Duration
	how    fault.Op // the request that deleted it; "" if its owner sent none
	sudden bool     // it went before its client had time to act on the answer to the join
	early  bool     // it went before its client had the answer to the join
	hold   *hold    // if a caller got it

	// brief reports that its owner may hold until the next event of the entry, because an
	// operator deleted it, or ended its session, and either the events of different
	// entries come in any order, or the entry before it is of the same session, which does
	// not know of it: the join was not answered. A clock beyond the margin can do the same,
	// where the entry before it is of the same session.
	brief bool
}

// addQueue adds a queue to the run.
func (w *simulation) addQueue(name string, r *recipe) *queue {
	q := &queue{name: name, recipe: r, byRef: make(map[driver.Ref]*entry)}
	w.queues = append(w.queues, q)
	return q
}

// observe compares the service with what it was before the last event.
func (w *simulation) observe() {
	if w.dirty {
		w.dirty = false
		for _, q := range w.queues {
			if q.dirty {
				q.dirty = false
				w.see(q)
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

// see compares a queue with what it was.
func (w *simulation) see(q *queue) {
	now := w.Now()
	limit := w.store.Limit(q.name)
	if n := len(q.limits); limit != 0 && (n == 0 || q.limits[n-1].limit != limit) {
		q.limits = append(q.limits, limitAt{now, limit})
		w.limited(q, limit)
	}
	q.changed = now
	was := q.alive
	q.alive = nil
	for _, e := range membackend.Engine(door.Key{}).Entries(w.store, q.name) {
		known := q.byRef[e.Ref]
		if known == nil {
			known = &entry{made: now, since: -1, open: -1}
			q.byRef[e.Ref] = known
			q.all = append(q.all, known)
		}
		known.Entry = e
		q.alive = append(q.alive, known)
	}
	var before *entry
	for _, e := range was {
		if slices.Contains(q.alive, e) {
			continue
		}
		e.gone, e.goneAt, e.how = true, now, w.op
		if c := w.owner[e.Session]; c != nil {
			e.early = !c.knows(e)
			e.sudden = e.early || c.given(e) < prompt
		}
		together := before != nil && before.Session == e.Session
		e.brief = w.op == byHand || w.cfg.SlowClock && together ||
			w.op == ended && (w.cfg.Service.Disorder != 0 || together && !w.owner[e.Session].knows(before))
		before = e
	}
	for i, e := range q.alive {
		switch holds := mayHold(q.alive[:i], e, limit); {
		case !holds:
			e.open = -1 // a limit was lowered
		case e.open < 0:
			e.open = now
			if e.since < 0 {
				e.since = now
			}
		}
	}
}

// mayHold is the rule, written in another way than the library's.
func mayHold(ahead []*entry, e *entry, limit int64) bool {
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
	return e.Mode == driver.Exclusive && !e.Marks.Has(driver.MarkShared)
}

// orphanSlots returns how many slots holds may still have whose entries were deleted by
// hand: the owner frees them when it learns of that, or they end with its session.
func (q *queue) orphanSlots(now time.Duration) (n int) {
	for _, e := range q.all {
		if e.gone && e.how == byHand && now-e.goneAt < 2*ttl {
			n++
		}
	}
	return n
}
