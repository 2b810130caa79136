package hub

import (
	"cmp"
	"maps"
	"slices"

	"github.com/fairlock/fairlock/session/driver"
)

// own reports whether a watch is on an entry of this session.
func (l *link) own(w *watch) bool {
	return w.target.Kind == driver.OfEntry && w.session == l.h.Session
}

// withOwn adds to what is read by polling its own entries right behind, and puts own entries first.
// So where an operator has deleted an own entry, its end is reported before that of the entry ahead,
// which would grant it. With the hub's mutex.
func (l *link) withOwn(all []*watch) []*watch {
	ours := map[string][]*watch{} // by stored queue, in the order of places
	for _, channel := range l.h.channels {
		for w := range channel {
			if l.own(w) {
				ours[w.queue] = append(ours[w.queue], w)
			}
		}
	}
	for _, own := range ours {
		slices.SortFunc(own, func(a, b *watch) int { return cmp.Compare(a.place, b.place) })
	}
	first := map[*watch]struct{}{}
	var rest []*watch
	for _, w := range all {
		if l.own(w) {
			first[w] = struct{}{}
			continue
		}
		rest = append(rest, w)
		own := ours[w.queue]
		i, _ := slices.BinarySearchFunc(own, w.place, func(o *watch, place int64) int { return cmp.Compare(o.place, place) })
		if w.target.Kind == driver.OfEntry && i < len(own) {
			first[own[i]] = struct{}{}
		}
	}
	return append(slices.Collect(maps.Keys(first)), rest...)
}
