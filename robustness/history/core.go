package history

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	maxMinimized = 200 // up to so many turns, core tries to leave out single ones
	maxDescribed = 8   // turns that a text names
	maxDrawn     = 120 // turns in a picture, in addition to the core
)

// core returns a few of the turns that cannot be put in order. A refused set of turns
// is still refused with more turns, and an accepted set is accepted with fewer. So a
// binary search finds the end of the first refused set, and another its beginning.
func (m *modelCheck) core(turns []turn) []turn {
	refused := func(some []turn) bool { return m.check(some, m.key) != porcupine.Ok }
	end := 1 + sort.Search(len(turns)-1, func(n int) bool { return refused(turns[:n+1]) })
	turns = turns[:end]
	begin := sort.Search(end-1, func(n int) bool { return !refused(turns[n+1:]) })
	turns = slices.Clone(turns[begin:])
	if len(turns) > maxMinimized {
		return turns
	}
	for i := len(turns) - 1; i >= 0 && len(turns) > 1; i-- {
		without := slices.Delete(slices.Clone(turns), i, i+1)
		if refused(without) {
			turns = without
		}
	}
	return turns
}

// property returns the property that a core breaks: S1 if the holds exclude each other
// in every order, S2 if grants and tokens alone contradict each other, else S4.
func (m *modelCheck) property(core []turn) string {
	if m.check(core, m.key) == porcupine.Unknown {
		return "model"
	}
	if m.check(core, nil) != porcupine.Ok {
		return "S1"
	}
	bare := make([]Attempt, 0, len(core))
	for _, t := range core {
		a := *t.first()
		a.Held, a.Outcome = 0, NotReleased
		bare = append(bare, a)
	}
	alone := newModelCheck(m.queue, bare, m.within)
	if core[0].first().Token != 0 && alone.check(alone.turns, alone.key) != porcupine.Ok {
		return "S2"
	}
	return "S4"
}

// text describes what the clients of a core saw.
func (m *modelCheck) text(property string, core []turn) string {
	if property == "model" {
		return fmt.Sprintf("not decided within %s: %d grants", m.within, len(core))
	}
	start := Instant(math.MaxInt64)
	for _, t := range core {
		start = min(start, t.first().Asked)
	}
	var lines []string
	for i, t := range core {
		if i == maxDescribed {
			lines = append(lines, fmt.Sprintf("and %d more", len(core)-i))
			break
		}
		for _, a := range t.all() {
			lines = append(lines, a.describe(start))
		}
	}
	return "no order explains what was seen: " + strings.Join(lines, "; ")
}

// describe returns the record of a hold in a single line, with times since start.
func (a *Attempt) describe(start Instant) string {
	at := func(i Instant) string { return time.Duration(i - start).Round(time.Microsecond).String() }
	var text strings.Builder
	text.WriteString(fmt.Sprintf("client %d", a.Client))
	switch {
	case a.Nested:
		text.WriteString(" nested")
	case a.Shared:
		text.WriteString(" shared")
	case a.Weight > 1:
		text.WriteString(fmt.Sprintf(" %d permits", a.Weight))
	}
	if a.Token != 0 {
		text.WriteString(fmt.Sprintf(", token %d", a.Token))
	} else if a.Place != 0 {
		text.WriteString(fmt.Sprintf(", place %d", a.Place))
	}
	text.WriteString(fmt.Sprintf(", asked %s", at(a.Asked)))
	for _, moment := range []struct {
		what string
		at   Instant
	}{{"granted", a.Got}, {"held", a.Held}, {"notified", a.Told}, {"over", a.Over}, {"release", a.Back}, {"done", a.Done}} {
		if moment.at != 0 {
			text.WriteString(fmt.Sprintf(", %s %s", moment.what, at(moment.at)))
		}
	}
	if a.Outcome != NotReleased {
		text.WriteString(", " + string(a.Outcome))
	}
	if a.Fault != "" {
		text.WriteString(", under " + a.Fault)
	}
	return text.String()
}

// Picture draws, with porcupine, what Model refuses in the history of a queue: the
// first turns that cannot be put in order, and the turns around them. It writes a page
// into a folder that exists, and returns the path of the page, or "" if the whole
// history is accepted.
func Picture(folder string, queue Queue, attempts []Attempt, within time.Duration) (string, error) {
	m := newModelCheck(queue, attempts, within)
	for _, stretch := range m.stretches() {
		if m.check(stretch, m.key) == porcupine.Ok {
			continue
		}
		core := m.core(stretch)
		ops, _ := m.operations(m.around(stretch, core), m.key)
		rows := make(map[int]int)
		for i := range ops {
			client := ops[i].ClientId
			if _, ok := rows[client]; !ok {
				rows[client] = len(rows)
			}
			ops[i].ClientId = rows[client]
		}
		model := m.model()
		_, info := porcupine.CheckOperationsVerbose(model, ops, within)
		info.AddAnnotations(m.notes(core))
		name := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
				return r
			}
			return '_'
		}, queue.Name)
		path := filepath.Join(folder, name+".html")
		if _, err := os.Stat(folder); err != nil {
			return "", fmt.Errorf("history: picture of %q: %w", queue.Name, err)
		}
		if err := porcupine.VisualizePath(model, info, path); err != nil {
			return "", fmt.Errorf("history: picture of %q: %w", queue.Name, err)
		}
		return path, nil
	}
	return "", nil
}

// around returns the turns that overlap a core in time, or only the core if they are
// too many for a picture.
func (m *modelCheck) around(stretch, core []turn) []turn {
	from, to := Instant(math.MaxInt64), Instant(0)
	for _, t := range core {
		for _, a := range t.all() {
			from, to = min(from, a.Got), max(to, heldUntil(a))
		}
	}
	var near []turn
	for _, t := range stretch {
		a := t.first()
		chosen := slices.ContainsFunc(core, func(c turn) bool { return c.first() == a })
		if chosen || a.Got <= to && heldUntil(a) >= from {
			near = append(near, t)
		}
	}
	if len(near) > maxDrawn+len(core) {
		return core
	}
	return near
}

// notes mark the core in a picture.
func (m *modelCheck) notes(core []turn) []porcupine.Annotation {
	var notes []porcupine.Annotation
	for _, t := range core {
		for _, a := range t.all() {
			notes = append(notes, porcupine.Annotation{
				Tag:         "not in order",
				Start:       int64(a.Got),
				End:         int64(heldUntil(a)),
				Description: fmt.Sprintf("client %d holds", a.Client),
				Details:     a.describe(a.Asked),
			})
		}
	}
	return notes
}
