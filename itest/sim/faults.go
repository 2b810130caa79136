package sim

import (
	"slices"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

// plan draws the faults that come at random times.
func (w *simulation) plan() {
	for range w.severity * 2 {
		at := w.in(0, w.faultTime)
		w.push(&event{what: atFault, due: at, run: func() {
			if !w.healed {
				w.injectFault()
			}
		}})
	}
}

// length draws how long a fault lasts: mostly less than a session lives without
// contact, sometimes more.
func (w *simulation) length() time.Duration {
	switch n := w.random.IntN(20); {
	case n < 9:
		return w.in(5*time.Millisecond, 300*time.Millisecond)
	case n < 16:
		return w.in(300*time.Millisecond, ttl)
	}
	return w.in(ttl, 5*ttl/2)
}

// injectFault draws a fault and its client, often the owner of the first entry in a
// queue, or of the one behind it.
func (w *simulation) injectFault() {
	c := w.clients[w.random.IntN(len(w.clients))]
	q := w.queues[w.random.IntN(len(w.queues))]
	if n := len(q.alive); n > 0 && !w.chance(3) {
		if o := w.owner[q.alive[w.random.IntN(min(n, 2))].Session]; o != nil {
			c = o
		}
	}
	switch w.random.IntN(12) {
	case 0, 1, 2:
		w.pause(c, w.length())
	case 3, 4:
		w.cut(c, fault.Both, w.length())
	case 5:
		w.cut(c, fault.Requests, w.length())
	case 6:
		w.cut(c, fault.Replies, w.length())
	case 7:
		if n := len(q.alive); n > 0 {
			w.expire(q.alive[w.random.IntN(n)].Session)
		}
	case 8, 9:
		if q.recipe.name == "semaphore" && w.chance(2) {
			w.deleteLimit(q)
		} else if n := len(q.alive); n > 0 {
			w.delete(q, q.alive[w.random.IntN(n)])
		}
	case 10:
		w.putForeign(q)
	case 11:
		w.noteFault(c, "watches broken", "")
		w.breakWatches(c)
		if c.cut&fault.Replies == 0 {
			c.mem.Heal()
			w.woke = true // it requests the watches anew
		}
	}
}

// atCall injects a fault at the moment at which a request is sent, and reports whether
// the request is held back.
func (w *simulation) atCall(f *flight) (stays bool) {
	c := f.c
	switch w.random.IntN(10) {
	case 0, 1:
		w.pause(c, w.length())
		c.kept = append(c.kept, &event{what: atLaunch, c: c, name: f.name, req: f})
		return true
	case 2:
		w.pause(c, w.length())
	case 3:
		w.cut(c, fault.Both, w.length())
	case 4:
		w.cut(c, fault.Requests, w.length())
	case 5, 6:
		w.cut(c, fault.Replies, w.length())
	case 7:
		if f.Session != "" {
			w.expire(f.Session)
		}
	default:
		w.injectFault()
	}
	return false
}

// What removed an entry: the end of its session by an operator, or a deletion by hand.
const (
	ended  fault.Op = "ended"
	byHand fault.Op = "by hand"
)

// outside reports whether an operator removed it.
func outside(how fault.Op) bool { return how == ended || how == byHand }

// renewLate makes a renewal the last one for long, and its answer late: a deadline that
// counts from the answer is too late.
func (w *simulation) renewLate(c *client) {
	c.lag = w.in(ttl/8, 3*ttl/4)
	w.push(&event{what: atFault, due: w.Now() + 60*time.Millisecond, c: c, run: func() {
		if !w.healed {
			w.cut(c, fault.Requests, w.in(ttl, 2*ttl))
		}
	}})
}

// endBetween ends the session of a release whose answer is lost, at about the time at
// which the release is sent again: that its entry is gone then proves nothing about the
// other entries of the session.
func (w *simulation) endBetween(f *flight) {
	w.push(&event{what: atFault, due: w.Now() + w.in(4*time.Millisecond, 12*time.Millisecond), run: func() {
		if !w.healed {
			w.expire(f.Session)
		}
	}})
}

// expire ends a session at the service, as an operator does.
func (w *simulation) expire(session string) {
	if w.store.Expire(session) {
		w.op = ended
		w.observe()
		w.log(nil, "ended", session)
		w.faults["session ended"]++
	}
}

// delete deletes an entry, as an operator does.
func (w *simulation) delete(q *queue, e *entry) {
	if !e.Foreign && w.store.Delete(q.name, e.Key) {
		w.op = byHand
		w.observe()
		w.log(nil, "deleted", e.Key)
		w.faults["entry deleted"]++
	}
}

// deleteLimit deletes the limit of a semaphore, as an operator's clean-up does. The next join makes
// the first limit again.
func (w *simulation) deleteLimit(q *queue) {
	q.resizes = append(q.resizes, &resize{limit: firstLimit, called: w.Now(), returned: w.Now()})
	membackend.Engine(door.Key{}).DeleteRecord(w.store, q.name, rule.RecordLimit)
	w.observe()
	w.log(nil, "limit deleted", q.name)
	w.faults["limit deleted"]++
}

// foreign is an entry of another program, whose owner holds when it may.
type foreign struct {
	q   *queue
	ref driver.Ref
}

// putForeign puts a foreign entry into a queue for a while: in that of a read-write lock a writer
// or a reader.
func (w *simulation) putForeign(q *queue) {
	mem, key := membackend.Engine(door.Key{}), w.foreignKey("x")
	put := func() (driver.Ref, bool) { return mem.PutForeign(w.store, q.name, key, true) }
	if q.recipe.name == "rwlock" && w.chance(4) {
		put = func() (driver.Ref, bool) { return mem.PutReader(w.store, driver.Ref{Queue: q.name}, key) }
	}
	if ref, ok := put(); ok {
		w.addForeign("foreign entry", q, ref, ttl)
	}
}

func (w *simulation) foreignKey(kind string) string {
	w.foreigners++
	return name(kind, w.foreigners)
}

// addForeign records a foreign entry, which leaves in a while.
func (w *simulation) addForeign(what string, q *queue, ref driver.Ref, most time.Duration) {
	w.log(nil, what, ref.Key)
	w.faults[what]++
	f := &foreign{q, ref}
	w.foreign = append(w.foreign, f)
	w.leaveLater(f, most)
}

func (w *simulation) leaveLater(f *foreign, most time.Duration) {
	w.push(&event{what: atFault, due: w.Now() + w.in(time.Millisecond, most), run: func() {
		if !w.readToo(f) {
			w.removeForeign(f)
		}
	}})
}

// readToo may have the owner of a foreign writer that holds acquire the read lock, and reports
// whether it does. Curator makes a reader with the writer's place for that, whose key is before
// the writer's or behind it. If the writer leaves first, this is a downgrade.
func (w *simulation) readToo(f *foreign) bool {
	alive := f.q.alive
	holds := len(alive) > 0 && alive[0].Ref == f.ref && alive[0].excludes()
	if f.q.recipe.name != "rwlock" || !slices.Contains(w.foreign, f) || !holds || w.chance(3) {
		return false
	}
	if len(alive) > 1 && alive[1].Place == f.ref.Place {
		return false // it does already
	}
	ref, ok := membackend.Engine(door.Key{}).PutReader(w.store, f.ref, w.foreignKey([]string{"w", "y"}[w.random.IntN(2)]))
	if ok {
		w.addForeign("foreign reader", f.q, ref, ttl/4)
		w.leaveLater(f, []time.Duration{2 * time.Millisecond, ttl / 4}[w.random.IntN(2)])
	}
	return ok
}

// removeForeign deletes a foreign entry, once.
func (w *simulation) removeForeign(f *foreign) {
	i := slices.Index(w.foreign, f)
	if i < 0 {
		return
	}
	w.foreign = slices.Delete(w.foreign, i, i+1)
	w.store.Delete(f.ref.Queue, f.ref.Key)
	w.log(nil, "foreign goes", f.ref.Key)
}
