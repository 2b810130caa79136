package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/fairlock/fairlock/fault"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/session/driver"
)

// plan draws the faults that come at random times.
func (w *world) plan() {
	for range w.storm * 2 {
		at := w.in(0, w.chaos)
		w.push(&event{what: atFault, due: at, run: func() {
			if !w.healed {
				w.strike()
			}
		}})
	}
}

// length is how long a fault lasts: mostly less than a session lives without
// contact, sometimes more.
func (w *world) length() time.Duration {
	switch n := w.random.IntN(20); {
	case n < 9:
		return w.in(5*time.Millisecond, 300*time.Millisecond)
	case n < 16:
		return w.in(300*time.Millisecond, ttl)
	}
	return w.in(ttl, 5*ttl/2)
}

// strike lets something go wrong, preferably with who matters: the first in a
// line, or the one behind it.
func (w *world) strike() {
	c := w.clients[w.random.IntN(len(w.clients))]
	ln := w.lines[w.random.IntN(len(w.lines))]
	if n := len(ln.alive); n > 0 && !w.chance(3) {
		if o := w.owner[ln.alive[w.random.IntN(min(n, 2))].Session]; o != nil {
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
		if n := len(ln.alive); n > 0 {
			w.expire(ln.alive[w.random.IntN(n)].Session)
		}
	case 8, 9:
		if n := len(ln.alive); n > 0 {
			w.delete(ln, ln.alive[w.random.IntN(n)])
		}
	case 10:
		w.putForeign(ln)
	case 11:
		w.suffer(c, "watches broken", "")
		w.breakWatches(c)
		if c.cut&fault.Replies == 0 {
			c.mem.Heal()
			w.woke = true // it requests the watches anew
		}
	}
}

// atCall lets something go wrong at the very moment at which a request is sent,
// and says whether the request stays where it is.
func (w *world) atCall(f *flight) (stays bool) {
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
		w.strike()
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

// proveLate lets a renewal be the last one for long, and its answer come late: who
// counts from the answer believes for too long.
func (w *world) proveLate(c *client) {
	c.lag = w.in(ttl/8, 3*ttl/4)
	w.push(&event{what: atFault, due: w.Now() + 60*time.Millisecond, c: c, run: func() {
		if !w.healed {
			w.cut(c, fault.Requests, w.in(ttl, 2*ttl))
		}
	}})
}

// endBetween ends the session of a release whose answer is lost, at about the time at
// which it is sent again: that an entry is gone then proves nothing of the others.
func (w *world) endBetween(f *flight) {
	w.push(&event{what: atFault, due: w.Now() + w.in(4*time.Millisecond, 12*time.Millisecond), run: func() {
		if !w.healed {
			w.expire(f.Session)
		}
	}})
}

// expire ends a session at the service, as an operator would.
func (w *world) expire(session string) {
	if w.store.Expire(session) {
		w.op = ended
		w.observe()
		w.log(nil, "ended", session)
		w.faults["session ended"]++
	}
}

// delete removes an entry, as an operator would.
func (w *world) delete(ln *line, e *entry) {
	if !e.Foreign && w.store.Delete(ln.name, e.Key) {
		w.op = byHand
		w.observe()
		w.log(nil, "deleted", e.Key)
		w.faults["entry deleted"]++
	}
}

// foreign is an entry of another program.
type foreign struct {
	ln  *line
	ref driver.Ref
}

// putForeign lets a foreign entry stand in a line for a while.
func (w *world) putForeign(ln *line) {
	w.foreigners++
	ref, ok := membackend.Engine(door.Key{}).PutForeign(w.store, ln.name, "x"+strconv.Itoa(w.foreigners), true)
	if !ok {
		return
	}
	w.log(nil, "foreign", ref.Key)
	w.faults["foreign entry"]++
	f := &foreign{ln, ref}
	w.foreign = append(w.foreign, f)
	w.push(&event{what: atFault, due: w.Now() + w.in(time.Millisecond, ttl), run: func() { w.removeForeign(f) }})
}

// removeForeign removes it, once.
func (w *world) removeForeign(f *foreign) {
	i := slices.Index(w.foreign, f)
	if i < 0 {
		return
	}
	w.foreign = slices.Delete(w.foreign, i, i+1)
	w.store.Delete(f.ref.Queue, f.ref.Key)
	w.log(nil, "foreign goes", f.ref.Key)
}
