package telemetry

import (
	"slices"
	"sync"
	"time"

	"github.com/fairlock/fairlock/session"
)

const (
	// maxParts is how many releases and grants wait for each other at most; the oldest
	// are dropped. It is far more than are under way at once, and 200 KiB.
	maxParts = 1024

	// maxHandoff is the longest hand-off that is measured.
	maxHandoff = 10 * time.Minute
)

// entryID identifies an entry by its service session and its token. The entries of LockAll
// share one, and services in memory begin to count anew, so names are compared too.
type entryID struct {
	session string
	token   session.Token
}

// handoffs brings together the release of a hold and the grants of the requests that
// waited for its entry. Reports of one Session come in their order, but a grant follows
// from the service's answer to the release, which Unlock reports a moment later; and
// Sessions report independently of each other. So either may come first.
type handoffs struct {
	mu      sync.Mutex
	waiting map[entryID]*handoff
	parts   [maxParts]entryID // a ring of all that were added
	next    int
}

// handoff is what is known of one hand-off.
type handoff struct {
	released time.Time // zero if that is not known yet
	locks    []string  // that were released
	grants   []grant   // that came before the release
}

// grant is the grant of a request that waited.
type grant struct {
	at    time.Time
	locks []string
	name  string // as metrics show it
}

// after returns the time from the release of these locks to the grant, and whether it
// was a hand-off. The grant may be the earlier one by the time that a report takes.
func (g grant) after(released time.Time, locks []string) (time.Duration, bool) {
	took := max(0, g.at.Sub(released))
	same := slices.ContainsFunc(g.locks, func(name string) bool { return slices.Contains(locks, name) })
	return took, same && took <= maxHandoff
}

// release adds the release of an entry, and calls found for each grant that was reported
// before. If keep is set, the release waits for later grants.
func (h *handoffs) release(id entryID, at time.Time, locks []string, keep func() bool, found func(grant, time.Duration)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.waiting[id]
	if m != nil {
		for _, g := range m.grants {
			took, ok := g.after(at, locks)
			if ok {
				found(g, took)
			}
		}
		delete(h.waiting, id)
	}
	if keep() {
		m = h.add(id)
		m.released, m.locks = at, locks
	}
}

// granted adds a grant, and returns the time since the release of the entry that it waited
// for, if that is known. If it is not and keep is set, the grant waits for the release.
func (h *handoffs) granted(id entryID, g grant, keep bool) (took time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.waiting[id]
	if m != nil && !m.released.IsZero() {
		return g.after(m.released, m.locks)
	}
	if keep {
		m = h.add(id)
		m.grants = append(m.grants, g)
	}
	return 0, false
}

// add returns the handoff of an entry, and drops the oldest if there are too many parts.
// The caller holds h.mu.
func (h *handoffs) add(id entryID) *handoff {
	delete(h.waiting, h.parts[h.next])
	h.parts[h.next] = id
	h.next = (h.next + 1) % maxParts
	m := h.waiting[id]
	if m == nil {
		if h.waiting == nil {
			h.waiting = map[entryID]*handoff{}
		}
		m = &handoff{}
		h.waiting[id] = m
	}
	return m
}
