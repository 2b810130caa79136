package hub

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairlock/fairlock/session/driver"
)

// state is what one answer shows of a watched target.
type state struct {
	alive bool   // the store has the life of the session
	i     int    // the number of the watch in the request, from 1 on
	marks *int16 // nil for an entry that is gone, and for what is no entry
	stamp int64  // another one after each change of the target, see layout.Texts.States
	ahead int    // how many entries are ahead of the entry, for the pace of polling
}

func stateArgs(all []*watch, floor func(stored string) int64) []any {
	n := len(all)
	kinds, queues, places := make([]int16, n), make([]string, n), make([]int64, n)
	sessions, records, floors := make([]int64, n), make([]string, n), make([]int64, n)
	for i, w := range all {
		kinds[i] = int16(w.target.Kind)
		queues[i], places[i], sessions[i], records[i] = w.queue, w.place, w.session, w.target.Record
		floors[i] = floor(w.queue)
	}
	return []any{kinds, queues, places, sessions, records, floors}
}

func scanStates(r pgx.BatchResults) ([]state, error) {
	rows, err := r.Query()
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (s state, err error) {
		err = row.Scan(&s.alive, &s.i, &s.marks, &s.stamp, &s.ahead)
		return s, err
	})
}

// apply reports what the states of watches show. It returns false if the data has another life.
//
//	target   there   armed   stamp or marks are new   reported
//	entry    false   -       -                        Gone, the last event
//	any      -       false   -                        Armed
//	entry    true    true    true                     Changed, unless a notice was first
//	other    -       true    true                     Changed
//	any      -       true    false                    nothing
//
// A state is older than each notice that is taken in after it, and may be older than one that was
// taken in before: a deletion stays, marks only grow, and numbers of writes only rise.
func (l *link) apply(received driver.Instant, all []*watch, states []state) bool {
	h := l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range states {
		if !s.alive {
			return false
		}
		w := all[s.i-1]
		if _, there := h.channels[w.channel][w]; !there {
			continue
		}
		w.due = received.Add(l.pause(received, w, s))
		var marks driver.Marks
		if s.marks != nil {
			marks = driver.Marks(*s.marks) //nolint:gosec // eight bits
		}
		entry := w.target.Kind == driver.OfEntry
		switch {
		case entry && s.marks == nil:
			h.post(w, driver.Event{Kind: driver.Gone})
		case !w.armed:
			w.armed = true
			w.stamp = s.stamp
			h.post(w, driver.Event{Kind: driver.Armed, Marks: marks})
		case entry:
			h.changed(w, marks, s.stamp)
		case s.stamp != w.stamp:
			w.stamp = s.stamp
			h.post(w, driver.Event{Kind: driver.Changed})
		}
	}
	return true
}

// reads reports whether only reading shows changes of what is watched.
func (l *link) reads(w *watch) bool { return l.polls || l.blind && w.remote }

// pause returns how long the state of a watch is not read again, unless a notice comes. All that
// are only checked again are checked at the same times.
func (l *link) pause(received driver.Instant, w *watch, s state) time.Duration {
	switch {
	case !l.reads(w):
		return recheck - time.Duration(received)%recheck
	case w.target.Kind == driver.OfEntry && (w.session == l.h.Session || s.ahead > nearAhead):
		return far
	}
	return near
}
