package onetcd

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// Where the lines are. Their names need no escape.
const (
	root      = "robustness"
	stockRoot = "stock"
)

// prefix is what the keys of a line's entries begin with.
func prefix(lock, line string) string {
	if lock == trial.Ours {
		return root + "/" + line + "/"
	}
	return stockRoot + "/" + line + "/"
}

// place says what a key is: the limit of a line, an entry of it, or neither.
type place struct {
	lock, line string
	limit      bool
	shared     bool
	weight     int64
}

// parse reads a key. It is written from the layout that the docs describe, and
// shares no code with the backend.
func parse(key string) (place, bool) {
	parts := strings.Split(key, "/")
	switch {
	case len(parts) == 4 && parts[0] == root && parts[1] == "%v2" && parts[3] == "limit":
		return place{lock: trial.Ours, line: parts[2], limit: true}, true
	case len(parts) != 3 || strings.HasPrefix(parts[1], "%"):
		return place{}, false
	case parts[0] == stockRoot:
		return place{lock: Stock, line: parts[1], weight: 1}, true
	case parts[0] != root:
		return place{}, false
	}
	p := place{lock: trial.Ours, line: parts[1], weight: 1}
	for i, part := range strings.Split(parts[2], ".") {
		switch {
		case i < 2: // lease and slot
		case part == "r":
			p.shared = true
		case strings.HasPrefix(part, "w"):
			n, err := strconv.ParseInt(part[1:], 10, 64)
			if err != nil {
				return place{}, false
			}
			p.weight = n
		}
	}
	return p, true
}

// shares reports whether the value of a writer's entry makes it a reader's: its last line
// names the marks of the entry.
func shares(value []byte) bool {
	_, marks, ok := lastCut(string(value), "\n#")
	return ok && slices.Contains(strings.Split(marks, ","), "shared")
}

// lastCut is strings.Cut around the last instance.
func lastCut(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// limitOf reads a limit; 0 if there is none.
func limitOf(value []byte) int64 {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// change is what a put or a delete means for a line. Was is the create revision
// of what a delete has deleted; rev is that of the event.
func (p place) change(rev, created, version int64, value []byte, deleted bool) (history.Change, bool) {
	c := history.Change{At: rev, Place: created, Shared: p.shared, Weight: p.weight}
	switch {
	case p.limit && deleted:
		return history.Change{}, false
	case p.limit:
		return history.Change{At: rev, Kind: history.LimitSet, Limit: limitOf(value)}, true
	case deleted:
		c.Kind = history.Left
	case version == 1:
		c.Kind = history.Joined
	case shares(value) && !p.shared:
		c.Kind, c.Shared = history.Shares, true
	default:
		return history.Change{}, false // a note of its owner's
	}
	return c, true
}
