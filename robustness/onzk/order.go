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

// Where the lines are. Their names need no escape.
const (
	root      = "/robustness"
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

// orders are what has been in the lines of all locks, as far as it was asked for.
type orders struct {
	mu      sync.Mutex
	journal *zktest.Journal
	front   *front
	lines   map[[2]string]*lineOrder
}

func newOrders(e *zktest.Ensemble, f *front) *orders {
	return &orders{journal: e.Journal("/"), front: f, lines: map[[2]string]*lineOrder{}}
}

// of is the order of a line, up to what was done before the call.
func (o *orders) of(ctx context.Context, lock, line string) ([]history.Change, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	done, err := o.journal.Next(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range done {
		seen, waited := o.front.reaches(ctx, c.Zxid)
		err = errors.Join(err, waited)
		o.take(c, seen)
	}
	if err != nil {
		return nil, err
	}
	return slices.Clone(o.line(lock, line).order), nil
}

func (o *orders) line(lock, line string) *lineOrder {
	key := [2]string{rootOf(lock), line}
	l := o.lines[key]
	if l == nil {
		l = &lineOrder{living: map[string]living{}}
		o.lines[key] = l
	}
	return l
}

func (o *orders) take(c zktest.Change, at history.Instant) {
	parts := strings.Split(c.Path, "/")[1:]
	lock := map[string]string{root: trial.Ours, stockRoot: Stock}["/"+parts[0]]
	switch {
	case len(parts) == 5 && lock == trial.Ours && parts[1] == "%beside" && parts[3] == "limit":
		n, err := strconv.ParseInt(parts[4], 10, 64)
		if err == nil && c.Kind == zktest.Created {
			l := o.line(lock, parts[2])
			l.order = append(l.order, history.Change{At: c.Zxid, Kind: history.LimitSet, Limit: n, Seen: at})
		}
	case len(parts) == 3 && lock != "":
		if e, ok := parseEntry(parts[2]); ok {
			o.line(lock, parts[1]).take(c, e, at)
		}
	}
}

// lineOrder is the order of a line.
type lineOrder struct {
	order  []history.Change
	living map[string]living // entries by path
}

type living struct {
	entry
	place int64
}

func (l *lineOrder) take(c zktest.Change, e entry, at history.Instant) {
	switch c.Kind {
	case zktest.Created:
		change := history.Change{At: c.Zxid, Kind: history.Joined, Place: c.Zxid, Shared: e.shared, Weight: e.weight, Seen: at}
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
				At: c.Zxid, Kind: history.Left, Place: was.place, Shared: was.shared, Weight: was.weight, Seen: at,
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
