package membackend

import (
	"cmp"
	"slices"

	"github.com/fairlock/fairlock/session/driver"
)

// moment is what all lines were like at a revision.
type moment struct {
	rev    int64
	lines  map[string][]driver.Entry
	limits map[string]int64
}

// keptMoments is how many of them a Store with Options.Stale remembers.
const keptMoments = 64

// remember keeps the present, if looks are to show the past.
func (st *Store) remember() {
	if !st.o.Stale || len(st.past) > 0 && st.past[len(st.past)-1].rev == st.rev {
		return
	}
	m := moment{rev: st.rev, lines: make(map[string][]driver.Entry), limits: make(map[string]int64)}
	for name, ln := range st.lines {
		for _, e := range ln.entries {
			shown := e.brief()
			shown.Admitted = e.Admitted
			m.lines[name] = append(m.lines[name], shown)
		}
	}
	for name, b := range st.beside {
		m.limits[name] = b.limit
	}
	st.past = append(st.past, m)
	if len(st.past) > keptMoments {
		st.past = slices.Delete(st.past, 0, 1)
	}
}

// lookBack is look at the oldest moment that the request allows; false if none is
// remembered.
func (st *Store) lookBack(req driver.LookRequest) (driver.View, bool) {
	i, found := slices.BinarySearchFunc(st.past, req.NotBefore, func(m moment, rev int64) int { return cmp.Compare(m.rev, rev) })
	if i == len(st.past) || !found && i == 0 {
		return driver.View{}, false
	}
	m := st.past[i]
	v := driver.View{Rev: m.rev, Complete: true}
	line := m.lines[req.Line]
	end, own := slices.BinarySearchFunc(line, req.Upto, func(e driver.Entry, p int64) int { return cmp.Compare(e.Place, p) })
	start := 0
	if req.Nearest > 0 {
		start = max(0, end-req.Nearest)
	}
	if own {
		end++
	}
	v.Complete, v.Entries = start == 0, slices.Clone(line[start:end])
	for i := range v.Entries {
		v.Entries[i].Admitted = v.Entries[i].Admitted && req.Limit
	}
	if req.Limit {
		v.Limit = m.limits[req.Line]
	}
	return v, true
}
