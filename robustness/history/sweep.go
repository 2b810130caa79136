package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// never is later than every Instant of a history.
const never = Instant(math.MaxInt64)

// Figures has the counts and times of a sweep.
type Figures struct {
	Grants int
	Failed int // attempts that ended with an error
	Lost   int // holds whose clients learned of a loss

	// Margin is the shortest time from when a holder knew of its loss to the first
	// grant that needed what it held; negative if it came too late. Margins counts
	// such grants.
	Margin  time.Duration
	Margins int

	// Return is the longest time from the end of a call's context to its return.
	Return time.Duration
}

// Sweep goes along the time line of each queue, once, and judges S1, S1', S2, S4, S6
// and L2. A call has to return within bound after its context has ended. A call that
// has not returned by until is judged as if it returned then; if until is 0, such
// calls are left out.
//
// Sweep compares pairs of holds, where Model searches for an order of all: there must
// have been capacity for each grant together with the holds with lower tokens that their
// clients relied on later. A grant counts from when it returned, or when one with a
// higher token returned.
func Sweep(queues []Queue, attempts []Attempt, bound time.Duration, until Instant) ([]Violation, Figures) {
	s := &sweep{fig: Figures{Margin: math.MaxInt64}, bound: bound, until: until}
	for _, queue := range queues {
		s.queue = queue
		s.judge(attempts)
	}
	if s.fig.Margins == 0 {
		s.fig.Margin = 0
	}
	return s.found, s.fig
}

// sweep is one run of Sweep.
type sweep struct {
	queue Queue
	bound time.Duration
	until Instant
	found []Violation
	fig   Figures
}

// span is the time for which a client relied on a hold.
type span struct {
	*Attempt
	weight int64
	from   Instant // it was granted by then, or one with a higher token was
	to     Instant // the last moment at which the client relied on it
	knew   Instant // the client knew that it was over, or had begun to release it
	lost   bool    // the client knew of a loss
	cover  Instant // it may have lasted until then
}

func (s *sweep) report(property, format string, args ...any) {
	s.found = append(s.found, Violation{property, "sweep", s.queue.Name, fmt.Sprintf(format, args...)})
}

// judge judges one queue.
func (s *sweep) judge(attempts []Attempt) {
	var spans []*span
	var nested []*Attempt
	for i := range attempts {
		a := &attempts[i]
		if a.Queue != s.queue.Name {
			continue
		}
		s.returned(a)
		if a.Got == 0 || a.Failed != "" {
			continue
		}
		s.latched(a)
		if a.Nested {
			nested = append(nested, a)
			continue
		}
		sp := s.span(a)
		if sp.lost {
			s.fig.Lost++
		}
		spans = append(spans, sp)
	}
	s.addNested(spans, nested)
	s.tokens(spans)
	s.exclusion(s.inOrder(spans))
}

// returned judges S6, and counts.
func (s *sweep) returned(a *Attempt) {
	if a.Failed != "" {
		s.fig.Failed++
	} else if a.Got != 0 {
		s.fig.Grants++
	}
	back, how := a.Got, "returned"
	if back == 0 {
		back, how = s.until, "had not returned"
	}
	if a.Ends == 0 || back <= a.Ends {
		return
	}
	took := time.Duration(back - a.Ends)
	s.fig.Return = max(s.fig.Return, took)
	if took > s.bound {
		s.report("S6", "client %d %s %s after its context had ended%s", a.Client, how, took, under(a))
	}
}

// latched judges S1'.
func (s *sweep) latched(a *Attempt) {
	own := a.Back != 0 && a.Held >= a.Back
	switch {
	case a.Lied != 0:
		s.report("S1'", "the hold %d of client %d reported \"held\" after it had reported \"over\"%s", a.Token, a.Client, under(a))
	case own: // answers while the client itself releases are not judged
	case a.Over != 0 && a.Held > a.Over, a.Told != 0 && a.Held > a.Told:
		s.report("S1'", "the hold %d of client %d was over, but reported \"held\" %s later%s",
			a.Token, a.Client, time.Duration(a.Held-firstOf(a.Over, a.Told)), under(a))
	}
}

// span returns the time for which the client relied on a hold.
func (s *sweep) span(a *Attempt) *span {
	sp := &span{Attempt: a, weight: 1, from: a.Got, cover: never, knew: never}
	if s.queue.Recipe == Semaphore && a.Weight > 1 {
		sp.weight = a.Weight
	}
	loss := firstOf(a.Told, a.Over)
	first := firstOf(a.Told, a.Back)
	if first != 0 { // an answer notifies nobody who does not ask
		sp.knew = first
	}
	switch {
	case a.Back != 0 && (loss == 0 || a.Back < loss): // it did not know of a loss when it released
		sp.to = min(a.Held, a.Back)
		if a.Outcome == Released && a.Done != 0 {
			sp.to, sp.cover = a.Back, a.Done
		}
	case loss != 0:
		sp.lost, sp.to = true, a.Held
		if a.Back != 0 {
			sp.to = min(a.Held, a.Back)
		}
	default:
		sp.to = a.Held
	}
	if a.Stopped {
		sp.knew, sp.lost = 0, false
	}
	return sp
}

