package top

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/fairlock/internal/schema"
)

// State is what the user sees. The zero State with a size shows no locks.
type State struct {
	Service       string // for the title
	Width, Height int

	locks []schema.Line // as they were last read
	queue schema.Line   // the open one, as it was last read
	open  string        // the name of the open queue; "" while the list is shown
	at    time.Time     // of the last read that was answered
	stale bool          // the last read was not answered

	order  order
	filter string
	typing bool // keys go to the filter

	list, entries cursor // the selected rows of the two tables

	question *question
	message  string // what came of the last action, until the next key
	help     bool
	asked    []string // the names for which our yield requests stand
}

// question is an action that waits for a y.
type question struct {
	text string
	do   Command
}

// Update returns the state after an event, and what is to be done about it.
func Update(s State, e Event) (State, Command) {
	var do Command
	switch e := e.(type) {
	case Key:
		s, do = s.pressed(e)
	case Resize:
		s.Width, s.Height = e.Width, e.Height
	case Locks:
		s.at, s.stale = e.At, false
		s.locks = e.Lines
	case Queue:
		if e.Line.Name != s.open {
			break // the user has left it
		}
		s.at, s.stale = e.At, false
		s.queue = e.Line
	case Unanswered:
		s.stale = true
	case Done:
		s = s.done(e)
	}
	return s.settled(), do
}

// settled keeps both cursors on rows that exist and in the part that is shown.
func (s State) settled() State {
	if s.open == "" {
		s.list = s.list.over(s.names(), s.room())
	} else {
		s.entries = s.entries.over(s.ids(), s.room())
	}
	return s
}

// done notes what came of an action.
func (s State) done(e Done) State {
	if e.Command.Do == Lapsed && len(s.asked) == 0 {
		return s // which nobody has to know
	}
	s.message = e.Text
	without := slices.DeleteFunc(slices.Clone(s.asked), func(n string) bool { return n == e.Command.Name })
	switch e.Command.Do {
	case Lapsed:
		s.asked = nil
	case Ask:
		if s.asked = without; !e.Failed {
			s.asked = append(without, e.Command.Name)
		}
	case Withdraw:
		s.asked = without
	case Nothing, Quit, Read, Evict:
	}
	return s
}

// shown are the locks that match the filter, in their order.
func (s State) shown() []schema.Line {
	want := strings.ToLower(s.filter)
	found := slices.DeleteFunc(slices.Clone(s.locks), func(l schema.Line) bool {
		var text strings.Builder
		text.WriteString(l.Name)
		for _, e := range l.Entries[:min(l.Holders, len(l.Entries))] {
			text.WriteString("\n" + e.Who())
		}
		return !strings.Contains(strings.ToLower(text.String()), want)
	})
	slices.SortStableFunc(found, s.order.compare)
	return found
}

func (s State) names() []string {
	var all []string
	for _, l := range s.shown() {
		all = append(all, l.Name)
	}
	return all
}

// ids name the entries of the open queue: by token, because neither the place nor
// the key of an entry is its own for as long as it lives.
func (s State) ids() []string {
	var all []string
	for _, e := range s.queue.Entries {
		all = append(all, id(e))
	}
	return all
}

func id(e schema.Entry) string {
	if e.Token == 0 { // it was gone before it was read
		return e.Key
	}
	return strconv.FormatInt(e.Token, 10)
}

// lock returns the lock that actions are about.
func (s State) lock() (schema.Line, bool) {
	if s.open != "" {
		return s.queue, len(s.queue.Entries) > 0
	}
	for _, l := range s.locks {
		if l.Name == s.list.id {
			return l, true
		}
	}
	return schema.Line{}, false
}

// cursor is a selected row, by its id, and the first row that is shown.
type cursor struct {
	id        string
	at, first int
}

// over keeps the cursor on its row when rows change, on its place when the row is
// gone, and in the part that is shown.
func (c cursor) over(ids []string, room int) cursor {
	if len(ids) == 0 {
		return cursor{}
	}
	if i := slices.Index(ids, c.id); i >= 0 {
		c.at = i
	}
	c.at = min(max(c.at, 0), len(ids)-1)
	c.id = ids[c.at]
	room = max(room, 1)
	c.first = min(c.first, c.at)
	c.first = max(c.first, c.at-room+1)
	c.first = max(min(c.first, len(ids)-room), 0)
	return c
}

// moved selects the row that is n further down.
func (c cursor) moved(ids []string, n int) cursor {
	if len(ids) > 0 {
		c.at = min(max(c.at+n, 0), len(ids)-1)
		c.id = ids[c.at]
	}
	return c
}
