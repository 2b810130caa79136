package trial

import (
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

// Figure names something that is measured in a trial.
type Figure string

// The figures. Each is in the results only if there was something to measure.
const (
	StruckToTold  Figure = "struck-to-told"   // until the holder that was harmed was told
	StruckToGone  Figure = "struck-to-gone"   // until the store had removed its entry
	StruckToGrant Figure = "struck-to-grant"  // until the next one held
	ToldBefore    Figure = "told-before-next" // how long before the next grant the holder was told; less than 0 is too late
	Return        Figure = "return-after-end" // the longest until a call returned whose context had ended, less the time in which nothing ran
	Progress      Figure = "longest-progress" // the longest until who was first in line held, when all was well
	Leaderless    Figure = "leaderless"       // the longest for which the service had no leader, where faults were aimed at servers
	Stalled       Figure = "longest-stall"    // for which this process did not get to run: how far the others can be trusted
)

// Least says of a figure that the least of many is the worst, and not the most.
func (f Figure) Least() bool { return f == ToldBefore }

// Result is what came of one trial.
type Result struct {
	Service string
	Lock    string
	Kind    string
	Recipe  history.Recipe
	Line    string
	Seed    uint64 // of the test that it was part of
	Round   int64  // of its kind

	// Missed says why the trial does not count: the fault was not seen to be in
	// effect, or did not find a holder and waiters. "" if it hit.
	Missed string

	Violations []history.Violation
	Figures    map[Figure]time.Duration // in nanoseconds

	Faults     int  // that hit
	Starved    bool // the holder's process did not get to run, so that it could not be told (L2)
	Resource   history.ResourceCounts
	Clients    int
	Grants     int
	Operations int // requests, and givings back
	Lost       int // holds that ended otherwise than by being given back
	Failed     int // requests that failed though their context lived

	History *History `json:"-"`
}

// Hit says whether the trial counts.
func (r *Result) Hit() bool { return r.Missed == "" }

// History is all that was recorded of a trial.
type History struct {
	Lines    []history.Queue
	Attempts []history.Attempt
	Order    map[string][]history.Change
}

// figure takes in a figure, if it is the worst.
func (r *Result) figure(f Figure, d time.Duration) {
	if r.Figures == nil {
		r.Figures = map[Figure]time.Duration{}
	}
	old, ok := r.Figures[f]
	if !ok || f.Least() && d < old || !f.Least() && d > old {
		r.Figures[f] = d
	}
}

// violated takes in a violation that the trial itself has seen.
func (r *Result) violated(property, text string) {
	r.Violations = append(r.Violations, history.Violation{Property: property, Oracle: "trial", Line: r.Line, Text: text})
}

// tolled takes in what became of a resource.
func (r *Result) tolled(found []history.Violation, toll history.ResourceCounts) {
	r.Violations = append(r.Violations, found...)
	r.Resource = r.Resource.Plus(toll)
}

// count counts what happened in a history.
func (r *Result) count(attempts []history.Attempt) {
	for _, a := range attempts {
		r.Operations++
		if a.Failed != "" {
			if a.Ends == 0 {
				r.Failed++
			}
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