// addNested extends each hold by the holds that are nested in it.
func (s *sweep) addNested(spans []*span, nested []*Attempt) {
	outer := make(map[int64]*span)
	for _, sp := range spans {
		if outer[sp.Token] == nil {
			outer[sp.Token] = sp
		}
	}
	slices.SortStableFunc(nested, func(a, b *Attempt) int { return cmp.Compare(a.Asked, b.Asked) })
	for _, a := range nested {
		sp := outer[a.Token]
		switch {
		case sp == nil:
			s.report("S1", "client %d is nested in a hold %d that was never granted%s", a.Client, a.Token, under(a))
			continue
		case sp.Client != a.Client:
			s.report("S1", "client %d is nested in the hold %d of client %d%s", a.Client, a.Token, sp.Client, under(a))
			continue
		case a.Asked > sp.cover, a.Got < sp.Asked:
			s.report("S1", "client %d is nested in its hold %d, which had ended%s", a.Client, a.Token, under(a))
		}
		// The hold lasts until the last of its handles is released, and existed at
		// some time after this handle was requested.
		in := s.span(a)
		sp.to, sp.cover = max(sp.to, in.to, a.Asked), max(sp.cover, in.cover)
		sp.knew, sp.lost = max(sp.knew, in.knew), sp.lost || in.lost
	}
}

// tokens judges S2, and S4 as far as clients can observe it.
func (s *sweep) tokens(spans []*span) {
	token, place := func(sp *span) int64 { return sp.Token }, func(sp *span) int64 { return sp.Place }
	with := s.unique(spans, "S2", "token", token)
	if with == len(spans) {
		s.rising(spans, "S2", "token", token)
	} else if with > 0 {
		s.report("S2", "%d of %d holds have no token", len(spans)-with, len(spans))
	}
	s.unique(spans, "S4", "place", place)
	s.rising(spans, "S4", "place", place)
}

// unique checks that no two holds have the same number, and counts the holds with one.
func (s *sweep) unique(spans []*span, property, what string, number func(*span) int64) int {
	with := 0
	first := make(map[int64]*span)
	for _, sp := range spans {
		n := number(sp)
		if n == 0 {
			continue
		}
		with++
		other := first[n]
		if other != nil {
			s.report(property, "the %s %d belongs to client %d and to client %d%s", what, n, other.Client, sp.Client, under(sp.Attempt))
		}
		first[n] = sp
	}
	return with
}

// rising checks that a hold has a higher number than all that were granted before it
// was requested.
func (s *sweep) rising(spans []*span, property, what string, number func(*span) int64) {
	granted, asked := slices.Clone(spans), slices.Clone(spans)
	slices.SortFunc(granted, func(a, b *span) int { return cmp.Compare(a.Got, b.Got) })
	slices.SortFunc(asked, func(a, b *span) int { return cmp.Compare(a.Asked, b.Asked) })
	var highest *span
	for _, sp := range asked {
		for len(granted) > 0 && granted[0].Got < sp.Asked {
			if highest == nil || number(granted[0]) > number(highest) {
				highest = granted[0]
			}
			granted = granted[1:]
		}
		if highest != nil && number(sp) != 0 && number(sp) < number(highest) {
			s.report(property, "client %d asked after client %d had been granted with %s %d, but has %d%s",
				sp.Client, highest.Client, what, number(highest), number(sp), under(sp.Attempt))
		}
	}
}

// inOrder sorts by tokens, or by places where not all have tokens, or else by time. In
// the first two cases a hold was granted by the time at which a newer one returned.
func (s *sweep) inOrder(spans []*span) []*span {
	var number func(*span) int64
	all := func(of func(*span) int64) bool {
		return !slices.ContainsFunc(spans, func(sp *span) bool { return of(sp) == 0 })
	}
	token, place := func(sp *span) int64 { return sp.Token }, func(sp *span) int64 { return sp.Place }
	switch {
	case all(token):
		number = token
	case all(place):
		number = place
	default:
		slices.SortStableFunc(spans, func(a, b *span) int { return cmp.Or(cmp.Compare(a.Got, b.Got), cmp.Compare(a.to, b.to)) })
		return spans
	}
	slices.SortStableFunc(spans, func(a, b *span) int { return cmp.Compare(number(a), number(b)) })
	if all(token) && all(place) {
		for i := 1; i < len(spans); i++ {
			a, b := spans[i-1], spans[i]
			if a.Place > b.Place {
				s.report("S2", "token %d of client %d has place %d, and token %d of client %d place %d",
					a.Token, a.Client, a.Place, b.Token, b.Client, b.Place)
			}
		}
	}
	for i := len(spans) - 2; i >= 0; i-- {
		spans[i].from = min(spans[i].from, spans[i+1].from)
	}
	return spans
}
