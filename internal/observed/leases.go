package observed

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// A Sight is what one answer of the store shows of one session.
type Sight struct {
	ID string

	// Version differs after each renewal. Nothing else is required of it: data that was restored
	// may show a smaller one.
	Version int64

	// TTL is what the owner of the session counts with. A sight with a shorter one ends sessions
	// that are trusted: the store must refuse to change it.
	TTL time.Duration
}

// Leases are the sessions that one process observes, and for how long it has seen each at the same
// version. The zero value observes none. It is not safe for concurrent use.
//
// All answers that one Leases takes in must be about the same scope, for example the sessions with
// entries in the watched queues. A process that observes two scopes has two.
type Leases struct {
	// seen has the sessions of the newest answer by their IDs, own ones too.
	seen map[string]lease

	// own has the sessions of this process. They may be in seen or not.
	own map[string]struct{}
}

// lease is a session and for how long it has been as it is.
type lease struct {
	Sight

	// since is the receipt of the first answer with this Sight. The owner sent the renewal that
	// made it before that. It never changes: another Sight is another lease.
	since driver.Instant
}

// due returns the moment at which the owner has certainly stopped trusting the session, if its
// version is still the same.
func (l lease) due() driver.Instant { return l.since.Add(l.TTL) }

// Saw takes in a complete answer about the scope: it forgets each session that is not in it.
// received is when this process received the answer. The sending would be too early: the renewal
// that made a version may have been sent after the question for it.
//
//	the session                               its count
//	was not in the answer before              begins at received
//	has another version, or another TTL       begins at received
//	is as it was                              goes on
//
// Answers should come in the order in which they were read. One that is older than the one before
// begins counts again, which only delays an end.
func (l *Leases) Saw(received driver.Instant, all []Sight) {
	seen := make(map[string]lease, len(all))
	for _, s := range all {
		before, known := l.seen[s.ID]
		if !known || before.Sight != s {
			before = lease{Sight: s, since: received}
		}
		seen[s.ID] = before
	}
	l.seen = seen
}

// Due returns the sessions of other processes that are to be ended at now, in the order of their
// IDs. The caller deletes each in one step with the comparison of its Version. A session that has
// another version by then has been renewed, and stays.
//
// A session is due until an answer shows it with another version, or not at all. So the caller asks
// the store again after it has ended sessions, and waits for a while if it could not.
func (l *Leases) Due(now driver.Instant) []Sight {
	var all []Sight
	for id, s := range l.seen {
		if !l.owns(id) && now >= s.due() {
			all = append(all, s.Sight)
		}
	}
	slices.SortFunc(all, func(a, b Sight) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Next returns the time from now until the next session is due, which is 0 if one is due already. It
// reports false if no session is observed but those of this process.
func (l *Leases) Next(now driver.Instant) (time.Duration, bool) {
	var next driver.Instant
	found := false
	for id, s := range l.seen {
		if l.owns(id) || found && s.due() >= next {
			continue
		}
		next, found = s.due(), true
	}
	if !found {
		return 0, false
	}
	return max(next.Sub(now), 0), true
}

// Own adds a session of this process, which is never due: its owner knows when it is over, and
// closes it when the last hold has ended. The caller adds it before the store can have it.
func (l *Leases) Own(id string) {
	if l.own == nil {
		l.own = map[string]struct{}{}
	}
	l.own[id] = struct{}{}
}

// Disown makes a session one like those of other processes, for example when its owner has abandoned
// it. Its count has gone on meanwhile, and is as good as that of any other session.
func (l *Leases) Disown(id string) { delete(l.own, id) }

// owns reports whether a session is of this process.
func (l *Leases) owns(id string) bool {
	_, own := l.own[id]
	return own
}
