package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/schema"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
)

// Picture is what top shows: all locks, those first for which most wait, in at
// most height lines that leave the last column of the terminal free.
func Picture(title string, lines []schema.Line, now time.Time, width, height int) []screen.Line {
	holders, waiters := 0, 0
	for _, l := range lines {
		holders, waiters = holders+l.Holders, waiters+l.Waiters
	}
	out := []screen.Line{
		{{Text: title, Tone: screen.Head}, {Text: "  " + now.Local().Format(time.TimeOnly), Tone: screen.Dim}},
		append(screen.Text(screen.Plain, "%s, %s, %s", count(len(lines), "lock"), count(holders, "holder"), count(waiters, "waiter")),
			screen.Text(screen.Dim, ", ^C ends this")...),
		{},
	}
	table := List(busiest(lines), false).Lines()
	room := max(height-len(out), 0)
	if len(table) > room && room > 1 {
		more := len(table) - (room - 1)
		table = append(table[:room-1], screen.Text(screen.Dim, "and %d more", more))
	}
	out = append(out, table...)
	out = out[:min(len(out), height)]
	for i := range out {
		out[i] = out[i].Cut(width - 1)
	}
	return out
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// busiest sorts lines by how many wait, then by how long the oldest has.
func busiest(lines []schema.Line) []schema.Line {
	return slices.SortedFunc(slices.Values(lines), func(a, b schema.Line) int {
		return cmp.Or(
			cmp.Compare(b.Waiters, a.Waiters),
			cmp.Compare(b.OldestWait, a.OldestWait),
			strings.Compare(a.Name, b.Name),
		)
	})
}
