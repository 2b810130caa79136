package show

import (
	"cmp"
	"fmt"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/internal/schema"
)

// Header describes a queue in a single line: its name and kind, how much is held, and how
// many entries wait.
func Header(l schema.Queue) screen.Line {
	var permits int64
	leader := ""
	for _, e := range l.Entries {
		if e.State == schema.Holder {
			permits += e.Weight
			leader = cmp.Or(leader, e.Value)
		}
	}
	state := Count(l.Holders, "holder")
	switch {
	case l.Limit > 0:
		state = fmt.Sprintf("%d of %s", permits, Count(int(l.Limit), "permit"))
		if permits > l.Limit { // the limit has been lowered
			state = fmt.Sprintf("%s, limit %d", Count(int(permits), "permit"), l.Limit)
		}
	case l.Kind == "election" && leader != "":
		state = "leader " + leader
	case l.Kind == "election":
		state = Count(l.Holders, "leader")
	case l.Holders > 0 && l.Entries[0].Mode == "shared":
		state = Count(l.Holders, "reader")
	}
	text := fmt.Sprintf("  %s, %s, %d waiting", Kind(l), state, l.Waiters)
	return screen.Line{{Text: screen.Printable(l.Name), Tone: screen.Head}, {Text: screen.Printable(text), Tone: screen.Plain}}
}

// Count returns a number with its noun: "1 lock", "2 locks".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Does returns what an entry does with a lock, and for how long. Only the holder's own record
// shows since when it has held.
func Does(name string, e schema.Entry) string {
	switch {
	case e.State != schema.Holder:
		return fmt.Sprintf("has waited for %q for %s, with token %d", name, Ago(e.Queued), e.Token)
	case !e.Granted.IsZero():
		return fmt.Sprintf("has held %q with token %d for %s", name, e.Token, Ago(e.Held))
	case !e.Since.IsZero():
		return fmt.Sprintf("holds %q with token %d and asked for it %s ago", name, e.Token, Ago(e.Queued))
	}
	return fmt.Sprintf("holds %q with token %d", name, e.Token)
}
