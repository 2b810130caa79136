package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Replay plays what has happened to a line at the store, in the store's own order,
// and holds against it what the clients say. It judges S2, S4 and S5: each grant's
// entry was admitted by the line's rule, and not later than its client was told;
// its token is its place; no place was granted twice; nobody is in the line at the
// end. Where Changes say when they were seen, what an attempt has left in the line
// was gone within grace of its return; and, for S1, nobody believed in an entry
// that had been seen to be gone. Stopped tells of an Attempt that this is no fault
// of its lock's.
//
// It needs no clock but that of the clients, and that only in one way: what came
// before something in the store cannot have been begun after that was known to be
// done. So the grant behind a hold that was given back is not told before that
// giving back was called.
//
// An attempt is found in the order by its Place, or its Token if that is unknown;
// grants that have neither are left out.
func Replay(line Line, changes []Change, attempts []Attempt, grace time.Duration) []Violation {
	r := &replay{line: line, limit: line.Limit, nodes: make(map[int64]*node), grace: Instant(grace)}
	r.claim(attempts)
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].At == changes[0].At {
			n++
		}
		for _, c := range changes[:n] {
			r.apply(c)
		}
		r.admit() // several at once are one step: nobody is admitted between them
		changes = changes[n:]
	}
	r.grants()
	r.left(attempts)
	return r.found
}

// replay is under way.
type replay struct {
	line  Line
	limit int64
	grace Instant
	alive []*node // in the order of places
	nodes map[int64]*node
	all   []*node
	of    map[int64]*Attempt // the attempts whose places are known
	order []int64            // these places, as the attempts were given
	since moment             // what happens in the store now is not before this
	found []Violation
}

// moment is a bound on the clients' clock, and whose it is.
type moment struct {
	at Instant
	by *Attempt
}

// after raises a bound.
func (m moment) after(at Instant, by *Attempt) moment {
	if at > m.at {
		return moment{at, by}
	}
	return m
}

// node is an entry.
type node struct {
	place    int64
	shared   bool
	weight   int64
	joined   Instant // when it was seen to be there, and to be gone; 0 if not known
	gone     Instant
	alive    bool
	admitted bool
	since    moment // it was not admitted before this
}

func (r *replay) report(property, format string, args ...any) {
	r.found = append(r.found, Violation{property, "replay", r.line.Name, fmt.Sprintf(format, args...)})
}

// placeOf is where an attempt stood.
func placeOf(a *Attempt) int64 {
	if a.Place != 0 {
		return a.Place
	}
	return a.Token
}

// claim notes which attempts say that they had which places.
func (r *replay) claim(attempts []Attempt) {
	r.of = make(map[int64]*Attempt)
	var inside []*Attempt
	for i := range attempts {
		a := &attempts[i]
		place := placeOf(a)
		if a.Line != r.line.Name || place == 0 {
			continue
		}
		if a.Nested {
			inside = append(inside, a)
			continue
		}
		if a.got() && a.Token != 0 && a.Token != place {
			r.report("S2", "client %d has the token %d, and its entry is %d%s", a.Client, a.Token, place, under(a))
		}
		if other := r.of[place]; other != nil {
			r.report("S2", "the entry %d is of client %d and of client %d%s", place, other.Client, a.Client, under(a))
			continue
		}
		r.of[place] = a
		r.order = append(r.order, place)
	}
	for _, a := range inside {
		outer := r.of[placeOf(a)]
		if outer == nil || outer.Client != a.Client {
			r.report("S2", "client %d is inside of a hold at %d that it has not got%s", a.Client, placeOf(a), under(a))
		}
	}
}

// got reports whether an attempt came to a hold.
func (a *Attempt) got() bool { return a.Got != 0 && a.Failed == "" }

