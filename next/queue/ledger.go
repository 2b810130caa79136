package queue

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/next/driver"
)

// The ledger of a queue is a record with the name of the last holder that has not
// released. It is not there if there is none. A holder enters its name before its caller
// gets the hold, and the release strikes it, in the transaction that deletes the entry.
// So a name that a new holder finds is that of a holder that died. It stays until a
// holder releases.
//
// A join enters the name if the ledger is empty, although it is not known yet whether the
// entry holds: so a free lock costs no further request. Such a name begins with j, and
// that of a holder with h. A j that is newer than the own entry is the name of an entry
// behind it, which has never held.
const (
	recordLedger = "ledger"
	asJoiner     = "j:"
	asHolder     = "h:"
)

// ledger is what is known of the ledger of an own entry's queue.
type ledger struct {
	kept bool          // there is one
	seen driver.Record // at the join
	name []byte        // what stands in it, as far as is known
	own  bool          // that is a name of this request
	open bool          // it is not known whether a name was entered
	past door.Past     // how the last hold ended, once the entry holds
}

// ledgerOp enters the name of a joiner.
func (g *group) ledgerOp() driver.Op {
	return driver.Op{Record: recordLedger, If: driver.Absent(), Value: g.name(asJoiner), Optional: true}
}

// learnLedger takes in what a join has found. The request had the op last.
func (g *group) learnLedger(i int, j driver.Joined) {
	if !g.rs[i].Ledger {
		return
	}
	r := j.Ops[len(j.Ops)-1]
	l := &g.ledgers[i]
	l.kept, l.seen = true, r.Record
	if r.Done || r.Record.Version == 0 { // if it is not known, an earlier attempt may have entered it
		l.seen.Value = g.name(asJoiner)
	}
	g.stands(l, l.seen.Value)
}

// stands takes in which name stands in a ledger.
func (g *group) stands(l *ledger, name []byte) {
	l.name, l.own = name, bytes.Equal(name, g.name(asJoiner)) || bytes.Equal(name, g.name(asHolder))
}

// enter learns how the last hold ended, and enters the name of an entry that holds, where
// neither the own join has done so nor the name of a holder that died is to stay. It is
// idempotent.
func (g *group) enter(ctx context.Context, i int) error {
	l, en := &g.ledgers[i], g.entries[i]
	if en.waited == 0 && l.seen.Version != 0 && g.account(l, en, l.seen) {
		return nil // as the join has shown: no other entry has held since
	}
	op := driver.Op{Record: recordLedger, If: driver.Absent(), Value: g.name(asHolder)}
	for {
		l.open = true
		_, err := g.update(ctx, i, driver.UpdateRequest{Ops: []driver.Op{op}})
		refused, ok := errors.AsType[*driver.RefusedError](err)
		l.open = err != nil && !ok && !errors.Is(err, driver.ErrGone) && !driver.Incurable(err)
		switch {
		case err == nil:
			l.past = door.PastClean
			g.stands(l, op.Value)
			return nil
		case !ok:
			return err
		}
		r := refused.Record
		if !refused.Known {
			if r, err = readRecord(ctx, g.e.s, en.Queue, recordLedger); err != nil {
				return err
			}
		}
		if r.Version != 0 && g.account(l, en, r) {
			return nil
		}
		op.If = driver.At(r.Version)
	}
}

// account takes in what stands in a ledger while the entry holds, and reports whether it
// is to stay: an own name, or that of a holder that died.
func (g *group) account(l *ledger, en *entry, r driver.Record) bool {
	g.stands(l, r.Value)
	behind := r.Token > en.Token && strings.HasPrefix(string(r.Value), asJoiner)
	if l.past = door.PastClean; !l.own && !behind {
		l.past = door.PastDied
	}
	return l.own || !behind
}

// settle learns which names stand in the ledgers, where that is not known: or a request
// that held nothing could leave its name there, as if a holder had died.
func (g *group) settle(ctx context.Context) error {
	for i := range g.ledgers {
		if g.ledgers[i].open {
			if err := g.enter(ctx, i); g.ledgers[i].open {
				return err
			}
		}
	}
	return nil
}

// strike is which name an entry takes from the ledger when it leaves.
type strike uint8

const (
	strikeNone strike = iota
	strikeOwn
	strikeAny // also that of a holder that died
)

// op returns the change that takes the name from the ledger, if it is to be taken.
func (l *ledger) op(how strike) (driver.Op, bool) {
	if failpoint.On(failpoint.StruckByWaiter) && how == strikeOwn {
		how = strikeAny
	}
	strikes := l.kept && len(l.name) > 0 && (how == strikeAny || how == strikeOwn && l.own)
	return driver.Op{Record: recordLedger, If: driver.Equal(l.name), Optional: true}, strikes
}

// past returns how the last holds ended, all in all: badly, if one of them did.
func (g *group) past() door.Past {
	all := door.PastUnknown
	for i, l := range g.ledgers {
		if l.past == door.PastClean && g.entries[i].foreign {
			l.past = door.PastUnknown // the last holder was one that enters nothing
		}
		if i == 0 || l.past == door.PastDied || l.kept && all == door.PastClean {
			all = l.past
		}
	}
	return all
}
