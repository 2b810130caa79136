package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// records are the records of a request: its names in the ledgers, and its slot. The goroutine of
// the call uses them, and after it the one that releases: no removal in the background begins before
// the call's goroutine is done with them. Removals share them under the mutex of the queues.
type records struct {
	es *entries

	// nonce names the request in records; "" until it is needed. It never changes then.
	nonce string

	// ledgers are by queue.
	ledgers []ledger

	// slot is the number that was asked for last, or that the request got; -1 before that.
	slot int

	// asked are the slots that the request may have got: the last maxAsked that it has asked for.
	asked []int

	// slotToken is the token of the record of the slot; 0 before the request has it.
	slotToken int64
}

// name returns the name of the request in records, with a prefix.
func (rec *records) name(prefix string) []byte {
	if rec.nonce == "" {
		rec.nonce = fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
	}
	return []byte(prefix + rec.nonce)
}

// prepare does at the service what is to be done before a hold can be used: it writes the records,
// and waits for the delay after a death. again reports that a place was lost, for no reason that the
// caller gave.
//
//	the outcome of a record is not known   written once more, for as long as ctx and the term let it
//	the term ends                          the request joins again
//	ctx ends                               the request gives up
//	an entry is gone, the session is over  the request joins again
//	the service refuses                    the request fails, and the entries leave
func (rec *records) prepare(ctx context.Context, delays func(time.Duration)) (again bool, err error) {
	es := rec.es
	t := es.qs.t
	inner, cancel := t.Within(ctx)
	defer cancel()
	// After an outcome that is not known, write once more: if the entry is gone, that shows it.
	backoff := driver.Backoff{Least: minBackoff, Most: maxBackoff}
	for {
		err = rec.write(inner)
		// inner ends a moment after the term.
		if !errors.Is(err, driver.ErrUnavailable) || t.Context().Err() != nil || !backoff.Sleep(inner, es.qs.clock) {
			break
		}
	}
	if err == nil {
		err = rec.waitDelay(inner, delays)
	}
	switch {
	case err == nil:
		return false, nil
	case t.Context().Err() != nil:
		return true, es.rejoin(context.Cause(t.Context())) //nolint:contextcheck // why the term has ended
	case ctx.Err() != nil:
		return false, es.giveUp(ctx)
	case errors.Is(err, driver.ErrGone), errors.Is(err, driver.ErrSessionOver):
		t.Renew()
		again, err = true, es.rejoin(errPlaceLost)
	}
	es.clean()
	return again, err
}

// write writes what others are to find of a request that holds: its names in the ledgers, and its
// slot. It is idempotent.
func (rec *records) write(ctx context.Context) error {
	for i, l := range rec.ledgers {
		if !l.kept {
			continue
		}
		if err := rec.enter(ctx, i); err != nil {
			return err
		}
	}
	if rec.es.rs[0].Slots {
		return rec.takeSlot(ctx)
	}
	return nil
}

// waitDelay waits for the time in which a holder that died may still be at work.
func (rec *records) waitDelay(ctx context.Context, delays func(time.Duration)) error {
	var d time.Duration
	for i, l := range rec.ledgers {
		if l.past == PastDied {
			d = max(d, rec.es.rs[i].Delay)
		}
	}
	if d == 0 {
		return nil
	}
	if delays != nil {
		delays(d)
	}
	rec.es.qs.do(rec.es.group.Guard)
	timer := make(chan struct{})
	defer rec.es.qs.clock.AfterFunc(d, func() { close(timer) })()
	select {
	case <-timer:
		return nil
	case <-rec.es.lost:
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
func (rec *records) ask(n int) {
	rec.slot = n
	if slices.Contains(rec.asked, n) {
		return
	}
	rec.asked = append(rec.asked, n)
	rec.asked = rec.asked[max(0, len(rec.asked)-maxAsked):]
}

// takeSlot asks for a slot, one number after another, until the service has given it one. The record
// of a slot is bound to the session and has the name of the request, so that an attempt without an
// answer is recognised. It asks for the slot whose number is that of the entries ahead, for which no
// other request asks that was granted at the same moment; then for the lowest free one. If it
// has asked before, it asks for the same one, which it may have.
//
//	the update                             then
//	was done                               the slot is the request's
//	was refused, and the record is ours    an earlier attempt got it
//	was refused, and another one is there  the lowest slot that the read shows as free is next
//	another error                          returned: the slot stays in asked, and the release frees it
func (rec *records) takeSlot(ctx context.Context) error {
	en := rec.es.group.Entries[0]
	n := en.Ahead()
	if rec.slot >= 0 {
		n = rec.slot
	}
	for {
		rec.es.qs.do(func() { rec.ask(n) })
		op := driver.Op{Record: recordSlot + strconv.Itoa(n), If: driver.Absent(), Value: rec.name(""), Bound: true}
		results, err := rec.es.update(ctx, 0, driver.UpdateRequest{Marks: driver.MarkAdmitted, Ops: []driver.Op{op}})
		if err == nil {
			rec.slotToken = results[0].Record.Token
			return nil
		}
		if _, ok := errors.AsType[*driver.RefusedError](err); !ok {
			return err
		}
		v, err := rec.es.qs.s.Read(ctx, driver.ReadRequest{Queue: en.Queue, Nearest: 1, Records: []string{recordSlot}})
		if err != nil {
			return err //nolint:wrapcheck // the backend's own error
		}
		r := v.Records[op.Record]
		if bytes.Equal(r.Value, op.Value) { // an earlier attempt got it
			rec.slotToken = r.Token
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
	op := driver.Op{Record: recordLedger, If: driver.Equal(l.name), Optional: true}
	if !l.own { // no condition names all that another program may have written
		op.If = driver.At(l.at)
	}
	return op, l.kept && (l.own && how != clearNone || l.at != 0 && how == clearAny)
}

// undo returns the changes of records that the deletion of an entry includes.
func (rec *records) undo(i int, how clearing) (ops []driver.Op) {
	op, ok := rec.ledgers[i].op(how)
	if ok {
		ops = append(ops, op)
	}
	if how == clearAny {
		ops = append(ops, rec.lifeOps(&rec.ledgers[i])...)
	}
	for _, n := range rec.asked {
		ops = append(ops, driver.Op{Record: recordSlot + strconv.Itoa(n), If: driver.Equal(rec.name("")), Bound: true, Optional: true})
	}
	return ops
}
