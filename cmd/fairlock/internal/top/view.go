package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/schema"
)

// Row is one line of the screen.
type Row struct {
	screen.Line

	Selected bool
}

// keysLine is the last line of the list while there is no message or question.
const keysLine = "q quit  ? keys  Enter queue  / filter  s sort  a ask  e evict"

const queueKeysLine = "Esc back  q quit  ? keys  a ask  e evict"

// helpText is shown by "?".
func helpText() []string {
	return []string{
		"Keys", "",
		"Up Down j k   select a row",
		"PgUp PgDn     a page up or down",
		"Home End      the first or last row",
		"s > <         sort by another column",
		"/             filter by name or holder",
		"Enter         show the queue; Esc back",
		"a             ask the holders to yield,",
		"              or withdraw the request",
		"e             evict the selected entry",
		"q ^C          quit", "",
		"! and yellow: the oldest waiter has",
		fmt.Sprintf("waited for %s or more;", short(show.WaitsLong)),
		fmt.Sprintf("!! and red: for %s or more.", short(show.WaitsVeryLong)),
		"Candidates of an election stand by.",
		"A yield request stands until you",
		"withdraw it or quit.", "",
		"Any key closes this.",
	}
}

func short(d time.Duration) string {
	if d%time.Minute == 0 {
		return strconv.Itoa(int(d/time.Minute)) + " min"
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}

// View draws a state, in at most its height and width.
func View(s State) []Row {
	rows := s.head()
	if s.help {
		for _, text := range helpText() {
			rows = append(rows, Row{Line: screen.Text(screen.Plain, "%s", text)})
		}
		if s.Height < len(rows) { // the title is left out before the keys
			rows = rows[min(len(rows)-s.Height, len(s.head())):]
		}
	} else {
		table, at := s.table()
		first, last := s.part(len(table) - 1)
		rows = append(rows, Row{Line: table[0]})
		for i := first; i < last; i++ {
			rows = append(rows, Row{Line: table[i+1], Selected: i == at})
		}
		foot := s.foot()
		for len(rows) < s.Height-len(foot) {
			rows = append(rows, Row{})
		}
		rows = append(rows[:min(len(rows), max(s.Height-len(foot), 0))], foot...)
	}
	rows = rows[:min(len(rows), s.Height)]
	for i := range rows {
		rows[i].Line = rows[i].Cut(s.Width)
	}
	return rows
}

// head returns the title and the lines between it and the table.
func (s State) head() []Row {
	title := screen.Line{{Text: "fairlock top: " + s.Service, Tone: screen.Head}}
	at := s.at.Local().Format(time.TimeOnly)
	switch {
	case s.at.IsZero() && s.stale:
		title = append(screen.Text(screen.Bad, "NO ANSWER  "), title...)
	case s.at.IsZero():
		title = append(title, screen.Text(screen.Dim, "  reading")...)
	case s.stale:
		title = append(screen.Text(screen.Bad, "NO ANSWER SINCE %s  ", at), title...)
	default:
		title = append(title, screen.Text(screen.Dim, "  %s", at)...)
	}
	rows := []Row{{Line: title}, {Line: s.summary()}}
	if s.open != "" {
		for _, l := range show.Asks(s.queue.Asks) {
			rows = append(rows, Row{Line: l})
		}
		rows = rows[:min(len(rows), 2+mostAsks)]
	}
	if s.Height >= roomy {
		rows = append(rows, Row{})
	}
	return rows
}

const (
	roomy    = 10 // the least height with an empty line above the table
	mostAsks = 2  // yield requests that are shown above a queue
)

// summary returns the line that counts what the table shows.
func (s State) summary() screen.Line {
	if s.open != "" {
		if len(s.queue.Entries) == 0 {
			return screen.Text(screen.Plain, "%s: no holder and no waiter any more", screen.Printable(s.open))
		}
		return append(show.Header(s.queue), s.position(len(s.queue.Entries))...)
	}
	shown := s.shown()
	holders, waiters := 0, 0
	for _, l := range shown {
		holders, waiters = holders+l.Holders, waiters+l.Waiters
	}
	text := fmt.Sprintf("%s, %s, %s", show.Count(len(shown), "lock"), show.Count(holders, "holder"), show.Count(waiters, "waiter"))
	if s.filter != "" && !s.typing {
		text += fmt.Sprintf(", filter %q of %d", s.filter, len(s.locks))
	}
	line := append(screen.Text(screen.Plain, "%s, by %s", text, s.order), s.position(len(shown))...)
	if s.unread != nil {
		line = append(line, screen.Text(screen.Bad, "  %s", screen.Printable(s.unread.Error()))...)
	}
	return line
}

// position returns which part of the rows is shown, if not all are.
func (s State) position(n int) screen.Line {
	first, last := s.part(n)
	if last-first >= n {
		return nil
	}
	return screen.Text(screen.Dim, "  %d-%d of %d", first+1, last, n)
}

// part returns which of n rows are shown.
func (s State) part(n int) (first, last int) {
	c := s.list
	if s.open != "" {
		c = s.entries
	}
	return min(c.first, n), min(c.first+max(s.room(), 0), n)
}

// room returns how many rows of the table fit, without its head.
func (s State) room() int {
	above := 3 // title, summary, head of the table
	if s.open != "" {
		above += min(len(s.queue.Asks), mostAsks)
	}
	if s.Height >= roomy {
		above++
	}
	return s.Height - above - len(s.foot())
}

// foot returns the last lines: a question in full, the filter, a message or the keys.
func (s State) foot() []Row {
	tone, text := screen.Dim, keysLine
	switch {
	case s.question != nil:
		tone, text = screen.Warn, s.question.text
	case s.typing:
		tone, text = screen.Plain, "/"+screen.Printable(s.filter)+"_"
	case s.message != "":
		tone, text = screen.Head, s.message
	case s.open != "":
		text = queueKeysLine
	}
	var rows []Row
	for _, l := range wrapped(text, s.Width) {
		rows = append(rows, Row{Line: screen.Text(tone, "%s", l)})
	}
	if tone == screen.Dim {
		rows = rows[:1]
	}
	return rows
}

// wrapped breaks text into lines of at most width, at spaces where it can.
func wrapped(text string, width int) []string {
	var lines []string
	rest := []rune(text)
	for len(rest) > max(width, 1) {
		at := max(width, 1)
		for i := at; i > 0; i-- {
			if rest[i] == ' ' {
				at = i
				break
			}
		}
		lines = append(lines, strings.TrimRight(string(rest[:at]), " "))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
	}
	return append(lines, string(rest))
}

// table returns all rows of the table, with its head, and the index of the selected row.
func (s State) table() ([]screen.Line, int) {
	if s.open != "" {
		return s.queueTable(), s.entries.at
	}
	t := newTable(
		column{title: "NAME", least: 10}, column{title: "KIND", drop: 2}, column{title: "HOLDER", least: 14, drop: 1},
		column{title: "HELD", drop: 3}, column{title: "WAITERS"}, column{title: "OLDEST"},
	)
	for i := range t.columns {
		t.columns[i].marked = t.columns[i].title == s.order.column()
	}
	for _, l := range s.shown() {
		mark, tone := show.Mark(l)
		oldest := show.Short(l.OldestWait)
		if mark != "" {
			oldest += " " + mark
		}
		t.add(tone, l.Name, show.Kind(l), show.Holders(l), show.Short(held(l)), strconv.Itoa(l.Waiters), oldest)
	}
	return t.lines(s.Width), s.list.at
}

func (s State) queueTable() []screen.Line {
	t := newTable(
		column{title: "PLACE"}, column{title: "STATE"}, column{title: "TOKEN", drop: 4}, column{title: "MODE", drop: 6},
		column{title: "HOST", least: 6, drop: 2}, column{title: "PID", drop: 3}, column{title: "LABEL", least: 6},
		column{title: "QUEUED"}, column{title: "HELD", drop: 1},
	)
	for _, e := range s.queue.Entries {
		tone := screen.Plain
		switch {
		case e.Unleased:
			tone = screen.Bad
		case e.State == schema.Holder:
			tone = screen.Good
		}
		t.add(tone, strconv.Itoa(e.Place), e.State, show.Number(e.Token), show.Mode(e), show.Host(e), show.Number(int64(e.PID)), e.Label,
			show.Short(e.Queued), show.Short(e.Held))
	}
	return t.lines(s.Width)
}
