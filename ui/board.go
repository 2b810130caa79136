package ui

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/internal/waitfor"
)

// lock is one lock as it was last read.
type lock struct {
	n      int
	name   string
	queue  schema.Queue
	cards  []card
	hidden hidden
	asks   []ask
	at     int64
	round  int // of the board, in which it was read
}

// answer is one queue that was read.
type answer struct {
	name   string
	queue  schema.Queue
	cards  []card
	hidden hidden
	asks   []ask
	at     time.Time
	ok     bool // the read was answered
	gone   bool // the service no longer has the name

	// unlisted reports that a page asked for a lock that the newest list of names lacks.
	unlisted bool

	// unasked reports that a page shows the lock, and that its yield requests were not read this
	// time. Those of the read before are still shown.
	unasked bool

	failed  string // why the read was denied or refused
	assumed int    // how many entries the queue was expected to have
}

// board has everything that the reader has seen, and computes what changes. It does no
// I/O, and is not safe for concurrent use. Cards that it has returned never change.
type board struct {
	locks   map[string]*lock
	round   int // how many ticks it has taken
	last    int // number of a lock
	history *history
	waits   waits
	waiting waitClock
	stale   bool // something has changed since waits were found, or a deadlock is in doubt
}

func newBoard() *board { return &board{locks: map[string]*lock{}, history: newHistory()} }

// take adds the answers of a tick, and writes into the message what has changed.
func (b *board) take(answers []answer, m *tickMsg, now time.Time) {
	b.round++
	changed := false
	for i := range answers {
		a := &answers[i]
		if !a.ok {
			continue
		}
		old := b.locks[a.name]
		switch {
		case a.gone || len(a.cards) == 0 && a.hidden.N == 0:
			if old == nil {
				continue
			}
			b.history.saw(a.name, nil, millis(a.at))
			delete(b.locks, a.name)
			m.Gone = append(m.Gone, old.n)
			changed = true
		case old == nil:
			b.last++
			l := &lock{n: b.last, name: a.name}
			b.locks[a.name] = l
			setSeen(nil, a.cards, millis(a.at))
			b.history.saw(a.name, a.cards, millis(a.at))
			l.read(a, b.round)
			m.Locks = append(m.Locks, l.whole())
			changed = true
		default:
			setSeen(old.cards, a.cards, millis(a.at))
			b.history.saw(a.name, a.cards, millis(a.at))
			before := *old
			if a.unasked {
				a.asks = old.asks
			}
			old.read(a, b.round)
			msg, differs := old.since(&before)
			if differs {
				m.Locks = append(m.Locks, msg)
				changed = true
			} else {
				m.Read = append(m.Read, old.n)
			}
		}
	}
	if changed {
		b.history.forget(b.locks)
		b.stale = true
	}
	if !b.stale {
		return
	}
	w, done := b.waiting.find(b.locks, b.round, now)
	b.stale = !done || len(b.waiting.doubt) > 0 // a later tick finds them, even one that changes nothing
	if done && !w.equal(b.waits) {
		b.waits = w
		m.Waits = &w
	}
}

// read sets the lock to what an answer shows.
func (l *lock) read(a *answer, round int) {
	l.queue, l.cards, l.hidden, l.asks, l.at, l.round = a.queue, a.cards, a.hidden, a.asks, millis(a.at), round
}

// setSeen sets, on cards whose times are not recorded, since when reads have shown them hold or wait
// as they do now: those of other programs, and of holds in their first second or whose time the
// service refuses to record. before are the cards of the read before.
func setSeen(before, now []card, at int64) {
	type state struct {
		id    string
		holds bool
	}
	seen := map[state]int64{}
	for i := range before {
		c := &before[i]
		if c.Seen != 0 {
			seen[state{c.ID, c.Holder}] = c.Seen
		}
	}
	for i := range now {
		c := &now[i]
		if c.Asked == 0 || c.Holder && c.Granted == 0 {
			c.Seen = cmp.Or(seen[state{c.ID, c.Holder}], at)
		}
	}
}

// whole returns the lock with all its entries.
func (l *lock) whole() lockMsg {
	m := l.message()
	m.Name, m.Whole, m.Entries = l.name, true, l.cards
	shown := plain(l.name)
	if shown != l.name {
		m.Show = shown
	}
	return m
}

func (l *lock) message() lockMsg {
	return lockMsg{N: l.n, At: l.at, Kind: plain(l.queue.Kind), Limit: l.queue.Limit, Asks: l.asks, Hidden: l.hidden}
}

// since returns what has changed since the lock was as before, and whether anything has.
// New entries join at the end, so the message is short. If one joins elsewhere, the
// message has all entries.
func (l *lock) since(before *lock) (lockMsg, bool) {
	if slices.Equal(l.cards, before.cards) && slices.Equal(l.asks, before.asks) && l.hidden == before.hidden && l.queue.Limit == before.queue.Limit && l.queue.Kind == before.queue.Kind {
		return lockMsg{}, false
	}
	m := l.message()
	left := make(map[string]bool, len(l.cards))
	for i := range l.cards {
		left[l.cards[i].ID] = true
	}
	at := 0
	for i := range before.cards {
		c := &before.cards[i]
		switch {
		case !left[c.ID]:
			m.Remove = append(m.Remove, c.ID)
			continue
		case l.cards[at].ID != c.ID:
			return l.whole(), true
		case l.cards[at] != *c:
			m.Set = append(m.Set, l.cards[at])
		}
		at++
	}
	m.Add = l.cards[at:]
	if len(m.Remove)+len(m.Set)+len(m.Add) > len(l.cards) {
		return l.whole(), true
	}
	return m, true
}

