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

	locks  []schema.Queue // of the last read
	unread error          // why some locks are missing
	queue  schema.Queue   // the open queue, of the last read
	open   string         // the name of the open queue; "" while the list is shown
	at     time.Time      // of the last read that was answered
	stale  bool           // the last read was not answered

	order  order
	filter string
	typing bool // keys go to the filter

	list, entries cursor // the selected rows of the two tables

	question *question
	message  string // the result of the last action, until the next key
	help     bool
	asked    []string // the names of the locks that have a yield request of ours
}

// question is an action that the user has to confirm with y.
type question struct {
	text string
	do   Command
}

// Update returns the state after an event, and what Run is to do.
func Update(s State, e Event) (State, Command) {
	var do Command
	switch e := e.(type) {
	case Key:
		s, do = s.pressed(e)
	case Resize:
		s.Width, s.Height = e.Width, e.Height
	case Locks:
		s.at, s.stale = e.At, false
		s.locks, s.unread = e.Queues, e.Unread
	case Queue:
		if e.Queue.Name != s.open {
			break // the user has closed it
		}
		s.at, s.stale = e.At, false
		s.queue = e.Queue
	case Unanswered:
		s.stale = true
	case Done:
		s = s.done(e)
	}
	return s.settled(), do
}

// settled keeps the cursor on a row that exists, and that row in the part that is shown.
func (s State) settled() State {
	if s.open == "" {
		s.list = s.list.over(s.names(), s.room())
	} else {
		s.entries = s.entries.over(s.ids(), s.room())
	}
	return s
}

// done returns the state after the result of an action.
func (s State) done(e Done) State {
	if e.Command.Do == SessionLost && len(s.asked) == 0 {
		return s // no request of the user was lost
	}
	s.message = e.Text
	without := slices.DeleteFunc(slices.Clone(s.asked), func(n string) bool { return n == e.Command.Name })
	switch e.Command.Do {
	case SessionLost:
		s.asked = nil
	case Ask:
		s.asked = without
		if !e.Failed {
			s.asked = append(without, e.Command.Name)
		}
	case Withdraw:
		s.asked = without
	case Nothing, Quit, Read, Evict:
	}
	return s
}

// shown returns the locks that match the filter, sorted.
func (s State) shown() []schema.Queue {
	want := strings.ToLower(s.filter)
	found := slices.DeleteFunc(slices.Clone(s.locks), func(l schema.Queue) bool {
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

// ids identifies the entries of the open queue by their tokens: the place of an entry
// changes while it exists.
func (s State) ids() []string {
	var all []string
	for _, e := range s.queue.Entries {
		all = append(all, id(e))
	}
	return all
}

func id(e schema.Entry) string {
	if e.Token == 0 { // it was deleted before it was read
		return e.Key
	}
	return strconv.FormatInt(e.Token, 10)
}

// lock returns the lock that actions apply to: the open or the selected one.
func (s State) lock() (schema.Queue, bool) {
	if s.open != "" {
		return s.queue, len(s.queue.Entries) > 0
	}
	for _, l := range s.locks {
		if l.Name == s.list.id {
			return l, true
		}
	}
	return schema.Queue{}, false
}

// cursor is a selected row, by its id, and the first row that is shown.
type cursor struct {
	id        string
	at, first int
}

// over returns the cursor for new rows. It stays on its row, or at its position if that
// row is gone. It scrolls so that the row is shown.
func (c cursor) over(ids []string, room int) cursor {
	if len(ids) == 0 {
		return cursor{}
	}
	i := slices.Index(ids, c.id)
	if i >= 0 {
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

// moved selects the row n rows further down.
func (c cursor) moved(ids []string, n int) cursor {
	if len(ids) > 0 {
		c.at = min(max(c.at+n, 0), len(ids)-1)
		c.id = ids[c.at]
	}
	return c
}
