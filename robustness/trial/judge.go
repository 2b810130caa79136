package trial

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/session/driver"
)

// judge looks for violations in the records. The hand-over under the fault and the ends
// of contexts are judged here, everything else by the oracles.
func (tr *trial) judge() {
	if tr.History == nil {
		tr.History = &History{}
	}
	h := tr.History
	if tr.unreadable {
		return
	}
	if tr.Hit() && len(h.Attempts) > 1 {
		tr.judgeHandover(tr.faultedHold(), tr.next().attempt())
	}
	tr.judgeHandsOver(h.Attempts)
	for _, a := range h.Attempts {
		tr.judgeReturn(a, tr.kind.refusesSessions, tr.meter)
		tr.judgeRelease(a, tr.meter)
	}
	if tr.Hit() {
		tr.Faults = 1
	}
	tr.figure(Stalled, tr.meter.longest())
	if tr.kind.server() {
		tr.figure(Leaderless, tr.leaderPoll.leaderless())
	}
	found, _ := judgeHistory(h, tr.meter, tr.grace(), tr.endedHold(), tr.faultAt)
	tr.Violations = append(tr.Violations, found...)
	tr.judgeBreak()
	tr.addResource(tr.resource.Judge(tr.queue.Name))
}

// grace returns how long an entry may be left whose owner has lost it (S5). It includes the time in
// which the fault kept everyone from removing it: without a leader no entry can be deleted, and the
// clients of a Breaker, which end each other's sessions, observe nothing while all replies are late.
func (tr *trial) grace() time.Duration {
	fault := time.Duration(max(tr.endedAt-tr.faultAt, 0))
	switch {
	case tr.kind.breaks != nil:
		return tr.kind.breaks.maxWait() + fault
	case tr.kind.server():
		return maxWait(tr.leaderPoll.leaderless())
	case tr.kind.late && breaker(tr.svc) != nil:
		return leftoverTime + fault
	}
	return leftoverTime
}

// judgeAbandoned judges the participants of a set-up that is about to be repeated, as far as
// that needs neither a fault nor the changes at the service.
func (tr *trial) judgeAbandoned() {
	attempts := tr.attempts()
	for _, a := range attempts {
		if a.Failed != "" {
			tr.judgeReturn(a, tr.kind.refusesSessions, tr.meter)
		}
		tr.judgeRelease(a, tr.meter)
	}
	queues := []history.Queue{tr.queue}
	swept, _ := history.Sweep(queues, attempts, promptly, 0)
	for _, v := range append(history.Model(queues, attempts, modelTimeout), swept...) {
		if slices.Contains([]string{"S1", "S1'", "S2", "S4"}, v.Property) {
			tr.Violations = append(tr.Violations, v)
		}
	}
}

// faultedHold returns the attempt of the holder at the moment of the fault, whether the
// fault was aimed at the holder or not; or that of the one that its session has passed the lock on to.
func (tr *trial) faultedHold() history.Attempt {
	if tr.record != nil {
		return *tr.record
	}
	if tr.holder() == nil {
		return history.Attempt{}
	}
	a := tr.judged().attempt()
	tr.Starved = starved(a, tr.meter)
	a.Stopped = tr.Starved
	return a
}

// starved reports whether a hold was lost while its process did not get to run.
func starved(a history.Attempt, meter stallMeter) bool {
	over := overAt(a)
	return over != 0 && meter.starved(over-history.Instant(TTL), over)
}

// judgeHandover judges L2 for the holder at the moment of the fault and the holder after
// it. A holder is notified when the hold's context ends, whatever else the hold would
// have answered. Not every lock has tokens, so a hold is identified by its grant.
func (tr *trial) judgeHandover(held, next history.Attempt) {
	if !isGranted(held) || !isGranted(next) {
		return
	}
	tr.figure(FaultToGrant, time.Duration(next.Got-tr.faultAt))
	kept := held.Back != 0 && held.Back <= next.Got // it was releasing before the next grant
	if held.Told != 0 && !held.Stopped {
		tr.figure(FaultToNotified, time.Duration(held.Told-tr.faultAt))
	}
	switch {
	case kept || held.Stopped:
	case held.Told != 0:
		tr.figure(NotifiedBefore, time.Duration(next.Got-held.Told))
		late := time.Duration(held.Told - tr.faultAt)
		if tr.kind.endedByOther && tr.lock == Ours && held.Outcome == history.Released {
			tr.violated("L2", fmt.Sprintf("client %d released a hold that another client had ended, and Release reported no loss", held.Client))
		}
		if tr.kind.endedByOther && late > TTL {
			tr.violated("L2", fmt.Sprintf("client %d was notified %s after another client had ended its hold", held.Client, late))
		}
		if !tr.kind.endedByOther && held.Told > next.Got {
			tr.violated("L2", fmt.Sprintf("client %d was notified %s after the next grant", held.Client, time.Duration(held.Told-next.Got)))
		}
		if !tr.kind.endedByOther && tr.lock == Ours {
			tr.judgeMargin(held, next)
		}
	default:
		tr.violated("L2", fmt.Sprintf("client %d was never notified", held.Client))
	}
}

// judgeMargin judges whether a holder that lost its hold to a fault had the margin to stop
// (L2). A quarter is for what neither side can know exactly: the client counts its trust
// window from a moment before the service does, and the notice takes its time.
func (tr *trial) judgeMargin(held, next history.Attempt) {
	margin := tr.svc.Margin()
	left := time.Duration(next.Got-held.Told) + tr.meter.stalls(held.Told-history.Instant(margin), next.Got)
	if left >= 0 && left < margin*3/4 {
		tr.violated("L2", fmt.Sprintf("client %d was notified only %s before the next grant, with a margin of %s", held.Client, left, margin))
	}
}

