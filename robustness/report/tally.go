package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// tally adds up trials of one lock.
type tally struct {
	trials, hit    int
	broken         map[string]int // trials by violated property, whether they hit or not
	violated       int            // trials that hit, with any violation
	missedViolated int            // trials that missed, with any violation
	faults         int
	starved        int
	resource       history.ResourceCounts
	clients        int
	grants         int
	operations     int
	lost           int
	forgot         int            // trials in which the servers were seen to have lost the holder's entry
	seeds          map[uint64]int // the number of trials with each seed
	worst          map[trial.Figure]time.Duration
}

// Properties returns the properties that a violation can have: the promises, and "model"
// for what an oracle could not decide.
func Properties() []string {
	return []string{"S1", "S1'", "S2", "S3", "S4", "S5", "S6", "L1", "L2", "model"}
}

// tallied adds up the trials of a lock, of the given kinds or of all if there are none.
func (d *Data) tallied(service, lock string, kinds ...string) *tally {
	return d.tallyOf(func(r *trial.Result) bool {
		return r.Service == service && r.Lock == lock && (len(kinds) == 0 || slices.Contains(kinds, r.Kind))
	})
}

// tallyOf adds up the trials for which a function returns true.
func (d *Data) tallyOf(counts func(*trial.Result) bool) *tally {
	y := &tally{broken: map[string]int{}, seeds: map[uint64]int{}, worst: map[trial.Figure]time.Duration{}}
	for _, r := range d.trials {
		if counts(r) {
			y.add(r)
		}
	}
	return y
}

func (y *tally) add(r *trial.Result) {
	y.trials++
	switch {
	case r.Hit():
		y.hit++
		if len(r.Violations) > 0 {
			y.violated++
		}
	case len(r.Violations) > 0:
		y.missedViolated++
	}
	var counted []string
	for _, v := range r.Violations {
		if !slices.Contains(counted, v.Property) {
			counted = append(counted, v.Property)
			y.broken[v.Property]++
		}
	}
	if r.Starved {
		y.starved++
	}
	if r.Hit() && r.Forgot {
		y.forgot++
	}
	y.resource = y.resource.Plus(r.Resource)
	y.faults += r.Faults
	y.clients += r.Clients
	y.grants += r.Grants
	y.operations += r.Operations
	y.lost += r.Lost
	y.seeds[r.Seed]++
	if !r.Hit() {
		return // the figures of a fault that missed show nothing
	}
	for f, v := range r.Figures {
		old, ok := y.worst[f]
		if !ok || f.Least() && v < old || !f.Least() && v > old {
			y.worst[f] = v
		}
	}
}

// figure returns the worst of a figure, or "" if it was never measured.
func (y *tally) figure(f trial.Figure) string {
	v, ok := y.worst[f]
	if !ok {
		return ""
	}
	return span(v)
}

// span formats a duration with a precision that suits its size.
func span(d time.Duration) string {
	abs := d.Abs()
	switch {
	case abs >= time.Minute:
		return d.Round(time.Second).String()
	case abs >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case abs >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

// bound returns the highest rate of violations that is compatible with none in these
// trials, at 95 %: the rule of three. It returns "" if there was a violation, or if there
// are at most three trials. Starved trials do not count, because L2 does not judge them.
func (y *tally) bound() string {
	n := y.hit - y.starved
	if n <= 3 || y.violated+y.missedViolated > 0 {
		return ""
	}
	percent, digits := 300/float64(n), 0
	if percent < 10 {
		digits = max(0, 1-int(math.Floor(math.Log10(percent))))
	}
	return "≤ " + strconv.FormatFloat(percent, 'f', digits, 64) + " %"
}

// notRun takes the place of a figure that was never measured.
const notRun = "not run"

// share returns how many of the trials that hit had a violation, and the properties.
func (y *tally) share() string {
	if y.trials == 0 {
		return notRun
	}
	s := fmt.Sprintf("%d of %d", y.violated, y.hit)
	var of []string
	for _, p := range Properties() {
		if y.broken[p] > 0 {
			of = append(of, p)
		}
	}
	if len(of) > 0 {
		s += ": " + strings.Join(of, ", ")
	}
	if y.missedViolated > 0 {
		s += fmt.Sprintf(" (%d of %d that missed)", y.missedViolated, y.trials-y.hit)
	}
	return s
}

// kinds returns the kinds of faults that exist on a service, and those that its trials
// have: first the kinds that are aimed at clients, then those at servers.
func (d *Data) kinds(s Service) []string {
	clients, servers := trial.Aimed()
	servers = append(servers, trial.Soak)
	for _, lock := range s.locks() {
		for _, r := range d.trials {
			known := slices.Contains(clients, r.Kind) || slices.Contains(servers, r.Kind)
			if r.Service == s.Name && r.Lock == lock && !known {
				clients = append(clients, r.Kind) // a kind that loses a reply
			}
		}
	}
	return slices.DeleteFunc(append(clients, servers...), func(kind string) bool { return slices.Contains(s.Without, kind) })
}
