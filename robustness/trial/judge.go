package trial

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/session/driver"
)

// judge looks for violations in what was recorded: those of the trial's own
// story here, and all others by the oracles.
func (st *stage) judge() {
	if st.History == nil {
		st.History = &History{}
	}
	h := st.History
	if st.blind {
		return
	}
	if st.Hit() && len(h.Attempts) > 1 {
		st.story(st.struckHold(), st.head().attempt())
	}
	for _, a := range h.Attempts {
		st.returns(a)
	}
	if st.Hit() {
		st.Faults = 1
	}
	st.figure(Stalled, st.beat.worst())
	grace := remains
	if st.kind.server() { // who cannot reach a leader cannot take anything away
		grace = progress(st.reign.without())
		st.figure(Leaderless, st.reign.without())
	}
	found, _ := judged(h, st.beat, grace, st.spoiled(), st.struck)
	st.Violations = append(st.Violations, found...)
	st.tolled(st.at.judge(st.line.Name))
}

// struckHold is the hold that the fault was aimed at, or that was there.
func (st *stage) struckHold() history.Attempt {
	if st.record != nil {
		return *st.record
	}
	if st.holder() == nil {
		return history.Attempt{}
	}
	a := st.holder().attempt()
	st.Starved = starved(a, st.beat)
	a.Stopped = st.Starved
	return a
}

// starved says that a hold was lost while its process did not get to run.
func starved(a history.Attempt, beat beat) bool {
	told := told(a)
	return told != 0 && beat.starved(told-history.Instant(TTL), told)
}

// story looks at the holder that was struck, and at who came next. Being told is
// the end of the hold's context, whatever else the hold would have answered. Not
// every lock has tokens, so a hold is known by its grant.
func (st *stage) story(held, next history.Attempt) {
	if !granted(held) || !granted(next) {
		return
	}
	st.figure(StruckToGrant, time.Duration(next.Got-st.struck))
	kept := held.Back != 0 && held.Back <= next.Got // it had stopped before
	if held.Told != 0 && !held.Stopped {
		st.figure(StruckToTold, time.Duration(held.Told-st.struck))
	}
	switch {
	case kept || held.Stopped:
	case held.Told != 0:
		st.figure(ToldBefore, time.Duration(next.Got-held.Told))
		late := time.Duration(held.Told - st.struck)
		if st.kind.foul && st.lock == Ours && held.Outcome == history.Released {
			st.violated("L2", fmt.Sprintf("client %d gave back what somebody else had ended, and was not told", held.Client))
		}
		if st.kind.foul && late > TTL {
			st.violated("L2", fmt.Sprintf("client %d was told %s after somebody else had ended its hold", held.Client, late))
		}
		if !st.kind.foul && held.Told > next.Got {
			st.violated("L2", fmt.Sprintf("client %d was told %s after the next one held", held.Client, time.Duration(held.Told-next.Got)))
		}
	default:
		st.violated("L2", fmt.Sprintf("client %d was never told", held.Client))
	}
}

// granted says whether a request has become a hold.
func granted(a history.Attempt) bool { return a.Got != 0 && a.Failed == "" }

// told is when a hold said that it was over, in either way; 0 if it did not.
func told(a history.Attempt) history.Instant {
	switch {
	case a.Told == 0 || a.Over != 0 && a.Over < a.Told:
		return a.Over
	}
	return a.Told
}

// returns looks at how soon a request returned whose context had ended (S6), and
// at requests that failed without a reason of their own.
func (st *stage) returns(a history.Attempt) {
	switch {
	case a.Ends != 0 && a.Got != 0:
		st.figure(Return, time.Duration(a.Got-a.Ends)-st.beat.stalls(a.Ends, a.Got))
	case a.Ends != 0:
		st.violated("S6", fmt.Sprintf("client %d did not return after its context had ended", a.Client))
	case st.kind.refuses && strings.Contains(a.Failed, driver.ErrRefused.Error()):
	case a.Failed != "" && st.lock == Ours:
		st.violated("L1", fmt.Sprintf("client %d gave up: %s", a.Client, a.Failed))
	}
}

// spoiled is the place of the hold that somebody else has ended; 0 if nobody has.
func (st *stage) spoiled() int64 {
	if !st.kind.foul {
		return 0
	}
	return st.struckHold().Place
}

// judged asks the oracles. What a hold believed after somebody else had ended it
// is left out, as is that it was told, and that it could be given back: nobody can
// promise anything of that, and story asks what can be asked. And
// while this process did not get to run nobody in it could be told (L2), and no
// call could return (S6), and what is left behind may stay for longer (S5).
// Exclusion is judged as it was seen, whatever ran.
func judged(h *History, beat beat, grace time.Duration, foul int64, struck history.Instant) ([]history.Violation, history.Figures) {
	attempts := slices.Clone(h.Attempts)
	for i := range attempts {
		a := &attempts[i]
		if foul != 0 && a.Place == foul {
			a.Held = min(a.Held, struck)
			a.Stopped = true
			if a.Outcome == history.Released { // it was not there any more
				a.Outcome = history.Lost
			}
		}
		a.Stopped = a.Stopped || starved(*a, beat)
		if a.Ends != 0 && a.Got > a.Ends {
			a.Ends += history.Instant(beat.stalls(a.Ends, a.Got))
		}
	}
	stalled, _ := beat.ever()
	return consult(&History{Lines: h.Lines, Attempts: attempts, Order: h.Order}, grace+stalled)
}
