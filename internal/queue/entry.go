package queue

import (
	"github.com/fairlock/fairlock/internal/rule"
	"github.com/fairlock/fairlock/session/driver"
)

// Entry is one entry of ours: a place in one queue, from the answer to the join until the entry
// is known to be gone. Its state only goes forward:
//
//	waiting --grant--> held
//	   |                |
//	   +-----> over <---+   the entry is gone, by its owner or another client
//
// An entry that is asked to leave (leaving) is granted no more, and its end is no loss.
type Entry struct {
	// Entry is the picture's value of this entry, with the token of the join. It is set by
	// Group.Joined, and stays readable when the entry is gone.
	*driver.Entry

	// Limited is rule.Limited: only a view grants the entry, and it marks itself Admitted.
	Limited bool

	// Waited is how many entries were ahead when the entry joined. It never changes.
	Waited int

	// Foreign: an entry of another program was right ahead at some time. Never reset.
	Foreign bool

	q     *Queue
	group *Group
	n     int // the index in group.Entries
	rule  rule.Rule

	// readers: readers may wait for this entry over other readers.
	readers bool

	// changes: the owner may change the entry while it holds, for which the entry must be the first, or
	// writes records by which others know of the holds before.
	changes bool

	// try: the request is not to wait. The entry is refused as soon as a view of all that are
	// ahead shows that it would have to.
	try bool

	state   state
	leaving bool // the entry is asked to leave, or will be. Never reset
	passed  bool // see Passes. Implies leaving. Never reset
	lost    bool // the entry went without that. Implies over

	// count is how many entries are ahead, as last known: it may be too high, never too low.
	count int

	// first: at some time no entry was ahead. Never reset. The release may report it to others,
	// which rely on it.
	first bool

	// whole: the last view that showed the entry had all that were ahead.
	whole bool

	// limited: there was a limit when the entry joined, or in a view that showed it. So a view
	// without a limit means that an operator has deleted that.
	limited bool

	// shown is how many doubts (see doubts) had been raised when the request was sent whose
	// answer has shown the entry last. The entry is in doubt while an unresolved one is newer.
	shown uint64

	// need is how many of the nearest entries ahead the next read has to show; 0: all.
	need int

	wants bool // the entry is among q.wanted

	// turn: the entry may hold if it lives, and the event Armed of guard will prove that.
	turn bool

	// guard is the watch on the entry itself; nil if nothing needs one yet. From then on it
	// stays, until the entry is asked to leave.
	guard *watch

	// on are the watches on what the entry waits for; none unless it is waiting.
	on []*watch

	// blocker is the entry that it has waited for last, for hooks; nil if it never waited.
	blocker *driver.Entry
}

// state is where an own entry is in its life. The order counts: it only goes up.
type state uint8

const (
	waiting state = iota
	held
	over
)

// Held reports whether the entry holds.
func (en *Entry) Held() bool { return en.state == held }

// Over reports whether the entry is gone.
func (en *Entry) Over() bool { return en.state == over }

// Leaving reports whether the entry was asked to leave, or will be.
func (en *Entry) Leaving() bool { return en.leaving }

// Lost reports whether the entry is gone without having been asked to leave.
func (en *Entry) Lost() bool { return en.lost }

// Index is the index of the entry among those of its Group.
func (en *Entry) Index() int { return en.n }

// Group returns what the entry is part of.
func (en *Entry) Group() *Group { return en.group }

// WaitsLong is called when the entry has waited for long: in the end every waiter is to
// learn that its entry is gone.
func (en *Entry) WaitsLong() {
	if en.state == waiting && !en.leaving {
		en.q.protect(en)
	}
}

// Guard has an entry that holds watched, so that its loss is known.
func (en *Entry) Guard() {
	if en.state == held && !en.leaving {
		en.q.protect(en)
	}
}

// Leaves takes in that the entry is about to be asked to leave.
func (en *Entry) Leaves() {
	en.leaving = true
	if en.guard != nil {
		en.guard.stop() // its end is expected then
	}
}

// follows reports whether an entry of ours may pass on to this one before the answer to its Leave. Two kinds
// wait for the answer. Permits: only a read grants them, and that takes as long. And those that are changed
// while they hold, as by a downgrade: the service may refuse that while another one is ahead.
func (en *Entry) follows() bool { return !en.Limited && !en.changes }

// Passes takes in that the Leave of the entry is about to be sent, that no caller holds by it any more,
// and that nothing can be done later in its name. So no own entry behind it has to wait for the answer:
// the entry keeps all others out until it is gone, and the one behind it from then on (see unpassed).
func (en *Entry) Passes() {
	if en.state != over && !en.Limited { // permits are granted by reads only
		en.passed = true
		en.q.stir(en.Ref, byEvent)
	}
}

// ShowsFirst reports whether the Leave of the entry is to show others that it was first. An entry
// that joined behind three or more needs that (see Queue.wait), and then the one ahead of it
// joined behind two. A reader can wait for a writer over other readers. Permits are granted by
// views only.
func (en *Entry) ShowsFirst() bool {
	needed := en.Waited > 1 || en.Waited == 1 && en.readers
	return en.wasFirst() && needed && !en.Limited && !en.precedesOwn()
}

