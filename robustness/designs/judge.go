package designs

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairlock/fairlock/robustness/history"
)

// Result is the result of one trial. What is lost is "" if it is not.
type Result struct {
	Stand, Setup  string
	Design, Fault string
	Seed          uint64
	Round         int64
	Missed        string `json:",omitempty"` // why the trial does not count

	Two    string `json:",omitempty"` // two held at once
	Third  string `json:",omitempty"` // and a third one too: the release of the first one freed the lock of the second
	Never  string `json:",omitempty"` // a waiter was never granted
	Orphan string `json:",omitempty"` // the lock is still taken when all programs have ended

	Lost         int64 // updates of the resource; it refuses old tokens, if the lock has any
	Unfenced     int64 // updates that would have been lost without a look at tokens
	Refused      int   // touches that were refused by their token
	Tokens       bool  // the lock has tokens
	FaultToGrant time.Duration
}

// Violated reports whether anything was lost.
func (r *Result) Violated() bool {
	return r.Two != "" || r.Third != "" || r.Never != "" || r.Orphan != "" || r.Lost > 0
}

// judge judges the records of all programs.
func (t *try) judge(all []*program) {
	var attempts []history.Attempt
	if t.record != nil {
		attempts = append(attempts, *t.record)
	}
	for _, p := range all {
		a, granted := p.attempt()
		if granted {
			attempts = append(attempts, a)
		}
	}
	t.Tokens = len(attempts) > 0 && attempts[0].Token != 0
	for i := range attempts {
		attempts[i].Place = 0 // two may hold at once in any order
	}
	found, _ := history.Sweep([]history.Queue{t.queue}, attempts, bound, 0)
	i := slices.IndexFunc(found, func(v history.Violation) bool { return v.Property == "S1" || v.Property == "S4" })
	if i >= 0 {
		t.Two = found[i].Text
	}
	t.Third = t.third()
	_, counts := t.resource.Judge(t.queue.Name)
	t.Lost, t.Unfenced, t.Refused = counts.Lost, counts.Unfenced, counts.Refused
}

// third returns how the second waiter was granted while the first one held, whose release is no part of the fault.
func (t *try) third() string {
	if t.first == nil || t.second == nil || t.dead || t.f.brief {
		return ""
	}
	first, one := t.first.attempt()
	second, two := t.second.attempt()
	if !one || !two || second.Got < first.Got || first.Back != 0 && first.Back < second.Got {
		return ""
	}
	return fmt.Sprintf("client %d was granted while client %d held, which no fault had met", second.Client, first.Client)
}
