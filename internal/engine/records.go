package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/failpoint"
	"github.com/fairlock/fairlock/session/driver"
)

// records are the records of a request: its names in the ledgers, and its slot.
type records struct {
	g         *group
	nonce     string   // names the request in records; "": it has none yet
	ledgers   []ledger // by queue
	slot      int      // asked for last, or got; -1: none. The engine's mutex guards it, and asked
	asked     []int    // which slots were asked for: the last maxAsked
	slotToken int64
}

// name returns the name of the request in records, with a prefix.
func (rs *records) name(prefix string) []byte {
	if rs.nonce == "" {
		rs.nonce = fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
	}
	return []byte(prefix + rs.nonce)
}

// write writes what others are to find of a request that holds: its names in the ledgers, and its
// slot. It is idempotent.
func (rs *records) write(ctx context.Context) error {
	for i, l := range rs.ledgers {
		if !l.kept {
			continue
		}
		if err := rs.enter(ctx, i); err != nil {
			return err
		}
	}
	if rs.g.rs[0].Slots {
		return rs.takeSlot(ctx)
	}
	return nil
}

// waitDelay waits for the time in which a holder that died may still be at work.
func (rs *records) waitDelay(ctx context.Context, delays func(time.Duration)) error {
	var d time.Duration
	for i, l := range rs.ledgers {
		if l.past == door.PastDied {
			d = max(d, rs.g.rs[i].Delay)
		}
	}
	if d == 0 {
		return nil
	}
	if delays != nil {
		delays(d)
	}
	rs.g.e.do(rs.g.protect)
	timer := make(chan struct{})
	defer rs.g.e.clock.AfterFunc(d, func() { close(timer) })()
	select {
	case <-timer:
		return nil
	case <-rs.g.lost:
		return driver.ErrGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// recordSlot begins the names of the records of slots. Such a record is bound to the
// session, and has the name of the request.
const recordSlot = "slot/"

// maxAsked is how many slots a release frees at most. etcd takes 128 operations at once.
const maxAsked = 16

// ask records a slot that is about to be asked for. The release frees it, whatever the answer
// is: if an attempt was not answered, and the next one was refused, the first can still be
// carried out, until the entry is deleted.
func (rs *records) ask(n int) {
	if rs.slot = n; slices.Contains(rs.asked, n) {
		return
	}
	rs.asked = append(rs.asked, n)
	rs.asked = rs.asked[max(0, len(rs.asked)-maxAsked):]
}

// takeSlot asks for the slot whose number is that of the entries ahead, for which no
// other request asks that was granted at the same moment; then for the lowest free one. If it
// has asked before, it asks for the same one, which it may have.
func (rs *records) takeSlot(ctx context.Context) error {
	en := rs.g.entries[0]
	n := en.count
	if rs.slot >= 0 {
		n = rs.slot
	}
	for {
		rs.g.e.do(func() { rs.ask(n) })
		if failpoint.On(failpoint.SlotUnclaimed) {
			rs.slotToken = en.Token
			return nil
		}
		op := driver.Op{Record: recordSlot + strconv.Itoa(n), If: driver.Absent(), Value: rs.name(""), Bound: true}
		results, err := rs.g.update(ctx, 0, driver.UpdateRequest{Marks: driver.MarkAdmitted, Ops: []driver.Op{op}})
		if err == nil {
			rs.slotToken = results[0].Record.Token
			return nil
		}
		if _, ok := errors.AsType[*driver.RefusedError](err); !ok {
			return err
		}
		v, err := rs.g.e.s.Read(ctx, driver.ReadRequest{Queue: en.Queue, Nearest: 1, Records: []string{recordSlot}})
		if err != nil {
			return err //nolint:wrapcheck // the backend's own error
		}
		if r := v.Records[op.Record]; bytes.Equal(r.Value, op.Value) { // an earlier attempt got it
			rs.slotToken = r.Token
			return nil
		}
		for n = 0; v.Records[recordSlot+strconv.Itoa(n)].Version != 0; n++ {
		}
	}
}

// clearing is which names an entry clears from the ledger when it leaves.
type clearing uint8

const (
	clearNone clearing = iota
	clearOwn
	clearAny // also that of a holder that died
)

// op returns the change that clears the name in a ledger, and whether there is one to clear.
func (l *ledger) op(how clearing) (driver.Op, bool) {
	if failpoint.On(failpoint.LedgerClearedByWaiter) && how == clearOwn {
		how = clearAny
	}
	op := driver.Op{Record: recordLedger, If: driver.Equal(l.name), Optional: true}
	if !l.own { // no condition names all that another program may have written
		op.If = driver.At(l.at)
	}
	return op, l.kept && (l.own && how != clearNone || l.at != 0 && how == clearAny)
}

// undo returns the changes of records that the deletion of an entry includes.
func (rs *records) undo(i int, how clearing) (ops []driver.Op) {
	if op, ok := rs.ledgers[i].op(how); ok {
		ops = append(ops, op)
	}
	for _, n := range rs.asked {
		ops = append(ops, driver.Op{Record: recordSlot + strconv.Itoa(n), If: driver.Equal(rs.name("")), Bound: true, Optional: true})
	}
	return ops
}
