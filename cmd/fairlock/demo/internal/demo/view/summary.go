package view

import (
	"fmt"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
)

// Intro returns the first lines where no picture is shown.
func Intro(t check.Terms, lock string, ttl time.Duration) []screen.Line {
	return []screen.Line{
		screen.Text(screen.Head, "%s", headline(t, lock, ttl)),
		screen.Text(screen.Dim, "each of them locks, reads a ledger, works, writes the ledger, unlocks"),
		{},
	}
}

// Summary returns the result of a demonstration, in 79 columns: the verdict, then the
// figures, each with its meaning.
func Summary(r *check.Report, took time.Duration) []screen.Line {
	verdict := screen.Text(screen.Good, "all as promised, in %s", seconds(took))
	if !r.Kept() {
		verdict = screen.Text(screen.Bad, "NOT as promised, see below, in %s", seconds(took))
	}
	out := []screen.Line{verdict, {}}
	row := func(name string, tone screen.Tone, figure, meaning string) {
		l := screen.Line{{Text: fmt.Sprintf("  %-17s", name), Tone: screen.Plain}, {Text: fmt.Sprintf("%6s", figure), Tone: tone}}
		if meaning != "" {
			l = append(l, screen.Span{Text: "  " + meaning, Tone: screen.Dim})
		}
		out = append(out, l)
	}
	zero := func(name string, n int, meaning string) {
		tone := screen.Good
		if n != 0 { // then the meaning does not apply
			tone, meaning = screen.Bad, ""
		}
		row(name, tone, fmt.Sprint(n), meaning)
	}
	row("grants", screen.Plain, fmt.Sprint(r.Grants), "to five processes that contend all the time")
	zero("order violations", len(r.Order), fmt.Sprintf("fair: the order in which %s got the requests", r.Terms.Service))
	zero("overlaps", len(r.Overlaps), "never two live holds at one instant")
	row("refused writes", screen.Good, fmt.Sprint(r.Refused), refusal(r))
	zero("lost updates", len(r.LostUpdates), fmt.Sprintf("the ledger's balance counts all its %d writes", r.Writes))
	left := r.Leftovers
	zero("left behind", len(left.Keys)+left.Leases+left.Processes,
		fmt.Sprintf("no %ss and no %ss in %s, no processes", r.Terms.Key, r.Terms.Lease, r.Terms.Service))
	out = append(out, screen.Line{}, screen.Line{
		{Text: "  hand-off         ", Tone: screen.Plain},
		{Text: fmt.Sprintf("p50 %s, p99 %s", millis(r.P50), millis(r.P99)), Tone: screen.Good},
		{Text: fmt.Sprintf(", Unlock to next hold, %d times", r.Handoffs), Tone: screen.Dim},
	})
	return append(out, faults(r)...)
}

// Violations returns one line for each violation, however long, but at most 10 of them.
func Violations(r *check.Report) []screen.Line {
	var out []screen.Line
	for i, v := range r.Violations() {
		if i == 0 {
			out = append(out, screen.Line{})
		}
		if i == 10 {
			out = append(out, screen.Text(screen.Bad, "  and %d more", len(r.Violations())-i))
			break
		}
		out = append(out, screen.Text(screen.Bad, "  %s", screen.Printable(v)))
	}
	return out
}

// refusal describes the refused write.
func refusal(r *check.Report) string {
	if r.High == 0 {
		return "not the late one of the stopped worker"
	}
	return fmt.Sprintf("fenced: %s came late, with token %d after %d", r.Stop.Worker, r.Stop.Token, r.High)
}

// faults describes the faults, and when the queue moved on after each.
func faults(r *check.Report) []screen.Line {
	var out []screen.Line
	add := func(name, figure, meaning string) {
		out = append(out, screen.Line{{Text: fmt.Sprintf("  %-17s", name), Tone: screen.Plain}, {Text: figure, Tone: screen.Good}, {Text: meaning, Tone: screen.Dim}})
	}
	k := r.Kill
	if k.Token != 0 && r.KillMoved > 0 {
		add("killed", "next hold after "+seconds(r.KillMoved), fmt.Sprintf(": %s (pid %d) with token %d", k.Worker, k.PID, k.Token))
	}
	s := r.Stop
	if s.Token != 0 && r.StopMoved > 0 {
		add("stopped", "next hold after "+seconds(r.StopMoved), fmt.Sprintf(": %s (pid %d), woken after %s", s.Worker, s.PID, seconds(s.Woken.Sub(s.At))))
	}
	return out
}

// LogLine returns a note as a line of the log.
func LogLine(n Note) screen.Line { return n.line() }
