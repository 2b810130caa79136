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
	fewest = 200 // turns among which single ones are left out to find a core
	told   = 8   // turns that a text names
	drawn  = 120 // turns in a picture, beside the core
)

// core is some few turns that cannot be put in order, out of many. What is refused
// stays so with more turns, and what is in order with fewer, so halving finds the
// end of the first that is refused, and then its beginning.
func (l *lineup) core(turns []turn) []turn {
	refused := func(some []turn) bool { return l.check(some, l.key) != porcupine.Ok }
	end := 1 + sort.Search(len(turns)-1, func(n int) bool { return refused(turns[:n+1]) })
	turns = turns[:end]
	begin := sort.Search(end-1, func(n int) bool { return !refused(turns[n+1:]) })
	turns = slices.Clone(turns[begin:])
	if len(turns) > fewest {
		return turns
	}
	for i := len(turns) - 1; i >= 0 && len(turns) > 1; i-- {
		if without := slices.Delete(slices.Clone(turns), i, i+1); refused(without) {
			turns = without
		}
	}
	return turns
}

// property says what a core breaks: S1 if its holds exclude each other whatever
// their order, S2 if grants and tokens alone contradict each other, else S4.
func (l *lineup) property(core []turn) string {
	if l.check(core, l.key) == porcupine.Unknown {
		return "model"
	}
	if l.check(core, nil) != porcupine.Ok {
		return "S1"
	}
	bare := make([]Attempt, 0, len(core))
	for _, t := range core {
		a := *t.first()
		a.Held, a.Outcome = 0, NotGiven
		bare = append(bare, a)
	}
	alone := newLineup(l.line, bare, l.within)
	if core[0].first().Token != 0 && alone.check(alone.turns, alone.key) != porcupine.Ok {
		return "S2"
	}
	return "S4"
}

// text tells of a core what its clients saw.
func (l *lineup) text(property string, core []turn) string {
	if property == "model" {
		return fmt.Sprintf("not decided within %s: %d grants", l.within, len(core))
	}
	start := Instant(math.MaxInt64)
	for _, t := range core {
		start = min(start, t.first().Asked)
	}
	var lines []string
	for i, t := range core {
		if i == told {
			lines = append(lines, fmt.Sprintf("and %d more", len(core)-i))
			break
		}
		for _, a := range t.all() {
			lines = append(lines, a.tell(start))
		}
	}
	return "no order explains what was seen: " + strings.Join(lines, "; ")
}

// tell says in one line what became of a hold, in times since an instant.
func (a *Attempt) tell(start Instant) string {
	at := func(i Instant) string { return time.Duration(i - start).Round(time.Microsecond).String() }
	text := fmt.Sprintf("client %d", a.Client)
	switch {
	case a.Nested:
		text += " nested"
	case a.Shared:
		text += " shared"
	case a.Weight > 1:
		text += fmt.Sprintf(" %d permits", a.Weight)
	}
	if a.Token != 0 {
		text += fmt.Sprintf(", token %d", a.Token)
	} else if a.Place != 0 {
		text += fmt.Sprintf(", place %d", a.Place)
	}
	text += fmt.Sprintf(", asked %s", at(a.Asked))
	for _, moment := range []struct {
		what string
		at   Instant
	}{{"got", a.Got}, {"held", a.Held}, {"told", a.Told}, {"over", a.Over}, {"back", a.Back}, {"done", a.Done}} {
		if moment.at != 0 {
			text += fmt.Sprintf(", %s %s", moment.what, at(moment.at))
		}
	}
	if a.Outcome != NotGiven {
		text += ", " + string(a.Outcome)
	}
	if a.Fault != "" {
		text += ", under " + a.Fault
	}
	return text
}

// Picture draws, with porcupine, what Model refuses in the history of a line: the
// first turns that cannot be put in order, and what went on around them. It writes
// a page into a folder that exists, and returns its path; none if there is nothing
// to draw.
func Picture(folder string, line Line, attempts []Attempt, within time.Duration) (string, error) {
	l := newLineup(line, attempts, within)
	for _, stretch := range l.stretches() {
		if l.check(stretch, l.key) == porcupine.Ok {
			continue
		}
		core := l.core(stretch)
		acts, _ := l.acts(l.around(stretch, core), l.key)
		rows := make(map[int]int)
		for i := range acts {
			client := acts[i].ClientId
			if _, ok := rows[client]; !ok {
				rows[client] = len(rows)
			}
			acts[i].ClientId = rows[client]
		}
		model := l.model()
		_, info := porcupine.CheckOperationsVerbose(model, acts, within)
		info.AddAnnotations(l.notes(core))
		name := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
				return r
			}
			return '_'
		}, line.Name)
		path := filepath.Join(folder, name+".html")
		if _, err := os.Stat(folder); err != nil {
			return "", fmt.Errorf("history: picture of %q: %w", line.Name, err)
		}
		if err := porcupine.VisualizePath(model, info, path); err != nil {
			return "", fmt.Errorf("history: picture of %q: %w", line.Name, err)
		}
		return path, nil
	}
	return "", nil
}

// around are the turns that were under way during a core, unless they are too many
// for the eye.
func (l *lineup) around(stretch, core []turn) []turn {
	from, to := Instant(math.MaxInt64), Instant(0)
	for _, t := range core {
		for _, a := range t.all() {
			from, to = min(from, a.Got), max(to, claimed(a))
		}
	}
	var near []turn
	for _, t := range stretch {
		a := t.first()
		chosen := slices.ContainsFunc(core, func(c turn) bool { return c.first() == a })
		if chosen || a.Got <= to && claimed(a) >= from {
			near = append(near, t)
		}
	}
	if len(near) > drawn+len(core) {
		return core
	}
	return near
}

// notes mark the core in a picture.
func (l *lineup) notes(core []turn) []porcupine.Annotation {
	var notes []porcupine.Annotation
	for _, t := range core {
		for _, a := range t.all() {
			notes = append(notes, porcupine.Annotation{
				Tag:         "not in order",
				Start:       int64(a.Got),
				End:         int64(claimed(a)),
				Description: fmt.Sprintf("client %d believes", a.Client),
				Details:     a.tell(a.Asked),
			})
		}
	}
	return notes
}
