package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlock/fairlock/internal/queue"
	"github.com/fairlock/fairlock/session/driver"
)

// The ledger of a queue is a record with the name of the last holder that has not
// released. Without such a holder the record does not exist. A holder enters its name
// before its caller gets the hold, and the release clears it, in the transaction that
// deletes the entry. So a name that a new holder finds is that of a holder that died. It
// stays until a holder releases.
//
// A join for one lock enters the name if the ledger is empty, before it knows whether the
// entry holds: so a free lock costs no further request. Such a name begins with j, and that
// of a holder with h. If the entry must wait after all, behind a holder without a ledger or
// in the middle of a hand-off, the request takes its name back: a request that only waits is
// no holder. A name with j that is newer than its reader's entry belongs to an entry behind
// it, which has never held.
//
// A join for several locks enters no name. Its entry can be first in one queue for as long as
// it waits in another, and has held nothing then.
//
// Not handled: a request whose client ends, or is cut off, before the name is taken back
// counts as a holder, as does one that was cut off from the answer that granted a free lock.
// No condition of a record that all services have can distinguish those from holders. A request
// for several locks enters its name in one queue after the other. If it is cut off before it
// learns that an operator has deleted one of its entries, it counts as a holder too. So does one
// whose name was entered by an attempt without an answer, before its entry was deleted.
//
// A holder that releases before MinHold has passed puts r in front of its name, because its
// entry stays, and may go by itself. The name is not deleted then: a waiter that joined
// meanwhile would enter its own, and would count as a holder if it died.
//
// A store that has lost data may have lost the name of a holder that died. So in a later life of the store
// (driver.Session.Since) a ledger is believed when the record next to it has the number of that life.
// The first release writes it. Every hold before that reports a death.
const (
	recordLedger = "ledger"
	recordLife   = "life"
	asJoiner     = "j:"
	asHolder     = "h:"
	asReleased   = "r:"
)

// Past is how the hold before one ended.
type Past uint8

// How the hold before ended.
const (
	PastUnknown Past = iota // no ledger was read
	PastClean               // by a release, or no entry has held under this ledger before
	PastDied                // the entry went by itself: its owner died, or lost it. Or the store has lost data since
)

// ledger is what is known of the ledger of an own entry's queue.
type ledger struct {
	kept bool          // the queue has one. It never changes after the join
	seen driver.Record // at the join; zero if it was empty, or when the name of this request was taken back
	name []byte        // the newest name that is known; nil: none
	at   int64         // the version of the record that has name, if that is another request's
	own  bool          // name is one of this request
	open bool          // a name may have been entered: no answer has come
	life driver.Record // with the life in which the ledger was last believed; zero: none
	past Past          // how the last hold ended, once the entry holds
}

// ledgerOp returns the op that enters the name of a joiner, if the join has one.
func (rec *records) ledgerOp(i int) []driver.Op {
	if !rec.es.rs[i].Ledger || len(rec.es.rs) > 1 {
		return nil
	}
	return []driver.Op{{Record: recordLedger, If: driver.Absent(), Value: rec.name(asJoiner), Optional: true}}
}

// learnLedger takes in what a join has found. If the request had the op, that was the last one.
func (rec *records) learnLedger(i int, j driver.Joined) {
	l := &rec.ledgers[i]
	l.kept, l.life = rec.es.rs[i].Ledger, j.View.Records[recordLife]
	if rec.ledgerOp(i) == nil {
		return
	}
	r := j.Ops[len(j.Ops)-1]
	l.seen = r.Record
	if r.Done || r.Record.Version == 0 { // if it is not known, an earlier attempt may have entered it
		l.seen.Value = rec.name(asJoiner)
	}
	rec.setName(l, l.seen)
}

// joinRecords returns the records that the join of an entry reads for its ledger.
func (rec *records) joinRecords(i int) []string {
	if !rec.es.rs[i].Ledger || rec.es.qs.s.Since() == 0 {
		return nil
	}
	return []string{recordLife}
}

// whole reports whether a ledger has lost nothing in an older life of the store.
func (rec *records) whole(l *ledger) bool {
	since := rec.es.qs.s.Since()
	return since == 0 || string(l.life.Value) == strconv.FormatInt(since, 10)
}

// ended records how the last hold ended, by the name in the ledger.
func (rec *records) ended(l *ledger, clean bool) {
	l.past = PastDied
	if clean && rec.whole(l) {
		l.past = PastClean
	}
}

// lifeOps returns the change by which a release declares the ledger whole in this life, unless it is.
func (rec *records) lifeOps(l *ledger) []driver.Op {
	if !l.kept || rec.whole(l) {
		return nil
	}
	value := strconv.AppendInt(nil, rec.es.qs.s.Since(), 10)
	return []driver.Op{{Record: recordLife, If: driver.At(l.life.Version), Value: value, Optional: true}}
}

// setName takes in the name in a ledger.
func (rec *records) setName(l *ledger, r driver.Record) {
	l.name, l.at = r.Value, r.Version
	l.own = slices.ContainsFunc([]string{asJoiner, asHolder, asReleased}, func(prefix string) bool {
		return bytes.Equal(l.name, rec.name(prefix))
	})
}

// withdraw takes the name of a joiner that must wait out of the ledger again. If that fails, or
// no answer has shown that the join has entered it, the name stays until the entry holds or
// leaves: most joins that do not know have found that of the holder, and would ask in vain.
func (rec *records) withdraw(ctx context.Context) {
	inner, cancel := rec.es.qs.t.Within(ctx)
	defer cancel()
	for i := range rec.ledgers {
		l := &rec.ledgers[i]
		if !l.own || l.seen.Version == 0 {
			continue
		}
		op := driver.Op{Record: recordLedger, If: driver.Equal(rec.name(asJoiner)), Optional: true}
		if _, err := rec.es.update(inner, i, driver.UpdateRequest{Ops: []driver.Op{op}}); err == nil {
			l.seen = driver.Record{}
			rec.setName(l, l.seen)
		}
	}
}