// judgeGone judges a holder that was cut off by the time at which the service had removed its
// entry. Its context must have ended by then, with the margin: the next grant may come at once,
// even if it came late here (L2). And the next grant must not come before (S4). The removal is
// observed by others, so its time may be late. A leader that has resigned before needs no margin.
func (tr *trial) judgeGone(held, next history.Attempt, gone history.Instant) {
	if tr.lock != Ours {
		return
	}
	left := time.Duration(gone-held.Told) + tr.meter.stalls(gone-history.Instant(TTL), max(gone, held.Told))
	margin := tr.svc.Margin()
	resigned := held.Back != 0 && held.Back <= gone
	if !resigned && (held.Told == 0 || left < margin*3/4) {
		tr.violated("L2", fmt.Sprintf("client %d was not notified %s before its entry was gone, with a margin of %s", held.Client, margin*3/4, margin))
	}
	if !isGranted(next) {
		return
	}
	early := time.Duration(gone-next.Got) - tr.meter.stalls(next.Got, gone)
	if early > promptly {
		tr.violated("S4", fmt.Sprintf("client %d was granted %s before the entry of the holder was gone", next.Client, early))
	}
}

// goneAt returns when an entry was gone at the latest: when a watch reported that, or when it
// was read in what the service recorded. On a busy machine either comes late.
func goneAt(order []history.Change, place int64, reported history.Instant) history.Instant {
	for _, c := range order {
		if c.Kind == history.Left && c.Place == place && c.Seen != 0 {
			reported = min(reported, c.Seen)
		}
	}
	return reported
}

// isGranted reports whether a request returned a hold.
func isGranted(a history.Attempt) bool { return a.Got != 0 && a.Failed == "" }

// overAt returns when a hold first reported that it was over, as an answer or by the end
// of its context; 0 if it did not.
func overAt(a history.Attempt) history.Instant {
	switch {
	case a.Told == 0 || a.Over != 0 && a.Over < a.Told:
		return a.Over
	}
	return a.Told
}

// judgeReturn checks that a request whose context had ended returned (S6), and measures
// how soon. Fairlock's requests must not fail for any other reason (L1), except where the
// service refuses sessions.
func (r *Result) judgeReturn(a history.Attempt, refusesSessions bool, meter stallMeter) {
	switch {
	case a.Ends != 0 && a.Got != 0:
		r.figure(Return, time.Duration(a.Got-a.Ends)-meter.stalls(a.Ends, a.Got))
	case a.Ends != 0:
		r.violated("S6", fmt.Sprintf("client %d did not return after its context had ended", a.Client))
	case refusesSessions && (strings.Contains(a.Failed, driver.ErrRefused.Error()) || strings.Contains(a.Failed, driver.ErrDenied.Error())):
	case a.Failed != "" && r.Lock == Ours:
		r.violated("L1", fmt.Sprintf("the request of client %d failed: %s", a.Client, a.Failed))
	}
}

// judgeRelease judges what Unlock of Fairlock has returned, and when: the loss of a hold
// whose context had ended before (L2), after at most the second that it waits for (S6).
func (r *Result) judgeRelease(a history.Attempt, meter stallMeter) {
	if r.Lock != Ours || !isGranted(a) || a.Back == 0 {
		return
	}
	if a.Outcome == history.Released && a.Told != 0 && a.Told <= a.Back {
		r.violated("L2", fmt.Sprintf("client %d released a hold whose context had ended, and Unlock reported no loss", a.Client))
	}
	if a.Done == 0 {
		return
	}
	took := time.Duration(a.Done-a.Back) - meter.stalls(a.Back, a.Done)
	if took > unlockTime+promptly {
		r.violated("S6", fmt.Sprintf("Unlock of client %d returned after %s", a.Client, took))
	}
}

// endedHold returns the hold that another client has ended; the zero Attempt if none.
func (tr *trial) endedHold() history.Attempt {
	if !tr.kind.endedByOther {
		return history.Attempt{}
	}
	return tr.faultedHold()
}

// isOf reports whether an attempt is one of a hold, or of a request inside it. Not every lock has
// places.
func isOf(a, hold history.Attempt) bool {
	return hold.Got != 0 && a.Place == hold.Place && (a.Place != 0 || a.Got == hold.Got)
}

// judgeHistory runs the oracles. ended is a hold that another client ended at faultAt, or zero. No lock can promise anything about such a hold, so the oracles
// do not judge what it reported after faultAt, its notification or its release;
// judgeHandover judges what can be judged.
//
// While this process did not get to run, no client in it could be notified (L2) and no
// call could return (S6), and entries may be left for longer (S5). The model and the sweep
// judge exclusion without any allowance for that; the replay leaves out such clients.
func judgeHistory(h *History, meter stallMeter, grace time.Duration, ended history.Attempt, faultAt history.Instant) ([]history.Violation, history.Figures) {
	attempts := slices.Clone(h.Attempts)
	for i := range attempts {
		a := &attempts[i]
		if isOf(*a, ended) {
			a.Held = min(a.Held, faultAt)
			a.Stopped = true
			if a.Outcome == history.Released { // the entry no longer existed
				a.Outcome = history.Lost
			}
		}
		a.Stopped = a.Stopped || starved(*a, meter)
		if a.Ends != 0 && a.Got > a.Ends {
			a.Ends += history.Instant(meter.stalls(a.Ends, a.Got))
		}
	}
	return runOracles(&History{Queues: h.Queues, Attempts: attempts, Order: h.Order}, func(over, to history.Instant) time.Duration {
		return grace + meter.stalls(over, to)
	})
}