// precedesOwn reports whether the entry right behind is known to be ours. Then no other waits
// for this one, and ours learns from the answer to Leave that it was first.
func (en *Entry) precedesOwn() bool {
	p := &en.q.pic
	i := p.index(en.Ref) + 1
	if i == 0 || i == len(p.es) || p.gaps[i] {
		return false
	}
	next := en.q.own[p.es[i].Ref]
	return next != nil && next.Mode == driver.Exclusive && !next.leaving
}

// wasFirst reports whether at some time no entry was ahead. One that only waited can have
// been first too.
func (en *Entry) wasFirst() bool {
	i := en.q.pic.index(en.Ref)
	if i >= 0 && !en.q.writers.ahead(en) {
		es, complete := en.q.pic.ahead(i)
		en.first = en.first || complete && len(es) == 0
	}
	return en.first
}

// Owner is the request that a Group belongs to. Its methods are called from within the calls of
// the queues, and must not call those.
type Owner interface {
	// Waits is called once for the n-th entry, if that joined behind others.
	Waits(n int)

	// Done is called once: all entries hold, or one is refused (see Group.Refusal).
	Done()

	// Lost is called once, when the first entry is lost.
	Lost()

	// Moved reports how many entries are ahead of the n-th entry, which waits, if that has
	// changed.
	Moved(n, ahead int)
}

// Group is the entries of one request: one entry, or one in each of several queues, made in one
// transaction. The request has its hold when all of them hold at one moment.
//
// An entry is proved alive at the moment of its grant only. So while others of the group are
// still waited for, each that holds is watched, and the group is whole when the last one is
// granted and all other watches are armed and have reported no end.
type Group struct {
	// Entries are those of the request, in the order of its names. They are set by Joined.
	Entries []*Entry

	owner Owner

	missing int   // how many entries do not hold yet
	waited  bool  // some did not hold when the join was answered: the others must be watched
	whole   bool  // all hold, at one moment. Never reset; missing is 0 then
	refusal error // why an entry never will; nil if none was refused
	lost    bool  // an entry is lost. Never reset
	blocker *driver.Entry
}

// NewGroup returns the entries of a request that asks for n of them, which have not joined yet.
func NewGroup(n int, owner Owner) *Group { return &Group{missing: n, owner: owner} }

// Spec is what a request asks of one queue.
type Spec struct {
	Rule    rule.Rule
	Readers bool // the queue may have readers and writers
	Changes bool // see Entry.changes
	Try     bool // see Entry.try
}

// Joined takes in the entries of a join, one for each queue. doubts is Term.Doubts before the
// join was sent.
func (g *Group) Joined(queues []*Queue, specs []Spec, joined []driver.Joined, doubts uint64) {
	for i, s := range specs {
		g.Entries = append(g.Entries, &Entry{
			q: queues[i], group: g, n: i, rule: s.Rule, Limited: s.Rule.Limited, readers: s.Readers, changes: s.Changes, try: s.Try,
		})
	}
	for i, en := range g.Entries {
		queues[i].joined(en, joined[i], doubts)
	}
	g.waited = g.missing > 0
	if g.waited {
		g.Guard()
	}
}

// Guard has the entries watched that hold, while something else is waited for.
func (g *Group) Guard() {
	for _, en := range g.Entries {
		en.Guard()
	}
}

// holds takes in that an entry holds. If others are still waited for, it is watched.
func (g *Group) holds(en *Entry) {
	if en.blocker != nil {
		g.blocker = en.blocker
	}
	g.missing--
	if !g.complete(en) && g.waited {
		en.q.protect(en)
	}
}

// complete lets the request have its hold when all entries hold, and reports whether it
// has. The caller has just proved that entry now is alive. The others were proved alive
// earlier, so each needs an armed watch, which has reported no end.
//
//	an entry does not hold yet                     no
//	all held when the join was answered            yes: that one answer shows all of them
//	a watch on one of the others is not armed yet  no: its event Armed calls complete again
//	else                                           yes
func (g *Group) complete(now *Entry) bool {
	if g.missing > 0 || g.whole {
		return g.whole
	}
	for _, en := range g.Entries {
		if g.waited && en != now && !en.guard.isArmed() {
			return false
		}
	}
	g.whole = true
	g.owner.Done()
	return true
}

// refuse takes in that an entry will never hold.
func (g *Group) refuse(err error) {
	if g.refusal == nil {
		g.refusal = err
		g.owner.Done()
	}
}

// lose takes in that an entry is lost.
func (g *Group) lose() {
	if !g.lost {
		g.lost = true
		g.owner.Lost()
	}
}

// Lost reports whether an entry is lost.
func (g *Group) Lost() bool { return g.lost }

// Refusal returns why an entry will never hold, nil if none was refused.
func (g *Group) Refusal() error { return g.refusal }

// Blocker returns the entry that the request waits for, or waited for last; nil if it never
// waited, or if that is not known. The caller copies it: it can get marks.
func (g *Group) Blocker() *driver.Entry {
	en := g.Waiter()
	if en != nil && en.blocker != nil {
		return en.blocker
	}
	return g.blocker
}

// Waiter returns the first of the entries that waits; nil if none does.
func (g *Group) Waiter() *Entry {
	for _, en := range g.Entries {
		if en.state == waiting {
			return en
		}
	}
	return nil
}

// Ahead returns how many entries are ahead, as last known.
func (en *Entry) Ahead() int { return en.count }