// enter learns how the last hold ended, and enters the name of an entry that holds,
// unless its join has done so or the name of a holder that died must stay. It is
// idempotent.
//
//	the update                                  then
//	was done                                    the name is there, and the last hold ended cleanly
//	was refused, by a name that stays (keeps)   nothing is written
//	was refused, by another name                that one is replaced, if it is still as it was read
//	found the entry gone, or is incurable       nothing was written by this request
//	has an unknown outcome                      open stays set: enter or settle asks once more
//
// open is set before a request is sent. What resets it is an answer that shows which name is there, or
// an error after which no condition protects the name, or no request would be answered: the entries
// are to leave then, and do not wait for it.
func (rec *records) enter(ctx context.Context, i int) error {
	l, en := &rec.ledgers[i], rec.es.group.Entries[i]
	if en.Waited == 0 && l.seen.Version != 0 && (rec.keeps(l, en, l.seen) || l.own) {
		return nil // as the join has shown: no other entry has held since
	}
	if !rec.whole(l) { // a holder ahead may have released since the join
		r, err := readRecord(ctx, rec.es.qs.s, en.Queue, recordLife)
		if err != nil {
			return err
		}
		l.life = r
	}
	op := driver.Op{Record: recordLedger, If: driver.Absent(), Value: rec.name(asHolder)}
	for {
		l.open = true
		_, err := rec.es.update(ctx, i, driver.UpdateRequest{Ops: []driver.Op{op}})
		if err == nil {
			l.open = false
			rec.ended(l, true)
			rec.setName(l, driver.Record{Value: op.Value})
			return nil
		}
		var r driver.Record
		if refused, ok := errors.AsType[*driver.RefusedError](err); ok {
			r, err = refusing(ctx, rec.es.qs.s, refused)
		}
		l.open = err != nil && !errors.Is(err, driver.ErrGone) && !driver.Incurable(err)
		if err != nil {
			return err
		}
		if r.Version != 0 && rec.keeps(l, en, r) {
			return nil
		}
		op.If = driver.At(r.Version)
	}
}

// keeps takes in the name in a ledger while the entry holds: how the last hold has ended by it, if the
// ledger is whole, and whether the name must stay.
//
//	the name                              the last hold ended   it stays
//	of this request, as a holder          cleanly               yes
//	of this request, as a joiner          cleanly               no: withdraw may still be under way
//	of another, with r                    cleanly               no
//	of another, with j and a later token  cleanly               no: that entry is behind this one
//	any other                             by a death            yes, until a holder releases
func (rec *records) keeps(l *ledger, en *queue.Entry, r driver.Record) bool {
	rec.setName(l, r)
	behind := r.Token > en.Token && strings.HasPrefix(string(r.Value), asJoiner)
	clean := behind || strings.HasPrefix(string(r.Value), asReleased)
	rec.ended(l, l.own || clean)
	return bytes.Equal(r.Value, rec.name(asHolder)) || !l.own && !clean
}

// released enters in the ledgers that the holder has released, while its entries stay. It is
// idempotent. ErrGone means that an entry is gone.
func (rec *records) released(ctx context.Context) error {
	var died bool
	rec.es.qs.do(func() { died = rec.es.unclean() })
	if died {
		return driver.ErrGone
	}
	for i := range rec.ledgers {
		var op driver.Op
		var named bool
		var ops []driver.Op
		rec.es.qs.do(func() {
			op, named = rec.ledgers[i].op(clearAny)
			ops = rec.lifeOps(&rec.ledgers[i])
		})
		if !named {
			continue
		}
		op.Value, op.Optional = rec.name(asReleased), false
		_, err := rec.es.update(ctx, i, driver.UpdateRequest{Ops: append(ops, op)})
		if errors.Is(err, errLeaving) { // the hold is lost
			return driver.ErrGone
		}
		// If it was refused, an earlier attempt was carried out.
		_, refused := errors.AsType[*driver.RefusedError](err)
		if err != nil && !refused {
			return err
		}
		rec.es.qs.do(func() { rec.setName(&rec.ledgers[i], driver.Record{Value: op.Value}) })
	}
	return nil
}

// settle learns which names the ledgers have, where that is not known. Otherwise a
// request that held nothing could leave its name there, as if a holder had died. It runs in the
// background, before the entries are deleted: after that, no condition protects the name.
func (rec *records) settle(ctx context.Context) error {
	for i := range rec.ledgers {
		if rec.ledgers[i].open {
			err := rec.enter(ctx, i)
			if rec.ledgers[i].open {
				return err
			}
		}
	}
	return nil
}

// past returns how the last holds ended, all in all:
//
//	one of them by a death                             PastDied
//	else the first one cleanly, or any with a ledger   PastClean
//	else                                               PastUnknown
//
// A ledger that is clean proves nothing if the entry right ahead was one of another program, which
// enters no name.
func (rec *records) past() Past {
	all := PastUnknown
	for i, l := range rec.ledgers {
		if l.past == PastClean && rec.es.group.Entries[i].Foreign {
			l.past = PastUnknown // the last holder was one that enters nothing
		}
		if i == 0 || l.past == PastDied || l.kept && all == PastClean {
			all = l.past
		}
	}
	return all
}
