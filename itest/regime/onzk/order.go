package onzk

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/itest/regime/history"
	"github.com/fairlock/fairlock/itest/regime/trial"
	"github.com/fairlock/fairlock/zktest"
)

// Where the lines are. Their names need no escape.
const (
	root      = "/regime"
	stockRoot = "/stock"
	markPath  = "/mark"
)

// rootOf is below which a lock keeps its lines.
func rootOf(lock string) string {
	if lock == trial.Ours {
		return root
	}
	return stockRoot
}

// folderOf is where the entries of a line are.
func folderOf(lock, line string) string { return rootOf(lock) + "/" + line }

// entryName is the name of an entry: Fairlock's, or that of a zk.Lock. It is
// written from the layouts that the docs describe, and shares no code with the
// backend.
var entryName = regexp.MustCompile(`^(?:([0-9a-f]{16})x?(?:w([0-9]+))?|_c_[0-9a-f]{32})-(lock-|__READ__|__WRIT__)([0-9]{10})$`)

// entry is what the name of an entry says.
type entry struct {
	random   string // what nobody else's name has
	sequence string
	shared   bool
	weight   int64
}

func parseEntry(name string) (entry, bool) {
	m := entryName.FindStringSubmatch(name)
	if m == nil {
		return entry{}, false
	}
	e := entry{random: m[1], sequence: m[4], shared: m[3] == "__READ__", weight: 1}
	if m[2] != "" {
		var err error
		if e.weight, err = strconv.ParseInt(m[2], 10, 64); err != nil {
			return entry{}, false
		}
	}
	return e, true
}

// orderOf makes the order of a line out of what has been done to the tree.
func orderOf(lock, line string, done []zktest.Change) []history.Change {
	l := lineOrder{living: map[string]living{}}
	folder, limits := folderOf(lock, line)+"/", rootOf(lock)+"/%beside/"+line+"/limit/"
	for _, c := range done {
		if limit, ok := strings.CutPrefix(c.Path, limits); ok && c.Kind == zktest.Created {
			n, err := strconv.ParseInt(limit, 10, 64)
			if err == nil {
				l.order = append(l.order, history.Change{At: c.Zxid, Kind: history.LimitSet, Limit: n})
			}
		}
		name, ok := strings.CutPrefix(c.Path, folder)
		if !ok {
			continue
		}
		if e, ok := parseEntry(name); ok {
			l.take(c, e)
		}
	}
	return l.order
}

// lineOrder is the order of a line as far as it is known.
type lineOrder struct {
	order  []history.Change
	living map[string]living // entries by path
}

type living struct {
	entry
	place int64
}

func (l *lineOrder) take(c zktest.Change, e entry) {
	switch c.Kind {
	case zktest.Created:
		change := history.Change{At: c.Zxid, Kind: history.Joined, Place: c.Zxid, Shared: e.shared, Weight: e.weight}
		if place, ok := l.replaces(e); ok {
			change.Kind, change.Place = history.Shares, place
		}
		l.living[c.Path] = living{e, change.Place}
		l.order = append(l.order, change)
	case zktest.Deleted:
		was, ok := l.living[c.Path]
		delete(l.living, c.Path)
		if ok {
			l.order = append(l.order, history.Change{
				At: c.Zxid, Kind: history.Left, Place: was.place, Shared: was.shared, Weight: was.weight,
			})
		}
	case zktest.Written: // by its owner, as word of what it does
	}
}

// replaces says whose place a new reader has, if it is a writer's: one transaction
// makes it with the writer's random part and number, and deletes the writer.
func (l *lineOrder) replaces(e entry) (place int64, ok bool) {
	if !e.shared {
		return 0, false
	}
	for path, w := range l.living {
		if w.random == e.random && w.sequence == e.sequence {
			delete(l.living, path) // its own end is not that of the hold
			return w.place, true
		}
	}
	return 0, false
}
