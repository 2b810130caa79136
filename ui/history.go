package ui

import (
	"slices"

	"github.com/fairlock/fairlock/session"
)

const (
	// mostHolds is how many holds of a lock the history keeps, and mostHistories of how
	// many locks.
	mostHolds     = 64
	mostHistories = 2000
)

// hold is one hold as the reader saw it. Why it ended is not known: an entry that is gone
// was released or evicted, or its session ended.
type hold struct {
	Token string `json:"token"`
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Label string `json:"label,omitempty"`
	Key   string `json:"key,omitempty"` // of an entry without a host

	mode string

	// From is when the hold began, by the clock of its owner if Sure, or when it was first
	// seen. Seen is when it was seen last, and To the first read that did not find it, or
	// the grant of the hold behind it; 0 while it lasts.
	From int64 `json:"from"`
	Sure bool  `json:"sure,omitempty"`
	Seen int64 `json:"seen"`
	To   int64 `json:"to,omitempty"`
}

// history has the holds that the reader has seen. It is not safe for concurrent use.
type history struct {
	locks map[string][]*hold // in the order in which they were first seen
}

func newHistory() *history { return &history{locks: map[string][]*hold{}} }

// saw adds a read of a lock, which has shown these cards.
func (h *history) saw(name string, now []card, at int64) {
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
			x = &hold{Token: c.Token, Host: c.Host, PID: c.PID, Label: c.Label, mode: c.Mode, From: at}
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
		x.To = at
	}
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

// shortened leaves out the oldest holds if there are too many: first those that ended.
func shortened(holds []*hold) []*hold {
	for len(holds) > mostHolds {
		i := max(slices.IndexFunc(holds, func(x *hold) bool { return x.To != 0 }), 0)
		holds = slices.Delete(holds, i, i+1)
	}
	return holds
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
