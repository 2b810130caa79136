package onetcd

import (
	"slices"
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
)

// The first parts of the keys of queues. The names of queues in trials need no escape.
const (
	root      = "robustness"
	stockRoot = "stock"
)

// prefix returns the prefix of the keys of a queue's entries.
func prefix(lock, queue string) string {
	if lock == trial.Ours {
		return root + "/" + queue + "/"
	}
	return stockRoot + "/" + queue + "/"
}

// keyInfo is what a key is: the limit of a queue, or one of its entries.
type keyInfo struct {
	lock, queue string
	limit       bool
	shared      bool
	weight      int64
}

// parse parses a key, and reports whether it is a limit or an entry. It is written from
// the layout that the docs describe, and shares no code with the backend.
func parse(key string) (keyInfo, bool) {
	parts := strings.Split(key, "/")
	switch {
	case len(parts) == 4 && parts[0] == root && parts[1] == "%v2" && parts[3] == "limit":
		return keyInfo{lock: trial.Ours, queue: parts[2], limit: true}, true
	case len(parts) != 3 || strings.HasPrefix(parts[1], "%"):
		return keyInfo{}, false
	case parts[0] == stockRoot:
		return keyInfo{lock: Stock, queue: parts[1], weight: 1}, true
	case parts[0] != root:
		return keyInfo{}, false
	}
	p := keyInfo{lock: trial.Ours, queue: parts[1], weight: 1}
	for i, part := range strings.Split(parts[2], ".") {
		switch {
		case i < 2: // lease and key index
		case part == "r":
			p.shared = true
		case strings.HasPrefix(part, "w"):
			n, err := strconv.ParseInt(part[1:], 10, 64)
			if err != nil {
				return keyInfo{}, false
			}
			p.weight = n
		}
	}
	return p, true
}

// shares reports whether the value of a writer's entry makes it a reader's. The last line
// of the value names the marks of the entry.
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

// limitOf parses a limit; it returns 0 if value is no number.
func limitOf(value []byte) int64 {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// change returns what a put or a delete means for a queue, and false if it means nothing.
// rev is the revision of the event, and created the create revision of the key, also for a
// delete.
func (p keyInfo) change(rev, created, version int64, value []byte, deleted bool) (history.Change, bool) {
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
		return history.Change{}, false // its owner wrote something else
	}
	return c, true
}
