package history

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// leftovers judges S5: entries that are in the queue although no client needs them.
func (r *replay) leftovers(attempts []Attempt) {
	requests := r.requests(attempts)
	for _, e := range r.all {
		a := r.of[e.place]
		switch {
		case e.alive && a == nil:
			r.report("S5", "the entry %d, which no client recorded, is left in the queue", e.place)
		case e.alive:
			r.report("S5", "the entry %d of client %d is left in the queue%s", e.place, a.Client, under(a))
		case a != nil:
			over := overAt(a)
			if over != 0 && r.stayed(e, over) {
				r.report("S5", "the entry %d of client %d was left for %s%s", e.place, a.Client, time.Duration(e.gone-over), under(a))
			}
		case e.joined != 0:
			r.unclaimed(e, requests)
		}
	}
}

// stayed reports whether an entry was there for longer than it may be after a call was over.
func (r *replay) stayed(e *entry, over Instant) bool {
	return e.gone > over && time.Duration(e.gone-over) > r.grace(over, e.gone)
}

// overAt returns when an attempt had no further need of its entry; 0 if that is
// unknown.
func overAt(a *Attempt) Instant {
	switch {
	case a.Failed != "":
		return a.Got
	case a.Stopped:
		return 0
	}
	return max(a.Done, firstOf(a.Told, a.Over))
}

// request is a call that may have created entries.
type request struct{ asked, over Instant }

// requests returns the calls in their order, each with the latest return of all calls
// up to it.
func (r *replay) requests(attempts []Attempt) []request {
	var all []request
	for i := range attempts {
		a := &attempts[i]
		if a.Queue == r.queue.Name && !a.Nested {
			all = append(all, request{a.Asked, cmp.Or(a.Got, never)})
		}
	}
	slices.SortFunc(all, func(a, b request) int { return cmp.Compare(a.asked, b.asked) })
	for i := 1; i < len(all); i++ {
		all[i].over = max(all[i].over, all[i-1].over)
	}
	return all
}

// unclaimed judges an entry that no attempt recorded. Its call failed, or lost the place
// with its session and joined again, or had returned before the entry was created. The
// entry must be gone within grace after the last return of all calls that may have
// created it.
func (r *replay) unclaimed(e *entry, requests []request) {
	i := sort.Search(len(requests), func(i int) bool { return requests[i].asked > e.joined })
	switch {
	case i == 0:
		r.report("S5", "the entry %d was created before any request", e.place)
	case requests[i-1].over == never:
	case r.stayed(e, requests[i-1].over):
		r.report("S5", "the entry %d, which no client recorded, was there until %s after the return of every call that may have created it",
			e.place, time.Duration(e.gone-requests[i-1].over))
	}
}
