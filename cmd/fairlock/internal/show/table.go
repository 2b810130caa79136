package show

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/internal/schema"
)

// Rows collect the rows of a table. All cells are made printable.
type Rows struct {
	cells [][]string
	tones []screen.Tone
}

// NewRows begins a table with its head.
func NewRows(head ...string) *Rows {
	r := &Rows{}
	r.Add(screen.Head, head...)
	return r
}

// Add adds a row. An empty cell is shown as "-", so that columns can be counted.
func (r *Rows) Add(tone screen.Tone, cells ...string) {
	for i, c := range cells {
		cells[i] = screen.Printable(c)
		if c == "" {
			cells[i] = "-"
		}
	}
	r.cells, r.tones = append(r.cells, cells), append(r.tones, tone)
}

// Lines returns the rows, with aligned columns.
func (r *Rows) Lines() []screen.Line {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, cells := range r.cells {
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	_ = t.Flush() // a Buffer takes everything
	var all []screen.Line
	for i, tone := range r.tones {
		text, _ := b.ReadString('\n')
		if i == 0 || text != "" {
			all = append(all, screen.Line{{Text: strings.TrimRight(text, " \n"), Tone: tone}})
		}
	}
	return all
}

// Print writes lines. It does not cut them: a line that does not fit the terminal wraps, so
// a copy of it is complete.
func (o *Output) Print(w io.Writer, lines ...screen.Line) { screen.Print(w, o.Paint(w), 0, lines...) }

// List returns the table of locks. Wide has more columns.
func List(queues []schema.Queue, wide bool) *Rows {
	head := []string{"NAME", "KIND", "HOLDER", "HELD", "WAITERS", "OLDEST"}
	if wide {
		head = append(head, "QUEUED", "TOKEN", "LIMIT", "SESSION")
	}
	r := NewRows(head...)
	for _, l := range queues {
		_, tone := Mark(l)
		h := firstHolder(l)
		row := []string{l.Name, Kind(l), Holders(l), Short(h.Held), strconv.Itoa(l.Waiters), Short(l.OldestWait)}
		if wide {
			row = append(row, Short(h.Queued), Number(h.Token), Number(l.Limit), h.Session)
		}
		r.Add(tone, row...)
	}
	return r
}

// How long the oldest waiter of a lock waits before the lock is marked.
const (
	WaitsLong     = 30 * time.Second
	WaitsVeryLong = 5 * time.Minute
)

// Mark returns the mark and the tone of a lock whose oldest waiter waits long. An election has none:
// its candidates stand by.
func Mark(l schema.Queue) (string, screen.Tone) {
	d := time.Duration(l.OldestWait)
	switch {
	case l.Kind == "election":
	case d >= WaitsVeryLong:
		return "!!", screen.Bad
	case d >= WaitsLong:
		return "!", screen.Warn
	}
	return "", screen.Plain
}

// Kind returns the recipe, or "foreign" if the entries are of other programs.
func Kind(l schema.Queue) string {
	if l.Kind == "" && len(l.Entries) > 0 {
		return "foreign"
	}
	return l.Kind
}

func firstHolder(l schema.Queue) schema.Entry {
	if l.Holders == 0 {
		return schema.Entry{}
	}
	return l.Entries[0]
}

// Holders names the first holder, a leader by the value that it proposes, and returns how
// many more there are.
func Holders(l schema.Queue) string {
	switch l.Holders {
	case 0:
		return ""
	case 1:
		e := l.Entries[0]
		if e.Value != "" && e.Host != "" {
			e.Label = ""
			return fmt.Sprintf("%s (%s)", e.Value, e.Who())
		}
		return l.Entries[0].Who()
	}
	return fmt.Sprintf("%s +%d", l.Entries[0].Who(), l.Holders-1)
}

// Queue returns the table of a queue: holders and waiters in order.
func Queue(l schema.Queue, wide bool) *Rows {
	head := []string{"PLACE", "STATE", "TOKEN", "MODE", "HOST", "PID", "LABEL", "ASKED", "QUEUED", "HELD"}
	values := wide || slices.ContainsFunc(l.Entries, func(e schema.Entry) bool { return e.Value != "" })
	if values {
		head = append(head, "VALUE")
	}
	generations := slices.ContainsFunc(l.Entries, func(e schema.Entry) bool { return e.Generation != 0 })
	if generations {
		head = append(head, "GENERATION")
	}
	if wide {
		head = append(head, "HOLDS", "SESSION", "KEY")
	}
	r := NewRows(head...)
	for _, e := range l.Entries {
		tone := screen.Plain
		switch {
		case e.Unleased:
			tone = screen.Bad
		case e.State == schema.Holder:
			tone = screen.Good
		}
		row := []string{
			strconv.Itoa(e.Place), e.State, Number(e.Token), Mode(e), Host(e), Number(int64(e.PID)), e.Label, clock(e.Since), Short(e.Queued), Short(e.Held),
		}
		if values {
			row = append(row, e.Value)
		}
		if generations {
			row = append(row, Number(e.Generation))
		}
		if wide {
			row = append(row, strings.Join(e.Holds, ","), e.Session, e.Key)
		}
		r.Add(tone, row...)
	}
	return r
}

// Asks returns the yield requests for a lock, one per line.
func Asks(all []schema.Ask) (lines []screen.Line) {
	for _, a := range all {
		text := "asked to yield by " + a.Who()
		at := clock(a.Since)
		if at != "" {
			text += " since " + at
		}
		if a.Reason != "" {
			text += ": " + a.Reason
		}
		lines = append(lines, screen.Text(screen.Warn, "%s", screen.Printable(text)))
	}
	return lines
}

// Mode returns the mode of an entry, or its weight.
func Mode(e schema.Entry) string {
	if e.Weight > 0 {
		return "weight " + strconv.FormatInt(e.Weight, 10)
	}
	return e.Mode
}

// Host returns the host of an entry, or a note on an entry of another program.
func Host(e schema.Entry) string {
	switch {
	case e.Unleased:
		return "(foreign, no session)"
	case e.Host == "" && e.Foreign:
		return "(foreign)"
	}
	return e.Host
}

// Number formats a number, 0 as "".
func Number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// clock formats a time in the local zone, and with that zone.
func clock(t schema.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime + " -0700")
}

// Ago formats a duration for a sentence.
func Ago(s schema.Seconds) string { return cmp.Or(Short(s), "a moment") }

// Short formats a duration with its two largest units, 0 as "".
func Short(s schema.Seconds) string {
	d := time.Duration(s)
	switch {
	case d == 0:
		return ""
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Truncate(100 * time.Millisecond).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}
