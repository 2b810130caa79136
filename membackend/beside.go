package membackend

import (
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// beside is what the service keeps of a line beside its entries. It outlives
// them.
type beside struct {
	limit  int64   // 0: none
	set    int64   // the call that set it
	ledger *ledger // nil: none
	done   []byte  // the record of finished work; nil: none
}

// ledger is a line's account of how holds end.
type ledger struct {
	name driver.Ref  // whoever holds; zero: the last one gave back
	past driver.Past // how the hold before that ended
}

// names says whether the ledger has the name of an entry. The place alone
// decides: Share may give the entry another key.
func (l *ledger) names(e *entry) bool {
	return l != nil && !l.name.Zero() && l.name.Place == e.Place
}

// limitOr returns a line's limit, which becomes limit if it has none.
func (st *Store) limitOr(name string, limit int64) int64 {
	b := st.beside[name]
	if b.limit == 0 && limit != 0 {
		b.limit = limit
		st.beside[name] = b
		st.tellLine(name, driver.OfLimit, 0)
	}
	return b.limit
}

// setLimit is the service's part of SetLimit. A copy of an old call that comes
// late does not undo a newer one.
func (st *Store) setLimit(name string, limit, call int64) {
	b := st.beside[name]
	if failpoint.On(failpoint.LimitCopied) {
		b.set = 0
	}
	if call < b.set {
		return
	}
	b.set = call
	if b.limit != limit {
		b.limit = limit
		st.rev++
		st.tellLine(name, driver.OfLimit, 0)
	}
	st.beside[name] = b
}

// enter is the service's part of Enter. The name of an entry ahead is that of
// one that held, and is gone without having struck it out, since who enters now
// holds. One behind was written by Join, over a clean ledger.
func (st *Store) enter(e *entry) driver.Past {
	b := st.beside[e.Line]
	if b.ledger.names(e) {
		return b.ledger.past
	}
	past := driver.PastClean
	if l := b.ledger; l != nil && !l.name.Zero() && l.name.Place < e.Place {
		past = driver.PastDied
	}
	b.ledger = &ledger{name: e.Ref, past: past}
	st.beside[e.Line] = b
	return past
}

// enterClean is what Join does with the ledger: it enters the name of a new
// entry if nobody's is there.
func (st *Store) enterClean(e *entry) (entered bool, past driver.Past) {
	if l := st.beside[e.Line].ledger; l != nil && !l.name.Zero() {
		return false, driver.PastUnknown
	}
	return true, st.enter(e)
}

// strike takes the name of an entry out of the ledger, if it is there.
func (st *Store) strike(e *entry) {
	if b := st.beside[e.Line]; b.ledger.names(e) {
		b.ledger = &ledger{}
		st.beside[e.Line] = b
	}
}
