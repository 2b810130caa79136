package trial

import (
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

// Figure names something that is measured in a trial.
type Figure string

// The figures. Each is in the results only if there was something to measure. Their
// values are stored, and in the results of earlier runs.
const (
	FaultToNotified Figure = "struck-to-told"   // from the fault until the holder was notified
	FaultToGone     Figure = "struck-to-gone"   // from the fault until the service had removed the holder's entry
	FaultToGrant    Figure = "struck-to-grant"  // from the fault until the next grant
	NotifiedBefore  Figure = "told-before-next" // how long before the next grant the holder was notified; below 0 is too late
	Return          Figure = "return-after-end" // the longest from the end of a context until its call returned, less the time in which nothing ran
	Progress        Figure = "longest-progress" // the longest that the first waiter waited while the service was healthy
	Leaderless      Figure = "leaderless"       // the longest time for which the service had no leader, where faults were aimed at servers
	Stalled         Figure = "longest-stall"    // the longest time for which this process did not get to run: how far the others can be trusted
)

// Least reports whether the worst value of the figure is the least, and not the greatest.
func (f Figure) Least() bool { return f == NotifiedBefore }

// Result is the result of one trial. The names of its fields are stored: earlier runs have
// written results with them.
type Result struct {
	Service string
	Lock    string
	Kind    string
	Recipe  history.Recipe
	Queue   string `json:"Line"` // the name of its queue; stored results have it as Line
	Seed    uint64 // of the Test that it was part of
	Round   int64  // the number of its round among those of its kind

	// Transport is that of the Service. Results from before there were several name none: they
	// are of the default.
	Transport string `json:",omitempty"`

	// Missed is the reason why the trial does not count, "" if it hit: the fault was
	// not observed to be in effect, or there was no holder or no waiter to meet it.
	Missed string

	Violations []history.Violation
	Figures    map[Figure]time.Duration // in nanoseconds

	Faults     int  // that hit
	Forgot     bool `json:",omitempty"` // the holder's entry was seen to be lost by the servers
	Starved    bool // the holder's process did not get to run, so the holder could not be notified (L2)
	Resource   history.ResourceCounts
	Clients    int
	Grants     int
	Operations int // requests and releases
	Lost       int // holds that were lost, or whose release failed or was never called
	Failed     int // requests that failed although their context had not ended

	History *History `json:"-"`
}

// Hit reports whether the trial counts.
func (r *Result) Hit() bool { return r.Missed == "" }

// History is the whole record of a trial. The names of its fields are stored.
type History struct {
	Queues   []history.Queue `json:"Lines"`
	Attempts []history.Attempt
	Order    map[string][]history.Change
}

// figure sets a figure if d is worse than its value so far.
func (r *Result) figure(f Figure, d time.Duration) {
	if r.Figures == nil {
		r.Figures = map[Figure]time.Duration{}
	}
	old, ok := r.Figures[f]
	if !ok || f.Least() && d < old || !f.Least() && d > old {
		r.Figures[f] = d
	}
}

// violated adds a violation that the trial itself has observed.
func (r *Result) violated(property, text string) {
	r.Violations = append(r.Violations, history.Violation{Property: property, Oracle: "trial", Queue: r.Queue, Text: text})
}

// addResource adds the judgement of a resource.
func (r *Result) addResource(found []history.Violation, toll history.ResourceCounts) {
	r.Violations = append(r.Violations, found...)
	r.Resource = r.Resource.Plus(toll)
}

// count counts the requests, grants, releases and losses of a history.
func (r *Result) count(attempts []history.Attempt) {
	for _, a := range attempts {
		r.Operations++
		if a.Failed != "" {
			if a.Ends == 0 {
				r.Failed++
			}
			continue
		}
		if a.Got == 0 { // it has not returned
			continue
		}
		r.Grants++
		if a.Back != 0 {
			r.Operations++
		}
		if a.Outcome == history.Lost || a.Outcome == history.NotReleased {
			r.Lost++
		}
	}
}
