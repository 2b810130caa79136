package waits

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"
)

// most is how many requests, and how many holds, one answer considers at most.
const most = 10_000

// snapshot is a copy of a part of a Table.
type snapshot struct {
	waiting int       // how many wait in all
	holding int       // how many hold in all
	waits   []request // the longest first

	// holders are, by the name of a lock that one of waits waits for, the requests that
	// hold it.
	holders map[string][]*request
}

// oldest returns the n requests that have waited longest. Only the copying is done under the
// mutex, which the callers of Lock need.
func (t *Table) oldest(n int) snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := snapshot{waiting: t.waits.Len(), holding: t.holds.Len(), holders: map[string][]*request{}}
	for e := t.waits.Front(); e != nil && len(s.waits) < n; e = e.Next() {
		r := *e.Value.(*request) //nolint:forcetypeassert // nothing else is in the list
		s.waits = append(s.waits, r)
		for _, name := range r.locks() {
			s.holders[name] = nil
		}
	}
	looked := 0
	for e := t.holds.Front(); e != nil && len(s.holders) > 0 && looked < most; e = e.Next() {
		s.hold(e.Value.(*request)) //nolint:forcetypeassert // nothing else is in the list
		looked++
	}
	return s
}

// hold adds a request that holds, if one of those that wait waits for it.
func (s *snapshot) hold(r *request) {
	var copied *request
	for _, name := range r.locks() {
		if _, wanted := s.holders[name]; wanted {
			if copied == nil {
				copied = new(*r)
			}
			s.holders[name] = append(s.holders[name], copied)
		}
	}
}

// holdersOf returns the requests of the process that hold what a request waits for.
func (s *snapshot) holdersOf(r *request) []*request {
	var all []*request
	for _, name := range r.locks() {
		for _, h := range s.holders[name] {
			if !slices.Contains(all, h) {
				all = append(all, h)
			}
		}
	}
	return all
}

// locks returns the names of the locks that a request is for.
func (r *request) locks() []string {
	if r.names != nil {
		return r.names
	}
	return []string{r.name}
}

// group is the requests for one lock that wait at one place of the program. They have the
// first one's name, kind, labels and stack.
type group struct {
	waits []request
}

// groups puts the requests into groups, in the order of the longest wait of each.
func (s *snapshot) groups() []*group {
	var all []*group
	known := map[string]*group{}
	for _, r := range s.waits {
		id := r.place()
		g := known[id]
		if g == nil {
			g = &group{}
			known[id] = g
			all = append(all, g)
		}
		g.waits = append(g.waits, r)
	}
	return all
}

// place returns what is the same for the requests of one group.
func (r *request) place() string {
	id := []byte(strings.Join(append([]string{r.name, r.kind}, r.labels...), "\x00"))
	for _, pc := range r.stack {
		id = binary.LittleEndian.AppendUint64(id, uint64(pc))
	}
	return string(id)
}

// waited returns how long a request has waited.
func (r *request) waited(now time.Time) time.Duration { return max(0, now.Sub(r.since)) }
