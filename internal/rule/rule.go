package rule

import (
	"slices"

	"github.com/fairlock/fairlock/session/driver"
)

// Ahead is what is known of the entries ahead of an entry, as of some moment after the
// entry joined.
type Ahead struct {
	// Entries are in order of place, the nearest last, with none missing between them or
	// behind them. A rule does not change them.
	Entries []*driver.Entry

	// Complete reports whether no entry stands before Entries[0], or ahead at all, if
	// there are none.
	Complete bool

	// Count is how many entries were ahead at some moment. They can only have become
	// fewer. Rules use it to ask for enough of the queue at once.
	Count int

	// Limit is the limit of a semaphore, as of the moment of Entries or later; 0 if it
	// is not known.
	Limit int64
}

// Verdict is what a rule decides for one entry. Exactly one of Hold, More, Never and
// Wait is set; Front goes with Wait.
type Verdict struct {
	// Hold: the entry holds, now and for as long as it lives.
	Hold bool

	// More, unless 0: what is known does not suffice. It is how many of the nearest
	// entries ahead are worth reading.
	More int

	// Never: the entry asks for more permits than there are.
	Never bool

	// Wait is a blocking set: for as long as none of them leaves, and none gets another
	// mark, the entry cannot hold. It is a part of Ahead.Entries where it can be.
	Wait []*driver.Entry

	// Next: the entry holds as soon as none of Wait blocks it any more.
	Next bool

	// Front: the entry is the first of those that wait for permits. The end of any
	// entry with the mark Admitted can let it hold, also if that is not one of Wait, and so
	// can a higher limit.
	Front bool

	// Soon, unless nil, is the entry that Wait waits for. Its end changes nothing yet; but
	// where no other is ahead, it shows that Wait's end will let the entry hold.
	Soon *driver.Entry
}

// A Rule decides which entries hold.
type Rule struct {
	// Decide returns the verdict for an entry, by what is known of those ahead of it. It
	// must be monotone: with fewer of them, an entry that holds still holds.
	Decide func(a Ahead, mine *driver.Entry) Verdict

	// Limited reports whether the rule goes by a limit, which can fall. So an entry that
	// has waited is let in only by a read that shows queue and limit, and never by an
	// event that is added to what an older read has shown.
	Limited bool
}

// Nearest is how many of the nearest entries a waiter reads at first. The second one
// shows whether the first is the only one ahead.
const Nearest = 2

// A rule that has not seen enough asks for all entries ahead, if they are at most wide,
// and else for at least wider times as many as it knows.
const (
	wider = 8
	wide  = 1000
)

// more is the verdict of a rule that has not seen enough.
func (a Ahead) more() Verdict {
	return Verdict{More: max(Nearest, wider*len(a.Entries), min(a.Count, wide))}
}

// Mutex is the rule of what excludes everything: a mutex, a candidate. The entry holds
// when no entry is ahead, and waits for the nearest. "My predecessor is gone, so I hold"
// would be wrong: the predecessor may have given up while others are still ahead.
func Mutex() Rule { return Rule{Decide: mutex} }

func mutex(a Ahead, _ *driver.Entry) Verdict {
	n := len(a.Entries)
	switch {
	case n > 1:
		return Verdict{Wait: a.Entries[n-1:], Soon: a.Entries[n-2]}
	case n == 1:
		return Verdict{Wait: a.Entries, Next: a.Complete}
	case a.Complete:
		return Verdict{Hold: true}
	}
	return Verdict{More: Nearest} // however many are ahead, the nearest will do
}

// ReadWrite is the rule of readers and writers. A writer is as in Mutex. A reader passes
// other readers, and writers that became readers, but never a writer that came first.
// It waits for the nearest writer and not for the first, so that it wakes only once.
func ReadWrite() Rule { return Rule{Decide: readWrite} }

func readWrite(a Ahead, mine *driver.Entry) Verdict {
	if mine.Mode != driver.Shared {
		return mutex(a, mine)
	}
	for i := len(a.Entries) - 1; i >= 0; i-- {
		if !a.Entries[i].Shares() {
			next := a.Complete && !slices.ContainsFunc(a.Entries[:i], blocksReaders)
			return Verdict{Wait: a.Entries[i : i+1], Next: next}
		}
	}
	if a.Complete {
		return Verdict{Hold: true}
	}
	return a.more()
}

func blocksReaders(e *driver.Entry) bool { return !e.Shares() }

// For returns the rule of an entry in a queue whose recipe is not known. Mutexes and
// candidates are writers to it.
func For(e *driver.Entry) Rule {
	if e.Mode == driver.Weighted && !e.Foreign {
		return Semaphore()
	}
	return ReadWrite()
}

// Holders reports of each entry of a whole queue whether it holds. limit is the limit
// of a semaphore, 0 if it has none or it is not known.
//
// An entry with the mark Admitted holds although the limit has fallen since. An entry
// that has not marked itself yet may have done the same, so such a holder can be shown
// as a waiter for a moment.
func Holders(queue []driver.Entry, limit int64) []bool {
	holds := make([]bool, len(queue))
	shared, taken := true, int64(0)
	for i := range queue {
		e := &queue[i]
		switch {
		case e.Mode == driver.Weighted && !e.Foreign:
			holds[i] = e.Marks.Has(driver.MarkAdmitted) || weight(e, limit) <= limit-taken
		default:
			// Another program's writer may have a reader of the same number.
			holds[i] = e.Place == queue[0].Place || shared && e.Shares()
		}
		shared = shared && e.Shares()
		taken = add(taken, weight(e, limit))
	}
	return holds
}

// Together reports of each entry of a whole queue whether it is let in together with the
// one before it: when the holders of that moment have ended, one rule lets in both. It
// is false for the first waiter. Among holders it is true of all but the first.
func Together(queue []driver.Entry, holds []bool, limit int64) []bool {
	with := make([]bool, len(queue))
	shared, taken := true, int64(0) // of the entries that hold at that moment
	for i := range queue {
		e := &queue[i]
		switch {
		case i == 0:
		case holds[i-1] != holds[i]:
		case holds[i]:
			with[i] = true
		case e.Mode == driver.Weighted && !e.Foreign:
			with[i] = weight(e, limit) <= limit-taken
		case e.Shares():
			with[i] = shared
		}
		if !with[i] {
			shared, taken = true, 0
		}
		shared = shared && e.Shares()
		taken = add(taken, weight(e, limit))
	}
	return with
}
