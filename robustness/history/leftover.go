package history

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// left judges S5: what is in the line when nobody needs it any more.
func (r *replay) left(attempts []Attempt) {
	asked := r.asked(attempts)
	for _, n := range r.all {
		a := r.of[n.place]
		switch {
		case n.alive && a == nil:
			r.report("S5", "the entry %d, which nobody got, is left in line", n.place)
		case n.alive:
			r.report("S5", "the entry %d of client %d is left in line%s", n.place, a.Client, under(a))
		case a != nil:
			if over := overAt(a); over != 0 && n.gone > over+r.grace {
				r.report("S5", "the entry %d of client %d was left for %s%s", n.place, a.Client, time.Duration(n.gone-over), under(a))
			}
		case n.joined != 0:
			r.unclaimed(n, asked)
		}
	}
}

// overAt is when an attempt had no further need of its entry; 0 if that is not
// known, since its client was gone.
func overAt(a *Attempt) Instant {
	switch {
	case a.Failed != "":
		return a.Got
	case a.Stopped:
		return 0
	}
	return max(a.Done, firstOf(a.Told, a.Over))
}

// request is a call that may have made entries.
type request struct{ asked, over Instant }

// asked are the calls in their order, each with the latest return of all until it.
func (r *replay) asked(attempts []Attempt) []request {
	var all []request
	for i := range attempts {
		a := &attempts[i]
		if a.Line == r.line.Name && !a.Nested {
			all = append(all, request{a.Asked, cmp.Or(a.Got, never)})
		}
	}
	slices.SortFunc(all, func(a, b request) int { return cmp.Compare(a.asked, b.asked) })
	for i := 1; i < len(all); i++ {
		all[i].over = max(all[i].over, all[i-1].over)
	}
	return all
}

// unclaimed judges an entry that nobody was granted. It is of a call that failed,
// or of one that lost its place with its session and joined again; or it came late,
// when its call had returned. The last of the calls that may have made it has
// returned at a time after which it should not have been there for long.
func (r *replay) unclaimed(n *node, asked []request) {
	i := sort.Search(len(asked), func(i int) bool { return asked[i].asked > n.joined })
	switch {
	case i == 0:
		r.report("S5", "nobody had asked when the entry %d came", n.place)
	case asked[i-1].over == never:
	case n.gone > asked[i-1].over+r.grace:
		r.report("S5", "the entry %d, which nobody got, was there until %s after all who may have made it had returned",
			n.place, time.Duration(n.gone-asked[i-1].over))
	}
}
