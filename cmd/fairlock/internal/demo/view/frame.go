package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/check"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/demo/ledger"
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
	Who   string
	PID   int
	Token int64
	State State
	Since time.Duration // how long it has been in that state
}

// Note is one line of the log.
type Note struct {
	At   time.Duration
	Text string
	Tone Tone
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
func Frame(m *Model, width, height int) []Line {
	width = min(width, maxWidth) - 1
	lines := []Line{title(m, width), text(Head, "%s", m.Caption), {}}
	lines = append(lines, line(m)...)
	lines = append(lines, Line{})
	lines = append(lines, book(m)...)
	lines = append(lines, Line{})
	lines = append(lines, notes(m, min(height-fixed-places-writes, maxNotes))...)
	lines = append(lines, Line{}, progress(m))
	for i := range lines {
		lines[i] = lines[i].cut(width)
	}
	return lines[:min(len(lines), max(height, 1))]
}

func title(m *Model, width int) Line {
	left := headline(m.Terms, m.Lock, m.TTL)
	right := seconds(m.Elapsed)
	gap := max(1, width-len(left)-len(right))
	return Line{{left, Head}, {strings.Repeat(" ", gap) + right, Dim}}
}

// headline says what is demonstrated on what.
func headline(t check.Terms, lock string, ttl time.Duration) string {
	return fmt.Sprintf("fairlock demo: lock %q on %s, 5 processes, %s %s", lock, t.Service, t.Lease, ttl)
}

// line is the line itself.
func line(m *Model) []Line {
	out := []Line{{{"THE LINE", Head}, {fmt.Sprintf("       pid   token  state (as %s has it)", m.Terms.Service), Dim}}}
	for i, p := range m.Line {
		if i == places {
			break
		}
		state, tone := p.State.show(m.Terms)
		out = append(out, Line{
			{fmt.Sprintf(" %d ", i+1), Dim},
			{fmt.Sprintf("%-5.5s %8d  %6d  %s", printable(p.Who), p.PID, p.Token, state), tone},
			{fmt.Sprintf(" for %s", seconds(p.Since)), Dim},
		})
	}
	for _, s := range m.Missing {
		if len(out) <= places {
			out = append(out, text(Warn, "   %s", s))
		}
	}
	return fill(out, 1+places)
}

// show is what a state is called.
func (s State) show(t check.Terms) (string, Tone) {
	switch s {
	case Waits:
	case Holds:
		return "HOLDS", Good
	case Killed:
		return "KILLED, " + t.Lease + " runs out,", Bad
	case Stopped:
		return "STOPPED, " + t.Lease + " runs out,", Warn
	}
	return "waits", Plain
}

// book is the ledger.
func book(m *Model) []Line {
	head := Line{
		{"THE LEDGER", Head},
		{fmt.Sprintf("  balance %d, refuses every token below ", m.Balance), Dim},
		{fmt.Sprint(m.Highest), Plain},
	}
	var rows []Line
	for _, w := range m.Writes {
		rows = append(rows, Line{
			{fmt.Sprintf("   %-5.5s writes balance %-6d", printable(w.Who), w.Balance), Plain},
			{fmt.Sprintf(" token %d", w.Token), Dim},
		})
	}
	if n := len(m.Refused); n > 0 {
		r := m.Refused[n-1]
		rows = append(rows, text(Bad, "   %-5.5s REFUSED: token %d, and %d was here before", printable(r.Who), r.Token, r.Highest))
	}
	rows = rows[max(0, len(rows)-writes):]
	return append([]Line{head}, fill(rows, writes)...)
}

// notes is the end of the log.
func notes(m *Model, n int) []Line {
	out := []Line{text(Head, "WHAT HAPPENED")}
	n = max(n, 0)
	for _, x := range m.Log[max(0, len(m.Log)-n):] {
		out = append(out, x.line())
	}
	return fill(out, 1+n)
}

// line returns a note as it is shown, with its time.
func (n Note) line() Line {
	return Line{{fmt.Sprintf("%6s  ", seconds(n.At)), Dim}, {printable(n.Text), n.Tone}}
}

// barWidth leaves room for the figures, so that the bar does not move with them.
const barWidth = 20

func progress(m *Model) Line {
	done := 0
	if m.Expected > 0 {
		done = int(min(barWidth, barWidth*float64(m.Elapsed)/float64(m.Expected)))
	}
	figures := fmt.Sprintf("  %d grants", m.Grants)
	if m.Handoffs > 0 {
		figures += fmt.Sprintf(", hand-off p50 %s, p99 %s", millis(m.P50), millis(m.P99))
	}
	return Line{{"[" + strings.Repeat("#", done) + strings.Repeat(".", barWidth-done) + "]", Dim}, {figures, Plain}}
}

// fill adds empty lines, so that what is below stays where it is.
func fill(lines []Line, n int) []Line {
	return append(slices.Clip(lines), make([]Line, max(0, n-len(lines)))...)
}