// all returns all locks whole, by name.
func (b *board) all() []lockMsg {
	all := make([]lockMsg, 0, len(b.locks))
	for _, name := range slices.Sorted(maps.Keys(b.locks)) {
		all = append(all, b.locks[name].whole())
	}
	return all
}

// waits are the owners that hold one lock and wait for another, and the deadlocks.
type waits struct {
	// Links are owners that hold one lock and wait for another, at most mostLinks, those that
	// wait longest; More is how many there are beyond.
	Links     []link     `json:"links,omitempty"`
	More      int        `json:"more,omitempty"`
	Deadlocks []deadlock `json:"deadlocks,omitempty"`
}

const mostLinks = 200

// link is one step from a lock to the lock that its owner waits for.
type link struct {
	In    string `json:"in"`    // held
	For   string `json:"for"`   // waited for
	Owns  string `json:"owns"`  // the token of the hold
	Waits string `json:"waits"` // and that of the entry that waits
	Host  string `json:"host,omitempty"`
	PID   int    `json:"pid,omitempty"`
	Label string `json:"label,omitempty"`
	Asked int64  `json:"asked,omitempty"`
}

// deadlock is a circle of links, and how many more entries never hold because of it.
type deadlock struct {
	Steps  []link `json:"steps"`
	Behind int    `json:"behind,omitempty"`
}

func linkOf(owns schema.Entry, in string, waits schema.Entry, name string) link {
	return link{
		In: in, For: name, Owns: number(owns.Token), Waits: number(waits.Token),
		Host: plain(waits.Host), PID: waits.PID, Label: plain(waits.Label), Asked: millis(waits.Since.Time),
	}
}

func (w waits) equal(v waits) bool {
	return w.More == v.More && slices.Equal(w.Links, v.Links) &&
		slices.EqualFunc(w.Deadlocks, v.Deadlocks, func(a, b deadlock) bool { return a.Behind == b.Behind && slices.Equal(a.Steps, b.Steps) })
}

// waitClock finds waits, and uses at most a tenth of the time for it: simulating long
// queues to their end costs the square of their length.
//
// Queues are read at different moments, so together they can show a cycle that never existed.
// If every queue that shows a cycle was read again after it was found, and shows it still, then
// all of it existed at the moment when it was found. Until then it is in doubt.
type waitClock struct {
	next  time.Time
	found map[string]int  // cycles by their IDs, and in which round of the board each was found first
	doubt map[string]bool // queues to be read again
}

// find returns the waits between locks; false if it is not time for it.
func (k *waitClock) find(locks map[string]*lock, round int, now time.Time) (w waits, done bool) {
	if now.Before(k.next) {
		return w, false
	}
	began := time.Now()
	queues := linked(locks)
	links := waitfor.Links(queues)
	slices.SortStableFunc(links, func(a, b waitfor.Link) int { return a.Waits.Since.Compare(b.Waits.Since.Time) })
	for _, l := range links[:min(len(links), mostLinks)] {
		w.Links = append(w.Links, linkOf(l.Owns, l.In, l.Waits, l.For))
	}
	w.More = len(links) - len(w.Links)
	found := map[string]int{}
	k.doubt = map[string]bool{}
	for _, d := range waitfor.Find(queues) {
		first, known := k.found[d.ID()]
		if !known {
			first = round
		}
		found[d.ID()] = first
		again := slices.DeleteFunc(slices.Clone(d.Among), func(name string) bool { return locks[name].round > first })
		for _, name := range again {
			k.doubt[name] = true
		}
		if len(again) > 0 {
			continue
		}
		var out deadlock
		for _, s := range d.Steps {
			out.Steps = append(out.Steps, linkOf(s.Owns, s.In, s.Waits, s.For))
		}
		out.Behind = d.Behind
		w.Deadlocks = append(w.Deadlocks, out)
	}
	k.found = found
	k.next = now.Add(10 * time.Since(began))
	return w, true
}

// linked returns the queues that a deadlock could be part of, by name: an owner of one of
// their entries holds or wants another lock too. All other queues come to their end.
func linked(locks map[string]*lock) []schema.Queue {
	type request struct {
		token   int64
		session string
	}
	in := map[string]bool{}
	first := map[request]string{}
	for name, l := range locks {
		for i := range l.queue.Entries {
			e := &l.queue.Entries[i]
			for _, other := range e.Holds {
				if locks[other] != nil && other != name {
					in[name], in[other] = true, true
				}
			}
			if e.Token == 0 || e.Session == "" {
				continue
			}
			r := request{e.Token, e.Session}
			if other, ok := first[r]; ok && other != name {
				in[name], in[other] = true, true
			}
			first[r] = name
		}
	}
	queues := make([]schema.Queue, 0, len(in))
	for name := range in {
		queues = append(queues, locks[name].queue)
	}
	slices.SortFunc(queues, func(a, b schema.Queue) int { return cmp.Compare(a.Name, b.Name) })
	return queues
}
