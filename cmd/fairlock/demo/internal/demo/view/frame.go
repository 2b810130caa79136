package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/demo/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
)

// Model is all that the live picture shows.
type Model struct {
	Terms    check.Terms
	Lock     string
	TTL      time.Duration
	Elapsed  time.Duration
	Expected time.Duration // about how long the demonstration takes
	Caption  string        // what happens now, in a sentence
	Queue    []Entry
	Missing  []string // sentences about stopped workers whose entries have expired
	Highest  int64    // the highest token that the ledger has seen
	Balance  int64
	Writes   []ledger.Entry // the newest, the newest last
	Refused  []ledger.Refusal
	Log      []Note
	Grants   int
	Handoffs int
	P50, P99 time.Duration
}

// State is what the worker of an entry does.
type State uint8

// The states.
const (
	Waits State = iota
	Holds
	Killed
	Stopped
)

// Entry is one entry of the queue, in the order of the service.
type Entry struct {
	Worker string
	PID    int
	Token  int64
	State  State
	Since  time.Duration // how long it has been in that state
}

// Note is one line of the log.
type Note struct {
	At   time.Duration
	Text string
	Tone screen.Tone
}

// The smallest terminal on which the picture makes sense.
const (
	MinWidth  = 40
	MinHeight = 20
)

// The sizes of the picture. There can be one entry of each of the five workers, and that
// of a killed one.
const (
	maxWidth   = 80
	maxEntries = 6
	maxWrites  = 3
	fixedLines = 10 // lines that are always there, without those of entries and writes
	maxNotes   = 12
)

// Frame returns the live picture: at most height lines, cut so that they leave the last
// column free. After a terminal has written its last column, its cursor is between two
// lines, and terminals differ in what clears the rest of the line there.
func Frame(m *Model, width, height int) []screen.Line {
	width = min(width, maxWidth) - 1
	lines := []screen.Line{title(m, width), screen.Text(screen.Head, "%s", m.Caption), {}}
	lines = append(lines, queueLines(m)...)
	lines = append(lines, screen.Line{})
	lines = append(lines, ledgerLines(m)...)
	lines = append(lines, screen.Line{})
	lines = append(lines, logLines(m, min(height-fixedLines-maxEntries-maxWrites, maxNotes))...)
	lines = append(lines, screen.Line{}, progress(m))
	for i := range lines {
		lines[i] = lines[i].Cut(width)
	}
	return lines[:min(len(lines), max(height, 1))]
}

func title(m *Model, width int) screen.Line {
	left := headline(m.Terms, m.Lock, m.TTL)
	right := seconds(m.Elapsed)
	gap := max(1, width-len(left)-len(right))
	return screen.Line{{Text: left, Tone: screen.Head}, {Text: strings.Repeat(" ", gap) + right, Tone: screen.Dim}}
}

// headline names the lock, the service and the number of processes.
func headline(t check.Terms, lock string, ttl time.Duration) string {
	return fmt.Sprintf("fairlock demo: lock %q on %s, 5 processes, %s %s", lock, t.Service, t.Lease, ttl)
}

// queueLines returns the table of the entries.
func queueLines(m *Model) []screen.Line {
	out := []screen.Line{{{Text: "QUEUE", Tone: screen.Head}, {Text: fmt.Sprintf("          pid   token  state (as %s has it)", m.Terms.Service), Tone: screen.Dim}}}
	for i, e := range m.Queue {
		if i == maxEntries {
			break
		}
		state, tone := e.State.show(m.Terms)
		out = append(out, screen.Line{
			{Text: fmt.Sprintf(" %d ", i+1), Tone: screen.Dim},
			{Text: fmt.Sprintf("%-5.5s %8d  %6d  %s", screen.Printable(e.Worker), e.PID, e.Token, state), Tone: tone},
			{Text: fmt.Sprintf(" for %s", seconds(e.Since)), Tone: screen.Dim},
		})
	}
	for _, s := range m.Missing {
		if len(out) <= maxEntries {
			out = append(out, screen.Text(screen.Warn, "   %s", s))
		}
	}
	return fill(out, 1+maxEntries)
}

// show returns the text of a state, and its tone.
func (s State) show(t check.Terms) (string, screen.Tone) {
	switch s {
	case Waits:
	case Holds:
		return "HOLDS", screen.Good
	case Killed:
		return "KILLED, " + t.Lease + " runs out,", screen.Bad
	case Stopped:
		return "STOPPED, " + t.Lease + " runs out,", screen.Warn
	}
	return "waits", screen.Plain
}

// ledgerLines returns the ledger's balance, its newest writes and the newest refusal.
func ledgerLines(m *Model) []screen.Line {
	head := screen.Line{
		{Text: "THE LEDGER", Tone: screen.Head},
		{Text: fmt.Sprintf("  balance %d, refuses every token below ", m.Balance), Tone: screen.Dim},
		{Text: fmt.Sprint(m.Highest), Tone: screen.Plain},
	}
	var rows []screen.Line
	for _, w := range m.Writes {
		rows = append(rows, screen.Line{
			{Text: fmt.Sprintf("   %-5.5s writes balance %-6d", screen.Printable(w.Worker), w.Balance), Tone: screen.Plain},
			{Text: fmt.Sprintf(" token %d", w.Token), Tone: screen.Dim},
		})
	}
	n := len(m.Refused)
	if n > 0 {
		r := m.Refused[n-1]
		rows = append(rows, screen.Text(screen.Bad, "   %-5.5s REFUSED: token %d, and %d was here before", screen.Printable(r.Worker), r.Token, r.Highest))
	}
	rows = rows[max(0, len(rows)-maxWrites):]
	return append([]screen.Line{head}, fill(rows, maxWrites)...)
}

// logLines returns the last n notes of the log.
func logLines(m *Model, n int) []screen.Line {
	out := []screen.Line{screen.Text(screen.Head, "WHAT HAPPENED")}
	n = max(n, 0)
	for _, x := range m.Log[max(0, len(m.Log)-n):] {
		out = append(out, x.line())
	}
	return fill(out, 1+n)
}

// line returns a note with its time.
func (n Note) line() screen.Line {
	return screen.Line{{Text: fmt.Sprintf("%6s  ", seconds(n.At)), Tone: screen.Dim}, {Text: screen.Printable(n.Text), Tone: n.Tone}}
}

// barWidth is fixed, so that the bar does not move when the figures change.
const barWidth = 20

func progress(m *Model) screen.Line {
	done := 0
	if m.Expected > 0 {
		done = int(min(barWidth, barWidth*float64(m.Elapsed)/float64(m.Expected)))
	}
	figures := fmt.Sprintf("  %d grants", m.Grants)
	if m.Handoffs > 0 {
		figures += fmt.Sprintf(", hand-off p50 %s, p99 %s", millis(m.P50), millis(m.P99))
	}
	return screen.Line{{Text: "[" + strings.Repeat("#", done) + strings.Repeat(".", barWidth-done) + "]", Tone: screen.Dim}, {Text: figures, Tone: screen.Plain}}
}

// fill adds empty lines up to n, so that the lines below do not move.
func fill(lines []screen.Line, n int) []screen.Line {
	return append(slices.Clip(lines), make([]screen.Line, max(0, n-len(lines)))...)
}
