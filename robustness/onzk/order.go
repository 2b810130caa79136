package onzk

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fairlock/fairlock/robustness/history"
	"github.com/fairlock/fairlock/robustness/trial"
	"github.com/fairlock/fairlock/zktest"
)

// The roots of queues, and the node of mark. The names of queues in trials need no escape.
const (
	root      = "/robustness"
	stockRoot = "/stock"
	markPath  = "/mark"
)

// rootOf returns the root of a lock's queues.
func rootOf(lock string) string {
	if lock == trial.Ours {
		return root
	}
	return stockRoot
}

// folderOf returns the folder of a queue's entries.
func folderOf(lock, queue string) string { return rootOf(lock) + "/" + queue }

// entryName matches the name of an entry of Fairlock or of zk.Lock. It is written from the
// layouts that the docs describe, and shares no code with the backend.
var entryName = regexp.MustCompile(`^(?:([0-9a-f]{16})x?v?(?:w([0-9]+))?|_c_[0-9a-f]{32})-(lock-|__READ__|__WRIT__)([0-9]{10})$`)

// entry is what the name of an entry contains.
type entry struct {
	random   string // the random hex digits; "" for zk.Lock
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
		e.weight, err = strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			return entry{}, false
		}
	}
	return e, true
}

// orders are the orders of all queues of all locks, read from the journal when of is called.
type orders struct {
	mu      sync.Mutex
	journal *zktest.Journal
	commits *commitTracker
	queues  map[[2]string]*queueOrder
}

func newOrders(e *zktest.Ensemble, t *commitTracker) *orders {
	return &orders{journal: e.Journal("/"), commits: t, queues: map[[2]string]*queueOrder{}}
}

// of returns the changes of a queue, including all that happened before the call.
func (o *orders) of(ctx context.Context, lock, queue string) ([]history.Change, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	done, err := o.journal.Next(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range done {
		seen, waited := o.commits.reaches(ctx, c.Zxid)
		err = errors.Join(err, waited)
		o.apply(c, seen)
	}
	if err != nil {
		return nil, err
	}
	return slices.Clone(o.queue(lock, queue).order), nil
}

func (o *orders) queue(lock, queue string) *queueOrder {
	key := [2]string{rootOf(lock), queue}
	l := o.queues[key]
	if l == nil {
		l = &queueOrder{living: map[string]living{}}
		o.queues[key] = l
	}
	return l
}

func (o *orders) apply(c zktest.Change, at history.Instant) {
	parts := strings.Split(c.Path, "/")[1:]
	lock := map[string]string{root: trial.Ours, stockRoot: Stock}["/"+parts[0]]
	switch {
	case len(parts) == 5 && lock == trial.Ours && parts[1] == "%v2" && parts[3] == "records" && parts[4] == "limit":
		n, ok := limitOf(c)
		if ok {
			o.queue(lock, parts[2]).limit(history.Change{At: c.Zxid, Kind: history.LimitSet, Limit: n, Seen: at})
		}
	case len(parts) == 3 && lock != "":
		e, ok := parseEntry(parts[2])
		if ok {
			o.queue(lock, parts[1]).apply(c, e, at)
		}
	}
}

// limitOf parses a write to the record of a limit: the number, and a line of text with the
// version of the record.
func limitOf(c zktest.Change) (int64, bool) {
	text, _, ok := strings.Cut(string(c.Data), "\n#")
	n, err := strconv.ParseInt(text, 10, 64)
	return n, c.Kind == zktest.Written && ok && err == nil
}

// queueOrder is the order of one queue.
type queueOrder struct {
	order       []history.Change
	living      map[string]living // the existing entries, by path
	lastDeleted deletedEntry
}

type living struct {
	entry
	place int64
}

// deletedEntry is the entry that was deleted last, and the transaction that deleted it.
type deletedEntry struct {
	living
	zxid int64
	path string
}

// limit adds a change of the limit. It counts before all other changes of its transaction.
func (l *queueOrder) limit(c history.Change) {
	i := len(l.order)
	for i > 0 && l.order[i-1].At == c.At {
		i--
	}
	l.order = slices.Insert(l.order, i, c)
}

func (l *queueOrder) apply(c zktest.Change, e entry, at history.Instant) {
	change := history.Change{At: c.Zxid, Kind: history.Joined, Place: c.Zxid, Shared: e.shared, Weight: e.weight, Seen: at}
	switch c.Kind {
	case zktest.Created:
		was := l.lastDeleted
		if was.zxid == c.Zxid && was.path == c.Path { // see becameReader
			l.order = l.order[:len(l.order)-1]
			l.living[c.Path] = was.living
			return
		}
		l.living[c.Path] = living{e, change.Place}
		l.order = append(l.order, change)
	case zktest.Deleted:
		was, ok := l.living[c.Path]
		delete(l.living, c.Path)
		if ok {
			l.lastDeleted = deletedEntry{was, c.Zxid, c.Path}
			change.Kind, change.Place, change.Shared, change.Weight = history.Left, was.place, was.shared, was.weight
			l.order = append(l.order, change)
		}
	case zktest.Written: // by its owner, which records what it does
		was := l.living[c.Path]
		if becameReader(c, was) {
			was.shared = true
			l.living[c.Path] = was
			change.Kind, change.Place, change.Shared = history.Shares, was.place, true
			l.order = append(l.order, change)
		}
	}
}

// becameReader reports whether a write makes a writer a reader. Its transaction has deleted
// the entry, created it again with the same name, and written it. The last line of the data
// is "shared" and the token that the entry had at first.
func becameReader(c zktest.Change, was living) bool {
	i := strings.LastIndex(string(c.Data), "\n#")
	return i >= 0 && !was.shared && string(c.Data[i+2:]) == "shared "+strconv.FormatInt(was.place, 10)
}
