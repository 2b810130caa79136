package ui

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/inspect"
)

// named returns the names of the locks, and whether they were read just now. On ZooKeeper they cost a request for each folder. So
// they are read again when all queues have had their turn, and not in each tick.
func (r *reader) named(ctx context.Context) (names []string, fresh bool, err error) {
	r.mu.Lock()
	names = r.names
	rest := r.resting > 0
	if rest {
		r.resting--
	}
	r.mu.Unlock()
	if rest {
		return names, false, nil
	}
	names, err = inspect.Names(ctx, r.s, r.prefix)
	if err != nil {
		return nil, false, err //nolint:wrapcheck // it names the service
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names, r.resting = names, max(0, len(names)-1)/mostReads
	return names, true, nil
}

// pick chooses the queues to read: those that it picked longest ago, where those that a
// page shows, or that show a deadlock in doubt, count as picked earlier. It counts rounds, not
// time: a read that fails has its turn like any other, and a clock that is set back delays
// none. Locks without a name any more are answered. all reports whether every lock is read.
func (r *reader) pick(names []string, fresh bool, now time.Time) (answers []answer, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, at := range r.wanted {
		if now.Sub(at) > wantedFor {
			delete(r.wanted, name)
		}
	}
	picked := make(map[string]int, len(names))
	type candidate struct {
		name  string
		round int
		size  int
	}
	queue := make([]candidate, len(names))
	for i, name := range names {
		picked[name] = r.picked[name]
		queue[i] = candidate{name: name, round: picked[name], size: 1}
		l := r.board.locks[name]
		if l != nil {
			queue[i].size = len(l.cards)
		}
		if _, wanted := r.wanted[name]; wanted || r.board.waiting.doubt[name] {
			queue[i].round -= max(1, int(wantedBefore/r.interval))
		}
	}
	unlisted := map[string]bool{} // locks that a page asked for, which may be newer than the names
	for name := range r.wanted {
		if _, listed := picked[name]; !listed && !fresh {
			unlisted[name] = true
			queue = append(queue, candidate{name: name, round: -mostReads, size: 1})
		}
	}
	slices.SortStableFunc(queue, func(a, b candidate) int { return cmp.Compare(a.round, b.round) })
	r.round++
	r.picked = picked
	r.credit = min(r.credit+mostEntries, mostEntries)
	for _, c := range queue[:min(len(queue), mostReads)] {
		if r.credit <= 0 {
			break
		}
		r.credit -= c.size
		if !unlisted[c.name] {
			picked[c.name] = r.round
		}
		answers = append(answers, answer{name: c.name, assumed: c.size, unlisted: unlisted[c.name]})
	}
	all = len(answers) == len(queue)
	for name := range r.board.locks {
		if _, here := picked[name]; !here && !unlisted[name] {
			answers = append(answers, answer{name: name, at: now, ok: true, gone: true})
		}
	}
	return answers, all
}

// unread returns how many queues are denied or refused, and why the first of them is. The
// caller holds r.mu.
func (r *reader) unread() (n int, why string) {
	for name := range r.failed {
		if _, here := r.picked[name]; !here {
			delete(r.failed, name)
		}
	}
	names := slices.Sorted(maps.Keys(r.failed))
	if len(names) > 0 {
		why = r.failed[names[0]]
	}
	return len(r.failed), why
}

// want records that a page shows a lock, which need not exist, and returns the known holds
// of the lock. The reader reads the lock at once if no page has shown it before. unread
// reports that the service has the lock or may have it, and that no read was answered yet.
// failed is why the last read was denied or refused.
func (r *reader) want(name string) (holds []hold, unread bool, failed string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.wanted[name]
	if known || len(r.wanted) < mostReads {
		r.wanted[name] = r.now()
		if !known && r.pages > 0 {
			r.hurry()
		}
	}
	_, here := r.picked[name]
	unread = r.board.locks[name] == nil && (here || r.picked == nil)
	return r.board.history.of(name), unread, r.failed[name]
}