// apply makes one change.
func (r *replay) apply(c Change) {
	n := r.nodes[c.Place]
	switch c.Kind {
	case Joined:
		if n != nil || len(r.all) > 0 && r.all[len(r.all)-1].place >= c.Place {
			r.report("S4", "the entry %d was not put behind all others", c.Place)
			return
		}
		n = &node{place: c.Place, shared: c.Shared, weight: c.Weight, joined: c.Seen, alive: true}
		r.nodes[c.Place] = n
		r.all, r.alive = append(r.all, n), append(r.alive, n)
		if a := r.of[c.Place]; a != nil {
			r.since = r.since.after(a.Asked, a)
		}
	case Left:
		if n == nil || !n.alive {
			r.report("S4", "the entry %d left, and was not there", c.Place)
			return
		}
		n.alive, n.gone = false, c.Seen
		i, _ := slices.BinarySearchFunc(r.alive, c.Place, func(n *node, place int64) int { return cmp.Compare(n.place, place) })
		r.alive = slices.Delete(r.alive, i, i+1)
		if a := r.of[c.Place]; a != nil && gaveBack(a, c.Seen) {
			r.since = r.since.after(a.Back, a)
		}
	case Shares:
		if n == nil || !n.alive {
			r.report("S4", "the entry %d has become a reader's, and was not there", c.Place)
			return
		}
		n.shared = true
	case LimitSet:
		r.limit = c.Limit
	default:
		r.report("model", "a change of the kind %q at %d", c.Kind, c.At)
	}
}

// gaveBack reports whether an entry went because its client gave it back: that was
// acknowledged, the client did not know of a loss, and nobody had seen the entry
// gone before.
func gaveBack(a *Attempt, gone Instant) bool {
	knew := firstOf(a.Told, a.Over)
	return a.got() && a.Outcome == Given && (knew == 0 || knew > a.Back) && (gone == 0 || gone >= a.Back)
}

// lastBelief is when a client last took an entry for its own: when it asked whether
// it held, or when it gave back and was told that it did.
func lastBelief(a *Attempt) Instant {
	switch {
	case gaveBack(a, 0):
		return a.Back
	case a.Back != 0:
		return min(a.Held, a.Back)
	}
	return a.Held
}

// admit lets in whom the rule allows to hold now. Those are always the first in
// line: whoever is kept out keeps out all behind it.
func (r *replay) admit() {
	for i, n := range r.alive {
		if !r.admits(r.alive[:i], n) {
			return
		}
		if !n.admitted {
			n.admitted, n.since = true, r.since
		}
	}
}

// admits is the rule. Entries of the peers' are like a mutex's wherever they stand.
func (r *replay) admits(ahead []*node, n *node) bool {
	switch {
	case r.line.Recipe == ReadWrite && n.shared:
		return !slices.ContainsFunc(ahead, func(o *node) bool { return !o.shared })
	case r.line.Recipe == Semaphore && n.weight > 0:
		sum := n.weight
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

// grants judges what the clients say that they got.
func (r *replay) grants() {
	early := make(map[*Attempt]bool) // one that is told to have gone later than it did is told of once
	for _, place := range r.order {
		a, n := r.of[place], r.nodes[place]
		switch {
		case !a.got():
		case n == nil:
			r.report("S4", "client %d was granted, and its entry %d has never been in line%s", a.Client, place, under(a))
		case !n.admitted:
			r.report("S4", "client %d was granted, and its entry %d was never admitted%s", a.Client, place, under(a))
		case n.since.at > a.Got && !early[n.since.by]:
			early[n.since.by] = true
			r.report("S4", "client %d was granted at least %s before its entry %d was admitted, which was not before client %d had done with %d%s",
				a.Client, time.Duration(n.since.at-a.Got), place, n.since.by.Client, placeOf(n.since.by), under(a))
		case r.line.Recipe == ReadWrite && a.Shared && !n.shared:
			r.report("S4", "client %d reads, and its entry %d is a writer's%s", a.Client, place, under(a))
		case n.gone != 0 && !a.Stopped && lastBelief(a) > n.gone:
			r.report("S1", "client %d believed in its entry %d for %s after that had been seen to be gone%s",
				a.Client, place, time.Duration(lastBelief(a)-n.gone), under(a))
		}
	}
}
