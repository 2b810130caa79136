package show

import (
	"fmt"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/internal/schema"
)

// Event returns an event as a line of text:
//
//	17:36:23.250  granted   orders/settle  web-3 pid 77, token 815, after 12.2s
func Event(e schema.Event) screen.Line {
	tone := screen.Plain
	what := fmt.Sprintf(", token %d", e.Entry.Token)
	switch e.Event {
	case schema.Granted:
		tone = screen.Good
	case schema.Released:
		tone = screen.Head
	case schema.Gone, schema.Evicted:
		tone = screen.Warn
	case schema.Queued:
		what = fmt.Sprintf(", place %d", e.Entry.Place)
	case schema.Moved:
		tone, what = screen.Dim, fmt.Sprintf(", place %d after %d", e.Entry.Place, e.From)
	}
	if e.Entry.Mode != "exclusive" {
		what += ", " + Mode(e.Entry)
	}
	return screen.Line{
		{Text: e.Time.Local().Format("15:04:05.000") + "  ", Tone: screen.Dim},
		{Text: fmt.Sprintf("%-8s  ", e.Event), Tone: tone},
		{Text: screen.Printable(e.Name+"  "+e.Entry.Who()) + what, Tone: screen.Plain},
	}
}
