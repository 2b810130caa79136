package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/ledger"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
)

// Model is all that the live picture shows.
type Model struct {
	Terms    check.Terms
	Lock     string
	TTL      time.Duration
	Elapsed  time.Duration
	Expected time.Duration // how long the whole will take, about
	Caption  string        // what happens now, in a sentence
	Line     []Place
	Missing  []string // sentences about workers that are not in the line but should know
	Highest  int64    // the highest token that the ledger has seen
	Balance  int64
	Writes   []ledger.Entry // the newest, the newest last
	Refused  []ledger.Refusal
	Log      []Note
	Grants   int
	Handoffs int
	P50, P99 time.Duration
}

// State says what somebody in the line does.
type State uint8

// The states.
const (
	Waits State = iota
	Holds
	Killed
	Stopped
)

// Place is one entry of the line, as the store has it.
type Place struct {
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

// The least terminal that the picture makes sense on.
const (
	MinWidth  = 40
	MinHeight = 20
)

// What the picture is made of. The places are as many as there can be: the five
// and a dead one.
const (
	maxWidth = 80
	places   = 6
	writes   = 3
	fixed    = 10 // lines that are always there, places and writes not counted
	maxNotes = 12
)

// Frame returns the live picture: at most height lines, cut so that they leave
// the last column of the terminal free. A terminal that has written its last
// column is between two lines, and what clears the rest of the line there
// differs from one to the other.
func Frame(m *Model, width, height int) []screen.Line {
	width = min(width, maxWidth) - 1
	lines := []screen.Line{title(m, width), screen.Text(screen.Head, "%s", m.Caption), {}}
	lines = append(lines, line(m)...)
	lines = append(lines, screen.Line{})
	lines = append(lines, book(m)...)
	lines = append(lines, screen.Line{})
	lines = append(lines, notes(m, min(height-fixed-places-writes, maxNotes))...)
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

// headline says what is demonstrated on what.
func headline(t check.Terms, lock string, ttl time.Duration) string {
	return fmt.Sprintf("fairlock demo: lock %q on %s, 5 processes, %s %s", lock, t.Service, t.Lease, ttl)
}

// line is the line itself.
func line(m *Model) []screen.Line {
	out := []screen.Line{{{Text: "QUEUE", Tone: screen.Head}, {Text: fmt.Sprintf("          pid   token  state (as %s has it)", m.Terms.Service), Tone: screen.Dim}}}
	for i, p := range m.Line {
		if i == places {
			break
		}
		state, tone := p.State.show(m.Terms)
		out = append(out, screen.Line{
			{Text: fmt.Sprintf(" %d ", i+1), Tone: screen.Dim},
			{Text: fmt.Sprintf("%-5.5s %8d  %6d  %s", screen.Printable(p.Worker), p.PID, p.Token, state), Tone: tone},
			{Text: fmt.Sprintf(" for %s", seconds(p.Since)), Tone: screen.Dim},
		})
	}
	for _, s := range m.Missing {
		if len(out) <= places {
			out = append(out, screen.Text(screen.Warn, "   %s", s))
		}
	}
	return fill(out, 1+places)
}

// show is what a state is called.
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

// book is the ledger.
func book(m *Model) []screen.Line {
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
	if n := len(m.Refused); n > 0 {
		r := m.Refused[n-1]
		rows = append(rows, screen.Text(screen.Bad, "   %-5.5s REFUSED: token %d, and %d was here before", screen.Printable(r.Worker), r.Token, r.Highest))
	}
	rows = rows[max(0, len(rows)-writes):]
	return append([]screen.Line{head}, fill(rows, writes)...)
}

// notes is the end of the log.
func notes(m *Model, n int) []screen.Line {
	out := []screen.Line{screen.Text(screen.Head, "WHAT HAPPENED")}
	n = max(n, 0)
	for _, x := range m.Log[max(0, len(m.Log)-n):] {
		out = append(out, x.line())
	}
	return fill(out, 1+n)
}

// line returns a note as it is shown, with its time.
func (n Note) line() screen.Line {
	return screen.Line{{Text: fmt.Sprintf("%6s  ", seconds(n.At)), Tone: screen.Dim}, {Text: screen.Printable(n.Text), Tone: n.Tone}}
}

// barWidth leaves room for the figures, so that the bar does not move with them.
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

// fill adds empty lines, so that what is below stays where it is.
func fill(lines []screen.Line, n int) []screen.Line {
	return append(slices.Clip(lines), make([]screen.Line, max(0, n-len(lines)))...)
}
