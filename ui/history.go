package ui

import (
	"maps"
	"slices"
	"time"

	"github.com/fairlock/fairlock/session"
)

const (
	// mostHolds is how many holds of a lock the history keeps, and mostHistories of how
	// many locks.
	mostHolds     = 64
	mostHistories = 2000

	// comeback is how long after a hold the history watches for its process to come back
	// with another session, and how long an eviction explains the end of a hold.
	comeback = time.Minute

	// forgotten is how long after its last entry a session counts as new when it has one.
	forgotten = 10 * time.Minute
)

// How a hold ended, as far as reads show.
const (
	endGone    = "gone"    // its entry is gone: it was released, or its session ended
	endLost    = "lost"    // or restarted: its process has come back to the lock with another session
	endEvicted = "evicted" // by this page
)

// hold is one hold as the reader saw it.
type hold struct {
	Token   string `json:"token"`
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Label   string `json:"label,omitempty"`
	Key     string `json:"key,omitempty"` // of an entry without a host
	Session string `json:"session,omitempty"`

	lock string
	mode string

	// From is when the hold began, by the clock of its owner if Sure, or when it was first
	// seen. Seen is when it was seen last, and To the first read that did not find it.
	From int64  `json:"from"`
	Sure bool   `json:"sure,omitempty"`
	Seen int64  `json:"seen"`
	To   int64  `json:"to,omitempty"`
	End  string `json:"end,omitempty"`
}

// process identifies an owner of entries, across its service sessions.
type process struct {
	host  string
	pid   int
	label string
}

// visit is when an entry was seen first and last.
type visit struct{ first, last int64 }

// history has the holds that the reader has seen. It is not safe for concurrent use.
type history struct {
	locks    map[string][]*hold // in the order in which they were first seen
	sessions map[string]visit   // when an entry of each was seen
	recent   []*hold            // those that ended within comeback
	evicted  map[string]int64   // identities that this page has evicted, and when
}

func newHistory() *history {
	return &history{locks: map[string][]*hold{}, sessions: map[string]visit{}, evicted: map[string]int64{}}
}

// saw adds a read of a lock. before are the cards of the read before, now those of this
// one.
func (h *history) saw(name string, before, now []card, at int64) {
	holds := h.locks[name]
	open := make(map[string]*hold, 4)
	for _, x := range holds {
		if x.To == 0 {
			open[x.Token] = x
		}
	}
	for _, c := range now {
		if !c.Holder {
			continue
		}
		x := open[c.Token]
		if x == nil {
			x = &hold{
				Token: c.Token, Host: c.Host, PID: c.PID, Label: c.Label, Session: c.Session, lock: name, mode: c.Mode, From: at,
			}
			if c.Host == "" {
				x.Key = c.Key
			}
			holds = append(holds, x)
		}
		if c.Granted != 0 && !x.Sure {
			x.From, x.Sure = c.Granted, true
			follow(holds, x)
		}
		x.Seen = at
		delete(open, c.Token)
	}
	for _, x := range open {
		x.To, x.End = at, endGone
		h.recent = append(h.recent, x)
	}
	h.markEvicted(before, now, open, at)
	h.locks[name] = shortened(holds)
	if len(h.locks[name]) == 0 {
		delete(h.locks, name)
	}
}

// follow makes a hold begin where the exclusive one before it ended: both happened between
// two reads, and only the later one's grant is known. Clocks of hosts may disagree, so a
// hold never begins before the one before it was last seen.
func follow(holds []*hold, x *hold) {
	i := slices.Index(holds, x) - 1
	if i < 0 || holds[i].To == 0 || x.mode != string(session.Exclusive) || holds[i].mode != x.mode || x.From >= holds[i].To {
		return
	}
	x.From = max(x.From, holds[i].Seen)
	holds[i].To = x.From
}

// markEvicted marks the holds that ended because this page has evicted their entries. Where
// the outcome of an eviction is not known, it counts for as long as comeback.
func (h *history) markEvicted(before, now []card, ended map[string]*hold, at int64) {
	maps.DeleteFunc(h.evicted, func(_ string, since int64) bool { return at-since > comeback.Milliseconds() })
	if len(h.evicted) == 0 {
		return
	}
	for _, c := range before {
		if _, evicted := h.evicted[c.ID]; !evicted || slices.ContainsFunc(now, func(n card) bool { return n.ID == c.ID }) {
			continue
		}
		if x := ended[c.Token]; x != nil {
			x.End = endEvicted
		}
	}
}

// shortened leaves out the oldest holds if there are too many: first those that ended.
func shortened(holds []*hold) []*hold {
	for len(holds) > mostHolds {
		i := max(slices.IndexFunc(holds, func(x *hold) bool { return x.To != 0 }), 0)
		holds = slices.Delete(holds, i, i+1)
	}
	return holds
}

// settle is called after the reads of a tick, with all cards that are known now. It finds
// the holds whose process has come back to the lock with another session. A process may have
// several sessions: the claim needs a session that was not there before, and is withdrawn if
// the one of the hold shows up again.
func (h *history) settle(locks map[string]*lock, at int64) {
	type owner struct {
		lock string
		process
	}
	newest := map[owner]int64{} // when the session of an owner's that came last was first seen
	for name, l := range locks {
		for i := range l.cards {
			c := &l.cards[i]
			if c.Session == "" || c.Host == "" {
				continue
			}
			v, known := h.sessions[c.Session]
			if !known {
				v.first = at
			}
			v.last = at
			h.sessions[c.Session] = v
			o := owner{name, process{c.Host, c.PID, c.Label}}
			newest[o] = max(newest[o], v.first)
		}
	}
	maps.DeleteFunc(h.sessions, func(_ string, v visit) bool { return at-v.last > forgotten.Milliseconds() })
	h.recent = slices.DeleteFunc(h.recent, func(x *hold) bool {
		if at-x.To > comeback.Milliseconds() {
			return true
		}
		switch back := newest[owner{x.lock, process{x.Host, x.PID, x.Label}}]; {
		case x.End == endEvicted:
		case h.sessions[x.Session].last == at:
			x.End = endGone
		case back >= x.To:
			x.End = endLost
		}
		return x.End == endEvicted
	})
	h.forget(locks)
}

// forget drops the histories of locks that have no entry, where there are too many.
func (h *history) forget(locks map[string]*lock) {
	if len(h.locks) <= mostHistories {
		return
	}
	for name := range h.locks {
		if locks[name] == nil {
			delete(h.locks, name)
		}
	}
}

// of returns copies of the holds of a lock, the oldest first.
func (h *history) of(name string) []hold {
	all := make([]hold, 0, len(h.locks[name]))
	for _, x := range h.locks[name] {
		all = append(all, *x)
	}
	return all
}
