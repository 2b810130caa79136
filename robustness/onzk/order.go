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
var entryName = regexp.MustCompile(`^(?:([0-9a-f]{16})x?v?(?:w([0-9]+))?|_c_[0-9a-f]{32})-(lock-|__READ__|__WRIT__)([0-9]{10})$`)

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
	case len(parts) == 5 && lock == trial.Ours && parts[1] == "%v2" && parts[3] == "records" && parts[4] == "limit":
		if n, ok := limitOf(c); ok {
			o.line(lock, parts[2]).limit(history.Change{At: c.Zxid, Kind: history.LimitSet, Limit: n, Seen: at})
		}
	case len(parts) == 3 && lock != "":
		if e, ok := parseEntry(parts[2]); ok {
			o.line(lock, parts[1]).take(c, e, at)
		}
	}
}

// limitOf reads a write of the record of a limit: the number, and a line with the
// record's version.
func limitOf(c zktest.Change) (int64, bool) {
	text, _, ok := strings.Cut(string(c.Data), "\n#")
	n, err := strconv.ParseInt(text, 10, 64)
	return n, c.Kind == zktest.Written && ok && err == nil
}

// lineOrder is the order of a line.
type lineOrder struct {
	order  []history.Change
	living map[string]living // entries by path
	anew   anew
}

type living struct {
	entry
	place int64
}

// anew is an entry that the last transaction of the line has deleted.
type anew struct {
	living
	zxid int64
	path string
}

// limit takes in a limit. It counts before what else its transaction does.
func (l *lineOrder) limit(c history.Change) {
	i := len(l.order)
	for i > 0 && l.order[i-1].At == c.At {
		i--
	}
	l.order = slices.Insert(l.order, i, c)
}

func (l *lineOrder) take(c zktest.Change, e entry, at history.Instant) {
	change := history.Change{At: c.Zxid, Kind: history.Joined, Place: c.Zxid, Shared: e.shared, Weight: e.weight, Seen: at}
	switch c.Kind {
	case zktest.Created:
		if was := l.anew; was.zxid == c.Zxid && was.path == c.Path { // see becameReader
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
			l.anew = anew{was, c.Zxid, c.Path}
			change.Kind, change.Place, change.Shared, change.Weight = history.Left, was.place, was.shared, was.weight
			l.order = append(l.order, change)
		}
	case zktest.Written: // by its owner, as word of what it does
		if was := l.living[c.Path]; becameReader(c, was) {
			was.shared = true
			l.living[c.Path] = was
			change.Kind, change.Place, change.Shared = history.Shares, was.place, true
			l.order = append(l.order, change)
		}
	}
}

// becameReader reports whether a write makes a writer a reader. Its transaction has deleted
// the entry, made it anew with the same name, and written it: its last line is this word
// and the token that the entry had at first.
func becameReader(c zktest.Change, was living) bool {
	i := strings.LastIndex(string(c.Data), "\n#")
	return i >= 0 && !was.shared && string(c.Data[i+2:]) == "shared "+strconv.FormatInt(was.place, 10)
}
