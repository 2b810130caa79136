package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Replay replays the changes of a queue at the store, in the store's order, and
// compares them with the clients' attempts. It judges S2, S4 and S5: the queue's rule
// let each granted entry hold, no later than its client was granted; the token is the
// place; no place was granted twice; the queue is empty at the end.
//
// Where Changes have a Seen, it judges two more things. S5: an attempt's entry, which was
// gone at to, may have stayed for grace(over, to) after the attempt was over. S1: no client relied on an entry after it
// had been seen to be gone, except a client that was Stopped, which is no fault of its
// lock's.
//
// The only clock that it needs is that of the clients, for one conclusion: of two
// changes in the store, the first cannot have been requested after the second was known
// to be done. So a grant behind a hold that was released cannot return before that
// release was called.
//
// Replay finds an attempt's entry by its Place, or by its Token if the Place is
// unknown. It ignores grants that have neither.
func Replay(queue Queue, changes []Change, attempts []Attempt, grace func(over, to Instant) time.Duration) []Violation {
	r := &replay{queue: queue, limit: queue.Limit, byPlace: make(map[int64]*entry), grace: grace}
	r.index(attempts)
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].At == changes[0].At {
			n++
		}
		for _, c := range changes[:n] {
			r.apply(c)
		}
		r.updateHolders() // after all changes of one step: no entry holds between them
		changes = changes[n:]
	}
	r.grants()
	r.leftovers(attempts)
	return r.found
}

// replay is one run of Replay.
type replay struct {
	queue   Queue
	limit   int64
	grace   func(over, to Instant) time.Duration
	alive   []*entry // in the order of places
	byPlace map[int64]*entry
	all     []*entry
	of      map[int64]*Attempt // the attempts whose places are known
	order   []int64            // these places, as the attempts were given
	since   lowerBound         // the next changes in the store are not before this
	found   []Violation
}

// lowerBound is a time before which something has not happened, and the attempt that
// proves it.
type lowerBound struct {
	at Instant
	by *Attempt
}

// after raises a bound.
func (b lowerBound) after(at Instant, by *Attempt) lowerBound {
	if at > b.at {
		return lowerBound{at, by}
	}
	return b
}

// entry is an entry of the queue.
type entry struct {
	place  int64
	shared bool
	weight int64
	joined Instant // when it was seen to be there, and to be gone; 0 if not known
	gone   Instant
	alive  bool
	held   bool       // the rule has let it hold
	since  lowerBound // the rule did not let it hold before this
}

func (r *replay) report(property, format string, args ...any) {
	r.found = append(r.found, Violation{property, "replay", r.queue.Name, fmt.Sprintf(format, args...)})
}

// placeOf returns the place of an attempt's entry; 0 if it is unknown.
func placeOf(a *Attempt) int64 {
	if a.Place != 0 {
		return a.Place
	}
	return a.Token
}

// index finds the attempt of each place, and reports those that contradict each other.
func (r *replay) index(attempts []Attempt) {
	r.of = make(map[int64]*Attempt)
	var inside []*Attempt
	for i := range attempts {
		a := &attempts[i]
		place := placeOf(a)
		if a.Queue != r.queue.Name || place == 0 {
			continue
		}
		if a.Nested {
			inside = append(inside, a)
			continue
		}
		if a.got() && a.Token != 0 && a.Token != place {
			r.report("S2", "client %d has the token %d, but its entry is %d%s", a.Client, a.Token, place, under(a))
		}
		other := r.of[place]
		if other != nil {
			r.report("S2", "the entry %d belongs to client %d and to client %d%s", place, other.Client, a.Client, under(a))
			continue
		}
		r.of[place] = a
		r.order = append(r.order, place)
	}
	for _, a := range inside {
		outer := r.of[placeOf(a)]
		if outer == nil || outer.Client != a.Client {
			r.report("S2", "client %d is nested in a hold at place %d that it does not have%s", a.Client, placeOf(a), under(a))
		}
	}
}

// got reports whether an attempt resulted in a hold.
func (a *Attempt) got() bool { return a.Got != 0 && a.Failed == "" }

// apply applies one change.
func (r *replay) apply(c Change) {
	e := r.byPlace[c.Place]
	switch c.Kind {
	case Joined:
		if e != nil || len(r.all) > 0 && r.all[len(r.all)-1].place >= c.Place {
			r.report("S4", "the entry %d was not placed behind all others", c.Place)
			return
		}
		e = &entry{place: c.Place, shared: c.Shared, weight: c.Weight, joined: c.Seen, alive: true}
		r.byPlace[c.Place] = e
		r.all, r.alive = append(r.all, e), append(r.alive, e)
		a := r.of[c.Place]
		if a != nil {
			r.since = r.since.after(a.Asked, a)
		}
	case Left:
		if e == nil || !e.alive {
			r.report("S4", "the entry %d left, but was not there", c.Place)
			return
		}
		e.alive, e.gone = false, c.Seen
		i, _ := slices.BinarySearchFunc(r.alive, c.Place, func(e *entry, place int64) int { return cmp.Compare(e.place, place) })
		r.alive = slices.Delete(r.alive, i, i+1)
		a := r.of[c.Place]
		if a != nil && deletedByRelease(a, c.Seen) {
			r.since = r.since.after(a.Back, a)
		}
	case Shares:
		if e == nil || !e.alive {
			r.report("S4", "the entry %d became a reader's, but was not there", c.Place)
			return
		}
		e.shared = true
	case LimitSet:
		r.limit = c.Limit
	default:
		r.report("model", "unknown kind of change %q at %d", c.Kind, c.At)
	}
}

// deletedByRelease reports whether the client's release deleted its entry: the release
// was acknowledged, the client did not know of a loss, and the entry had not been seen
// to be gone before.
func deletedByRelease(a *Attempt, gone Instant) bool {
	knew := firstOf(a.Told, a.Over)
	return a.got() && a.Outcome == Released && (knew == 0 || knew > a.Back) && (gone == 0 || gone >= a.Back)
}

// reliedUntil returns when a client last relied on its entry: when it asked whether
// it held, or when it called a release that was acknowledged.
func reliedUntil(a *Attempt) Instant {
	switch {
	case deletedByRelease(a, 0):
		return a.Back
	case a.Back != 0:
		return min(a.Held, a.Back)
	}
	return a.Held
}

// updateHolders marks the entries that the rule lets hold now. They are always the
// first of the queue: an entry that may not hold keeps out all behind it.
func (r *replay) updateHolders() {
	for i, e := range r.alive {
		if !r.mayHold(r.alive[:i], e) {
			return
		}
		if !e.held {
			e.held, e.since = true, r.since
		}
	}
}

// mayHold is the rule. An entry of a peer's lock is like a mutex's in every queue.
func (r *replay) mayHold(ahead []*entry, e *entry) bool {
	switch {
	case r.queue.Recipe == ReadWrite && e.shared:
		return !slices.ContainsFunc(ahead, func(o *entry) bool { return !o.shared })
	case r.queue.Recipe == Semaphore && e.weight > 0:
		sum := e.weight
		for _, o := range ahead {
			if o.weight <= 0 {
				return false
			}
			sum += o.weight
		}
		return sum <= r.limit
	}
	return len(ahead) == 0
}

// passed reports whether a session may have passed the lock on to an attempt: the releases of all holds
// before it had been called.
func (r *replay) passed(a *Attempt, place int64) bool {
	return a.Follows && !slices.ContainsFunc(r.order, func(p int64) bool {
		o := r.of[p]
		return p < place && o.got() && (o.Back == 0 || o.Back > a.Got)
	})
}

// grants judges the grants that the clients recorded.
func (r *replay) grants() {
	early := make(map[*Attempt]bool) // whose lowerBound a grant contradicts: each is reported once
	for _, place := range r.order {
		a, e := r.of[place], r.byPlace[place]
		switch {
		case !a.got():
		case e == nil:
			r.report("S4", "client %d was granted, but its entry %d was never in the queue%s", a.Client, place, under(a))
		case !e.held && !r.passed(a, place):
			r.report("S4", "client %d was granted, but its entry %d could never hold%s", a.Client, place, under(a))
		case e.since.at > a.Got && !early[e.since.by]:
			early[e.since.by] = true
			r.report("S4", "client %d was granted at least %s before its entry %d could hold, as a call of client %d for its entry %d shows%s",
				a.Client, time.Duration(e.since.at-a.Got), place, e.since.by.Client, placeOf(e.since.by), under(a))
		case r.queue.Recipe == ReadWrite && a.Shared && !e.shared:
			r.report("S4", "client %d reads, but its entry %d is a writer's%s", a.Client, place, under(a))
		case e.gone != 0 && !a.Stopped && reliedUntil(a) > e.gone:
			r.report("S1", "client %d relied on its entry %d for %s after the entry had been seen to be gone%s",
				a.Client, place, time.Duration(reliedUntil(a)-e.gone), under(a))
		}
	}
}
